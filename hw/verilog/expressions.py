"""Operators of a netlist as Verilog expressions.

Verilog widens an operand to what is around it. Here every operand is written with as many bits as
its operator works on, so that an expression means the same wherever it stands.
"""

from dataclasses import dataclass

from .live import BITWISE
from .netlist import Bit, Bits, Cell

# How tightly an expression holds together; a looser one is put in parentheses.
NAME, UNARY, PRODUCT, SUM, SHIFT, ORDER, EQUAL, AND, XOR, OR, CHOICE = range(11)
BINARY = {
    "$mul": ("*", PRODUCT),
    "$add": ("+", SUM),
    "$sub": ("-", SUM),
    "$shl": ("<<", SHIFT),
    "$sshl": ("<<", SHIFT),
    "$shr": (">>", SHIFT),
    "$shift": (">>", SHIFT),
    "$shiftx": (">>", SHIFT),
    "$sshr": (">>>", SHIFT),
    "$lt": ("<", ORDER),
    "$le": ("<=", ORDER),
    "$gt": (">", ORDER),
    "$ge": (">=", ORDER),
    "$eq": ("==", EQUAL),
    "$ne": ("!=", EQUAL),
    "$and": ("&", AND),
    "$xor": ("^", XOR),
    "$or": ("|", OR),
    "$logic_and": ("&", AND),
    "$logic_or": ("|", OR),
}
ONE_OPERAND = {
    "$not": "~",
    "$neg": "-",
    "$pos": "",
    "$reduce_and": "&",
    "$reduce_or": "|",
    "$reduce_bool": "|",
    "$reduce_xor": "^",
    "$reduce_xnor": "~^",
    "$logic_not": "~|",
}
SHIFTS = frozenset({"$shl", "$sshl", "$shr", "$sshr", "$shift", "$shiftx"})
CUT_ABOVE = frozenset({"$add", "$sub", "$mul", "$neg", "$shl", "$sshl"})  # low digits suffice


@dataclass(frozen=True)
class Text:
    """An expression and how tightly it holds together."""

    text: str
    level: int

    def inside(self, level: int) -> str:
        """The text as an operand of an operator of this level."""
        logic = (AND, XOR, OR)
        mixed = self.level in logic and level != self.level and level != CHOICE
        within = level in logic and (
            SUM <= self.level <= EQUAL or (self.level == UNARY and self.text[0] in "&|^")
        )
        return f"({self.text})" if self.level > level or mixed or within else self.text


@dataclass(frozen=True)
class Operation:
    """An operator with the bits of its operands, all as wide as it works, and of its result.

    choices: for a choice of several values the bits that select them.
    """

    kind: str
    operands: tuple[Bits, ...]
    out: Bits
    choices: Bits = ()
    signed: bool = False

    @property
    def bits(self) -> Bits:
        """All bits that it reads."""
        return (*self.choices, *(bit for operand in self.operands for bit in operand))


def operation(cell: Cell, live: set[Bit]) -> Operation:
    """The operation of a cell, without the digits of the result that do not matter."""
    y = cell.outputs["Y"]
    kind, signed = cell.kind, bool(cell.parameters.get("A_SIGNED"))
    wanted = [i for i, bit in enumerate(y) if bit in live]

    def extended(bits: Bits, width: int) -> Bits:
        fill = bits[-1] if signed and bits else "0"
        return bits[:width] + (fill,) * (width - len(bits))

    if kind in BITWISE:
        size = len(y)
        named = cell.inputs
        parts = [named[name] for name in ("A", "B") if name in named]
        if kind == "$pmux":
            b = named["B"]
            parts = [named["A"], *(b[i : i + size] for i in range(0, len(b), size))]
        operands = tuple(tuple(extended(part, size)[i] for i in wanted) for part in parts)
        return Operation(kind, operands, tuple(y[i] for i in wanted), named.get("S", ()))
    a, b = cell.inputs["A"], cell.inputs.get("B", ())
    if kind in CUT_ABOVE:
        y = y[: max(wanted) + 1]
    if kind in SHIFTS:
        if cell.parameters.get("B_SIGNED") and kind in ("$shift", "$shiftx"):
            raise ValueError(f"shifts must be to one side, not both as in {cell.name}")
        width = len(y) if kind in CUT_ABOVE else max(len(a), len(y))
        return Operation(kind, (extended(a, width), b), y, signed=signed and kind == "$sshr")
    if kind == "$mul":
        return Operation(kind, (a[: len(y)], b[: len(y)]), y, signed=signed)
    if kind in ("$add", "$sub", "$neg"):
        return Operation(kind, tuple(extended(x, len(y)) for x in (a, b) if x), y)
    if kind in ("$lt", "$le", "$gt", "$ge", "$eq", "$ne"):
        width = max(len(a), len(b))
        order = signed and kind not in ("$eq", "$ne")
        return Operation(kind, (extended(a, width), extended(b, width)), y[:1], signed=order)
    if kind in ("$logic_and", "$logic_or") and len(a) == len(b) == 1:
        return Operation(kind, (a, b), y[:1])
    if kind in ONE_OPERAND:
        return Operation(kind, (a,), y[:1])
    raise ValueError(f"operators must be known to the writer of Verilog, not {kind}")


def own_width(found: Operation) -> int:
    """The width of the expression by itself; 0 where it depends on what is around it."""
    if found.kind == "$mul" or found.signed:
        return 0
    one = found.kind in ("$lt", "$le", "$gt", "$ge", "$eq", "$ne")
    return 1 if one or found.kind.startswith(("$reduce", "$logic")) else len(found.operands[0])


def text_of(found: Operation, operands: list[Text], choices: list[Text]) -> Text:
    """The expression, of the texts of its operands and of the bits that choose."""
    kind = found.kind
    if kind == "$mux":
        unless, when = operands
        return _choice(choices, [when], unless)
    if kind == "$pmux":
        unless, *when = operands
        return _choice(choices, when, unless)
    if kind in ONE_OPERAND:
        sign = ONE_OPERAND[kind]
        if kind.startswith(("$reduce", "$logic")) and len(found.operands[0]) == 1:
            sign = "~" if kind == "$logic_not" else ""
        inner = operands[0]
        return Text(sign + inner.inside(NAME), UNARY) if sign else inner
    symbol, level = BINARY[kind]
    texts = [operand.inside(level - (i > 0 and level != AND)) for i, operand in enumerate(operands)]
    if level in (AND, XOR, OR):
        texts = [operand.inside(level) for operand in operands]
    if found.signed:
        sides = operands[:1] if kind in SHIFTS else operands
        texts[: len(sides)] = [f"$signed({operand.text})" for operand in sides]
    return Text(f" {symbol} ".join(texts), level)


def _choice(choices: list[Text], when: list[Text], unless: Text) -> Text:
    """The first of the values that is chosen."""
    pairs = zip(choices, when, strict=True)
    parts = [f"{choice.inside(UNARY)} ? {value.inside(OR)}" for choice, value in pairs]
    return Text(" : ".join([*parts, unless.inside(CHOICE)]), CHOICE)
