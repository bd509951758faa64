"""Sail, the language of the RISC-V specification: integers without bounds."""

import ast

from .printer import Printer
from .program import BOOL, Function

_BUILT_IN = """
// The bitwise operations of integers from 0 to 2^64 - 1.
val @and_int : (int, int) -> int
function @and_int(x, y) = unsigned(get_slice_int(64, x, 0) & get_slice_int(64, y, 0))

val @or_int : (int, int) -> int
function @or_int(x, y) = unsigned(get_slice_int(64, x, 0) | get_slice_int(64, y, 0))

// Binary digits of an integer that is not negative.
val @length : int -> int
function @length(x) = {
  var rest : int = x;
  var n : int = 0;
  while rest >= 4294967296 do {
    rest = shr_int(rest, 32);
    n = n + 32
  };
  while rest > 0 do {
    rest = shr_int(rest, 1);
    n = n + 1
  };
  n
}

// The lowest digits of an integer.
val @low_part : (int, int) -> int
function @low_part(x, count) = x - shl_int(shr_int(x, count), count)
"""
_RESULT = """
// Flags and bits of a dot product: @flags @ bits of a float32, where the flags are
// saturated, inexact, underflow, overflow and invalid, from the highest bit to the lowest.
// a and b are vector registers with element 0 in the lowest @CODE_A and @CODE_B bits; scale_a and
// scale_b hold one E8M0 code of 8 bits per block of `block` elements.
val @NAME : (int, int, int, int, int, int, bits(32)) -> bits(37)
function @NAME(a, b, scale_a, scale_b, blocks, block, c) =
  get_slice_int(37, @MAIN(a, b, scale_a, scale_b, blocks, block, unsigned(c)), 0)
"""


class Sail(Printer):
    """A fragment to include after the Sail prelude."""

    both = "&"
    either = "|"

    def begin(self) -> list[str]:
        values = {n: v for n, v in self.program.constants.items() if n != "WIDE_BITS"}
        constants = [f"let {self.constant(n)} : int = {self.number(v)}" for n, v in values.items()]
        return ["", "default Order dec", "$include <prelude.sail>", "", *constants,
                *_BUILT_IN.replace("@", self.prefix).rstrip("\n").split("\n")]  # fmt: skip

    def end(self) -> list[str]:
        names = {
            "@flags @ bits": "flags @ bits",
            "@CODE_A": str(self.code_bits[0]),
            "@CODE_B": str(self.code_bits[1]),
            "@NAME": self.prefix.removesuffix("_"),
            "@MAIN": self.prefix + self.program.functions[-1].name,
        }
        text = _RESULT
        for name, value in names.items():
            text = text.replace(name, value)
        return text.rstrip("\n").split("\n")

    def define(self, function: Function) -> list[str]:
        """A function with its signature; variables are declared first."""
        result = "bool" if function.result == BOOL else "int"
        kinds = ["bool" if t == BOOL else "int" for t in function.parameters.values()]
        signature = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
        name = self.prefix + function.name
        body = self.statements(function.body, 1)
        body[-1] = body[-1].replace("return ", "")
        return [
            *self.remark(function.text),
            f"val {name} : {signature} -> {result}",
            f"function {name}({', '.join(function.parameters)}) = {{",
            *(
                f"  var {n} : {'bool' if t == BOOL else 'int'} = {self.zero(t)};"
                for n, t in function.variables.items()
            ),
            *body,
            "}",
        ]

    def statements(self, body: list[ast.stmt], depth: int) -> list[str]:
        """Lines of statements, between which there are semicolons."""
        lines = super().statements(body, depth)
        return [*lines[:-1], lines[-1].removesuffix(";")]

    def condition(self, test: str) -> str:
        return f"if {test} then {{"

    def repeat(self, test: str) -> str:
        return f"while {test} do {{"

    def loop(self, name: str, stop: str) -> str:
        return f"foreach ({name} from 0 to ({stop} - 1)) {{"

    def closed(self, kind: str) -> str:
        return "};"

    def choice(self, test: str, yes: str, no: str) -> str:
        return f"(if {test} then {yes} else {no})"

    def negated(self, value: str) -> str:
        return f"not_bool({value})"

    def truth(self, value: bool) -> str:
        return str(value).lower()

    def number(self, value: int) -> str:
        return str(value)

    def constant(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def call(self, name: str, arguments: list[str]) -> str:
        """A call; integers have no bounds."""
        return arguments[0] if name in ("wide", "narrow") else super().call(name, arguments)

    def binary(self, symbol: str, left: str, right: str, is_wide: bool) -> str:
        """Operators; shifts and bitwise operations are functions."""
        own = {"&": "and_int", "|": "or_int"}
        library = {"<<": "shl_int", ">>": "shr_int", "/": "tdiv_int", "%": "tmod_int"}
        if symbol in own:
            return f"{self.prefix}{own[symbol]}({left}, {right})"
        if symbol in library:
            return f"{library[symbol]}({left}, {right})"
        return f"({left} {symbol} {right})"

    def element(self, array: str, kind: str, index: str) -> str:
        """An element: digits of the integer that holds the array."""
        widths = {"CodesA": self.code_bits[0], "CodesB": self.code_bits[1], "Scales": 8}
        return f"unsigned(get_slice_int({widths[kind]}, {array}, {widths[kind]} * {index}))"
