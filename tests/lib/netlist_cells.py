"""Python expressions that compute the nets of a netlist, with one integer per bit (netlist.py).

An expression is in brackets unless it is a name or a constant.
"""

from collections.abc import Callable
from typing import Any, Protocol

from amaranth.hdl import _nir as nir
from amaranth.hdl._nir import Net

Bits = list[str]  # expressions, lowest bit first


class Names(Protocol):
    """An occurrence of a component: the prefix of its names, and its nets dealt with so far."""

    prefix: str
    known: dict[Net, str]


class Emitter:
    """The statements for one net, or for all nets of a cell whose bits hang together."""

    def __init__(self, scope: Names, net: Net) -> None:
        self.known, self.prefix, self.net = scope.known, scope.prefix, net
        self.lines: list[str] = []

    def cell(self, cell: nir.Cell) -> list[str]:
        bit = self.net.bit
        if isinstance(cell, nir.Operator):
            self._operator_cell(cell)
        elif isinstance(cell, nir.AssignmentList):
            value = self._of(cell.default[bit])
            for item in cell.assignments:
                if item.start <= bit < item.start + len(item.value):
                    assigned = self._of(item.value[bit - item.start])
                    value = self._keep(_mux(self._of(item.cond), assigned, value))
            self._set(bit, value)
        elif isinstance(cell, nir.Part):
            value, offset = [self._of(net) for net in cell.value], map(self._of, cell.offset)
            operator, fill = ("s>>", value[-1]) if cell.value_signed else ("u>>", "0")
            value += [fill] * (cell.width - len(value))
            shifted = self._shift(operator, value, list(offset), cell.stride)
            for place, expression in enumerate(shifted[: cell.width]):
                self._set(place, expression)
        elif isinstance(cell, nir.Matches):
            value = [self._of(net) for net in cell.value]
            matches = [_match(value, pattern) for pattern in cell.patterns]
            self._set(bit, _of_all(_or, matches))
        elif isinstance(cell, nir.PriorityMatch):
            left = self._of(cell.en)
            for net in cell.inputs[:bit]:
                left = self._keep(_and(left, _not(self._of(net))))
            self._set(bit, _and(left, self._of(cell.inputs[bit])))
        else:
            raise TypeError(f"no rule for {type(cell).__name__}")
        return self.lines

    def _operator_cell(self, cell: nir.Operator) -> None:
        bit = self.net.bit
        if cell.operator in BITWISE:
            nets = [value[bit if len(value) > 1 else 0] for value in cell.inputs]
            self._set(bit, BITWISE[cell.operator](*map(self._of, nets)))
            return
        values = [[self._of(net) for net in value] for value in cell.inputs]
        results = self._operator(cell.operator, values[0], values[1] if values[1:] else [])
        for place, expression in enumerate(results):
            self._set(place, expression)

    def _of(self, net: Any) -> str:
        return self.known[net]

    def _set(self, bit: int, expression: str) -> None:
        net = Net.from_cell(self.net.cell, bit)
        if _is_simple(expression):
            self.known[net] = expression
            return
        self.known[net] = f"n{self.prefix}{net.cell}_{bit}"
        self.lines.append(f"{self.known[net]} = {expression}")

    def _keep(self, expression: str) -> str:
        if _is_simple(expression):
            return expression
        name = f"t{self.prefix}{self.net.cell}_{self.net.bit}_{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def _operator(self, operator: str, a: Bits, b: Bits) -> Bits:
        if operator in REDUCTIONS:
            return [_of_all(REDUCTIONS[operator], a) or ("ones" if operator == "r&" else "0")]
        if operator == "+":
            return self._add(a, b, "0")
        if operator == "-":  # of one operand or two
            minuend, subtrahend = (a, b) if b else (["0"] * len(a), a)
            return self._add(minuend, [_not(x) for x in subtrahend], "ones")
        if operator == "*":
            return self._multiply(a, b)
        if operator in ("==", "!="):
            differ = _of_all(_or, [_xor(x, y) for x, y in zip(a, b, strict=True)])
            return [differ if operator == "!=" else _not(differ)]
        if operator in ("<<", "u>>", "s>>"):
            return self._shift(operator, a, b)
        return [self._compare(operator, a, b)]

    def _add(self, a: Bits, b: Bits, carry: str) -> Bits:
        total = []
        for x, y in zip(a, b, strict=True):
            differ = self._keep(_xor(x, y))
            total.append(self._keep(_xor(differ, carry)))
            carry = self._keep(_or(_and(x, y), _and(carry, differ)))
        return total

    def _multiply(self, a: Bits, b: Bits) -> Bits:
        total = ["0"] * len(a)
        for place, x in enumerate(b):
            row = ["0"] * place + [_and(x, y) for y in a[: len(a) - place]]
            total = self._add(total, row, "0")
        return total

    def _compare(self, operator: str, a: Bits, b: Bits) -> str:
        """Compares bits from the lowest up; a sign bit counts the other way."""
        if operator[1] == ">":
            a, b = b, a
        less = "ones" if operator.endswith("=") else "0"
        signs = len(a) - 1 if operator[0] == "s" else None
        for bit, (x, y) in enumerate(zip(a, b, strict=True)):
            low, high = (y, x) if bit == signs else (x, y)
            less = self._keep(_mux(_xor(x, y), _and(_not(low), high), less))
        return less

    def _shift(self, operator: str, a: Bits, amount: Bits, stride: int = 1) -> Bits:
        fill = a[-1] if operator == "s>>" else "0"
        for level, select in enumerate(amount):
            by = min(stride << level, len(a))
            moved = ["0"] * by + a[:-by] if operator == "<<" else a[by:] + [fill] * by
            a = [self._keep(_mux(select, x, y)) for x, y in zip(moved, a, strict=True)]
        return a


# Expressions, in brackets unless they are names or constants, of which what is known is left out.


def _is_simple(expression: str) -> bool:
    return expression[0] != "("


def _not(x: str) -> str:
    return _xor(x, "ones")


def _and(x: str, y: str) -> str:
    if "0" in (x, y):
        return "0"
    if x == "ones":
        return y
    return x if y in ("ones", x) else f"({x} & {y})"


def _or(x: str, y: str) -> str:
    if "ones" in (x, y):
        return "ones"
    if x == "0":
        return y
    return x if y in ("0", x) else f"({x} | {y})"


def _xor(x: str, y: str) -> str:
    if x == y:
        return "0"
    if x == "0":
        return y
    if y == "0":
        return x
    return f"({x} ^ {y})"


def _mux(select: str, yes: str, no: str) -> str:
    return _xor(no, _and(select, _xor(yes, no)))


def _match(value: Bits, pattern: str) -> str:
    """True if `value` fits `pattern`, which has its highest bit first."""
    pairs = zip(value, reversed(pattern), strict=True)
    return _of_all(_and, [x if p == "1" else _not(x) for x, p in pairs if p != "-"]) or "ones"


def _of_all(operator: Callable[[str, str], str], terms: Bits) -> str:
    """Nested halves, each in brackets, because Python limits the depth; "" for no terms."""
    if len(terms) < 2:
        return "".join(terms)
    half = len(terms) // 2
    return operator(_of_all(operator, terms[:half]), _of_all(operator, terms[half:]))


REDUCTIONS = {"b": _or, "r|": _or, "r&": _and, "r^": _xor}
BITWISE = {"&": _and, "|": _or, "^": _xor, "~": _not, "m": _mux}
