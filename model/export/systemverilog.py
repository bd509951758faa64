"""SystemVerilog: a package of automatic functions for benches."""

from .printer import LARGEST_PLAIN, Printer
from .program import ARRAYS, BOOL, INT, WIDE, Function

_WIDE = """
  typedef logic signed [WIDE_BITS-1:0] wide_t;

  // Binary digits of an integer that is not negative.
  function automatic longint length(input wide_t x);
    wide_t rest;
    longint n;
    rest = x;
    n = 0;
    for (longint count = @HALF; count > 0; count = count / 2) begin
      if ((rest >>> count) != 0) begin
        rest = rest >>> count;
        n = n + count;
      end
    end
    return rest != 0 ? n + 1 : n;
  endfunction

  // The lowest digits of an integer.
  function automatic wide_t low_part(input wide_t x, input longint count);
    return x & ~(wide_t'(-1) <<< count);
  endfunction
"""
_RESULT = """
  // Flags and bits of a dot product: {saturated, inexact, underflow, overflow, invalid, float32}.
  // a and b hold codes, scale_a and scale_b one E8M0 code per block of `block` elements.
  function automatic logic [36:0] compute(const ref codes_t a, const ref codes_t b,
      const ref codes_t scale_a, const ref codes_t scale_b, input int block, input logic [31:0] c);
    return 37'(@MAIN(a, b, scale_a, scale_b, longint'(scale_a.size()), longint'(block),
        longint'({32'b0, c})));
  endfunction
"""


class SystemVerilog(Printer):
    """A package; `compute` is the function for users."""

    otherwise = "end else begin"
    opening = " begin"
    closing = "end"

    def type(self, kind: str) -> str:
        arrays = dict.fromkeys(ARRAYS, "codes_t")
        return {INT: "longint", BOOL: "bit", WIDE: "wide_t", **arrays}[kind]

    def begin(self) -> list[str]:
        values = self.program.constants
        half = 1 << values["WIDE_BITS"].bit_length() - 1
        return [
            f"package {self.prefix.removesuffix('_')};",
            *(f"  localparam longint {n} = {self.long(v)};" for n, v in values.items()),
            "",
            "  typedef int codes_t[];  // from 0",
            *_WIDE.replace("@HALF", str(half)).rstrip("\n").split("\n"),
        ]

    def end(self) -> list[str]:
        main = self.program.functions[-1].name
        return [*_RESULT.replace("@MAIN", main).rstrip("\n").split("\n"), "endpackage"]

    def remark(self, text: str) -> list[str]:
        return ["  " + line for line in super().remark(text)]

    def define(self, function: Function) -> list[str]:
        """An automatic function; variables are declared first."""
        parameters = ", ".join(
            f"{'const ref' if t in ARRAYS else 'input'} {self.type(t)} {n}"
            for n, t in function.parameters.items()
        )
        result = self.type(function.result)
        return [
            *self.remark(function.text),
            f"  function automatic {result} {function.name}({parameters});",
            *(f"    {self.type(t)} {n};" for n, t in function.variables.items()),
            *self.statements(function.body, 2),
            "  endfunction",
        ]

    def loop(self, name: str, stop: str) -> str:
        return f"for (longint {name} = 0; {name} < {stop}; {name}++) begin"

    def call(self, name: str, arguments: list[str]) -> str:
        if name in ("wide", "narrow"):
            kind = "wide_t" if name == "wide" else "longint"
            return f"{kind}'({arguments[0]})"
        return super().call(name, arguments).removeprefix(self.prefix)

    def binary(self, symbol: str, left: str, right: str, is_wide: bool) -> str:
        """Operators; shifts of wide integers keep the sign."""
        symbol = (
            {"<<": "<<<", ">>": ">>>"}[symbol] if is_wide and symbol in ("<<", ">>") else symbol
        )
        return f"({left} {symbol} {right})"

    def number(self, value: int) -> str:
        return str(value) if abs(value) <= LARGEST_PLAIN else self.long(value)

    def long(self, value: int) -> str:
        return f"-64'sd{-value}" if value < 0 else f"64'sd{value}"

    def element(self, array: str, kind: str, index: str) -> str:
        index = index[1:-1] if index.startswith("(") else index
        return f"longint'({array}[{index}])"
