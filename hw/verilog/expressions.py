"""Operators of a netlist as Verilog expressions.

Verilog widens an operand to its context. Here every operand is written with as many bits as its
operator works on, so that an expression means the same in every context.
"""

from dataclasses import dataclass
from functools import cached_property

from .netlist import BITWISE, Bit, Bits, Cell

# How tightly an expression holds together; a looser one is put in parentheses.
NAME, UNARY, PRODUCT, SUM, SHIFT, ORDER, EQUAL, AND, XOR, OR, CHOICE = range(11)
BINARY = {
    "$mul": ("*", PRODUCT),
    "$add": ("+", SUM),
    "$sub": ("-", SUM),
    "$shl": ("<<", SHIFT),
    "$shr": (">>", SHIFT),
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
SHIFTS = frozenset({"$shl", "$shr", "$sshr"})
ORDERS = frozenset({"$lt", "$le", "$gt", "$ge", "$eq", "$ne"})
CUT_ABOVE = frozenset({"$add", "$sub", "$mul", "$neg", "$shl"})  # low digits suffice


@dataclass(frozen=True)
class Text:
    """An expression and its binding strength."""

    text: str
    level: int

    def inside(self, level: int) -> str:
        """Text as an operand of an operator of this level."""
        logic = (AND, XOR, OR)
        mixed = self.level in logic and level != self.level and level != CHOICE
        within = level in logic and (
            SUM <= self.level <= EQUAL or (self.level == UNARY and self.text[0] in "&|^")
        )
        return f"({self.text})" if self.level > level or mixed or within else self.text


@dataclass(frozen=True)
class Operation:
    """An operator with the bits of its operands, all as wide as it works, and of its result.

    choices: bits that select among several values.
    """

    kind: str
    operands: tuple[Bits, ...]
    out: Bits
    choices: Bits = ()
    signed: bool = False

    @cached_property
    def bits(self) -> Bits:
        """All bits that it reads."""
        return (*self.choices, *(bit for operand in self.operands for bit in operand))


def operation(cell: Cell, live: set[Bit]) -> Operation:
    """Operation of a cell, without the digits of the result that do not matter."""
    kind, y = cell.kind, cell.outputs["Y"]
    signed = bool(cell.parameters.get("A_SIGNED"))
    if kind in BITWISE:
        return _bitwise(cell, [i for i, bit in enumerate(y) if bit in live], signed)
    if kind in CUT_ABOVE:
        y = y[: max(i for i, bit in enumerate(y) if bit in live) + 1]
    a, b = cell.inputs["A"], cell.inputs.get("B", ())
    if kind in SHIFTS:
        width = len(y) if kind in CUT_ABOVE else max(len(a), len(y))
        arithmetic = signed and kind == "$sshr"
        return Operation(kind, (_extended(a, width, signed), b), y, signed=arithmetic)
    if kind == "$mul":
        return Operation(kind, (a[: len(y)], b[: len(y)]), y, signed=signed)
    if kind in CUT_ABOVE:
        return Operation(kind, tuple(_extended(x, len(y), signed) for x in (a, b) if x), y)
    if kind in ORDERS:
        width = max(len(a), len(b))
        both = _extended(a, width, signed), _extended(b, width, signed)
        return Operation(kind, both, y[:1], signed=signed and kind not in ("$eq", "$ne"))
    if kind in ONE_OPERAND or (kind in BINARY and len(a) == len(b) == 1):
        return Operation(kind, (a, b) if b else (a,), y[:1])
    raise ValueError(f"operators must be known to the writer, not {kind}")


def _extended(bits: Bits, width: int, signed: bool) -> Bits:
    return bits[:width] + (bits[-1] if signed else "0",) * (width - len(bits))


def _bitwise(cell: Cell, wanted: list[int], signed: bool) -> Operation:
    """An operation with independent digits, reduced to the wanted ones."""
    y, inputs = cell.outputs["Y"], cell.inputs
    parts = [inputs[name] for name in ("A", "B") if name in inputs]
    if cell.kind == "$pmux":
        choices = range(0, len(inputs["B"]), len(y))
        parts = [inputs["A"], *(inputs["B"][i : i + len(y)] for i in choices)]
    wide = [_extended(part, len(y), signed) for part in parts]
    operands = tuple(tuple(part[i] for i in wanted) for part in wide)
    return Operation(cell.kind, operands, tuple(y[i] for i in wanted), inputs.get("S", ()))


def own_width(op: Operation) -> int:
    """Width of the expression by itself; 0 if it depends on the context."""
    if op.kind == "$mul" or op.signed:
        return 0
    return (
        1 if op.kind in ORDERS or op.kind.startswith(("$reduce", "$logic")) else len(op.operands[0])
    )


def text_of(op: Operation, operands: list[Text], choices: list[Text]) -> Text:
    """Expression from the texts of its operands and of its selecting bits."""
    kind = op.kind
    if kind == "$mux":
        unless, when = operands
        return _choice(choices, [when], unless)
    if kind == "$pmux":
        unless, *when = operands
        return _choice(choices, when, unless)
    if kind in ONE_OPERAND:
        sign = ONE_OPERAND[kind]
        if kind.startswith(("$reduce", "$logic")) and len(op.operands[0]) == 1:
            sign = "~" if kind == "$logic_not" else ""
        inner = operands[0]
        return Text(sign + inner.inside(NAME), UNARY) if sign else inner
    symbol, level = BINARY[kind]
    texts = [operand.inside(level - (i > 0 and level != AND)) for i, operand in enumerate(operands)]
    if level in (AND, XOR, OR):
        texts = [operand.inside(level) for operand in operands]
    if kind == "$mul":  # in braces an operand stays as wide as it is
        texts = [o.text if o.level == NAME else f"{{{o.text}}}" for o in operands]
    if op.signed:
        sides = operands[:1] if kind in SHIFTS else operands
        texts[: len(sides)] = [f"$signed({operand.text})" for operand in sides]
    return Text(f" {symbol} ".join(texts), level)


def _choice(choices: list[Text], when: list[Text], unless: Text) -> Text:
    """First value whose bit is set."""
    pairs = zip(choices, when, strict=True)
    parts = [f"{choice.inside(UNARY)} ? {value.inside(OR)}" for choice, value in pairs]
    return Text(" : ".join([*parts, unless.inside(CHOICE)]), CHOICE)
