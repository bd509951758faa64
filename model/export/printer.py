"""Text of programs; a language is a subclass."""

import ast
from abc import ABC, abstractmethod
from textwrap import wrap
from typing import ClassVar

from .program import BOOL, WIDE, Function, Program, type_of

SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
LARGEST_PLAIN = 2**31 - 1


class Printer(ABC):
    """Printer of one program. prefix: beginning of all names. head: lines of the first comment."""

    indent: ClassVar[str] = "  "
    comment: ClassVar[str] = "// "
    both: ClassVar[str] = "&&"
    either: ClassVar[str] = "||"
    opening: ClassVar[str] = " {"
    closing: ClassVar[str] = "}"
    otherwise: ClassVar[str] = "} else {"

    def __init__(
        self, program: Program, prefix: str, head: list[str], widths: tuple[int, int]
    ) -> None:
        self.program, self.prefix, self.head = program, prefix, head
        self.code_bits = widths
        self.function: Function

    def text(self) -> str:
        """The whole file."""
        lines = [*(f"{self.comment}{line}".rstrip() for line in self.head), *self.begin()]
        for function in self.program.functions:
            self.function = function
            lines += ["", *self.define(function)]
        return "\n".join([*lines, *self.end(), ""])

    @abstractmethod
    def begin(self) -> list[str]:
        """Lines before the functions."""

    @abstractmethod
    def end(self) -> list[str]:
        """Lines after them."""

    @abstractmethod
    def define(self, function: Function) -> list[str]:
        """Lines of one function."""

    def remark(self, text: str) -> list[str]:
        """Lines of a comment."""
        return [self.comment + line for line in wrap(text, 96)]

    # Statements ---------------------------------------------------------------------------------

    def statements(self, body: list[ast.stmt], depth: int) -> list[str]:
        lines = []
        for statement in body:
            lines += self.statement(statement, depth)
        return lines

    def statement(self, node: ast.stmt, depth: int) -> list[str]:
        pad = self.indent * depth
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return [f"{pad}{name} = {bare(self.value(value))};"]
            case ast.Return(value=value) if value is not None:
                return [f"{pad}{self.returned(bare(self.value(value)))}"]
            case ast.If(test=test, body=body, orelse=orelse):
                lines = [
                    f"{pad}{self.condition(self.value(test))}",
                    *self.statements(body, depth + 1),
                ]
                if orelse:
                    lines += [f"{pad}{self.otherwise}", *self.statements(orelse, depth + 1)]
                return [*lines, pad + self.closed("if")]
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=[stop]), body=body):
                opened = self.loop(name, self.value(stop))
                return [pad + opened, *self.statements(body, depth + 1), pad + self.closed("for")]
            case ast.While(test=test, body=body):
                opened = self.repeat(self.value(test))
                return [pad + opened, *self.statements(body, depth + 1), pad + self.closed("while")]
        raise NotImplementedError(ast.unparse(node))

    def closed(self, kind: str) -> str:
        """End of an `if`, `for` or `while`."""
        return self.closing

    def returned(self, value: str) -> str:
        """A statement that returns."""
        return f"return {value};"

    def condition(self, test: str) -> str:
        """Beginning of an `if`."""
        return f"if ({bare(test)}){self.opening}"

    def repeat(self, test: str) -> str:
        """Beginning of a `while`."""
        return f"while ({bare(test)}){self.opening}"

    @abstractmethod
    def loop(self, name: str, stop: str) -> str:
        """Beginning of a loop from 0 to `stop` - 1."""

    # Expressions --------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> str:
        """Text of an expression, in brackets where it has an operator."""
        match node:
            case ast.Constant(value=bool() as value):
                return self.truth(value)
            case ast.Constant(value=int() as value):
                return self.number(value)
            case ast.Name(id=name):
                return self.name(name)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
                return self.number(-value)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self.call(name, list(map(self.value, arguments)))
            case ast.Subscript(value=ast.Name(id=name), slice=place):
                return self.element(name, self.function.parameters[name], self.value(place))
        return self.operator(node)

    def operator(self, node: ast.expr) -> str:
        """Text of an expression with an operator."""
        match node:
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.choice(self.value(test), self.value(body), self.value(orelse))
            case ast.BoolOp(op=op, values=values):
                symbol = self.both if isinstance(op, ast.And) else self.either
                return "(" + f" {symbol} ".join(map(self.value, values)) + ")"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.negated(self.value(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return self.operation(SYMBOLS[type(op)], left, right, type_of(left, self.function))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.operation(SYMBOLS[type(op)], left, right, type_of(left, self.function))
        raise NotImplementedError(ast.unparse(node))

    def operation(self, symbol: str, left: ast.expr, right: ast.expr, kind: str) -> str:
        """Text of an operator's result; `kind` is the type of the left operand."""
        if symbol == "<<" and isinstance(left, ast.Constant):
            return self.binary(symbol, self.long(int(str(left.value))), self.value(right), False)
        return self.binary(symbol, self.value(left), self.value(right), kind == WIDE)

    def binary(self, symbol: str, left: str, right: str, is_wide: bool) -> str:
        """Text of an operator's result."""
        return f"({left} {symbol} {right})"

    def choice(self, test: str, yes: str, no: str) -> str:
        """One of two values."""
        return f"({test} ? {yes} : {no})"

    def negated(self, value: str) -> str:
        """The opposite of a truth value."""
        return f"!{value}"

    def truth(self, value: bool) -> str:
        return str(int(value))

    @abstractmethod
    def number(self, value: int) -> str:
        """An integer."""

    def long(self, value: int) -> str:
        """An integer of 64 bits."""
        return self.number(value)

    def name(self, name: str) -> str:
        """A variable or a constant."""
        return self.constant(name) if name in self.program.constants else name

    def constant(self, name: str) -> str:
        return name

    def call(self, name: str, arguments: list[str]) -> str:
        return f"{self.prefix}{name}({', '.join(map(bare, arguments))})"

    @abstractmethod
    def element(self, array: str, kind: str, index: str) -> str:
        """An element of an array."""

    def zero(self, kind: str) -> str:
        """First value of a variable."""
        return self.truth(False) if kind == BOOL else self.number(0)


def bare(text: str) -> str:
    """Text without brackets that are around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text
