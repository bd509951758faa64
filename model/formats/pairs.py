"""Format pairs: the element formats of a unit's two operands."""

from collections.abc import Sequence

from .table import ElementFormat, element_format

Pair = tuple[ElementFormat, ElementFormat]


def format_pairs(value: "str | ElementFormat | Sequence") -> tuple[Pair, ...]:
    """The format pairs of text or of sequences.

    ``"e4m3"`` is both operands in E4M3, ``"e5m2xe4m3"`` an E5M2 and an E4M3 operand, and
    ``"e4m3,e5m2xe4m3"`` a list, of which the mode input selects one. A sequence holds such items,
    or pairs (a, b) of formats or names: ``[(E5M2, E4M3)]`` is one pair, ``[E5M2, E4M3]`` two modes.
    ValueError for unknown formats, none, or duplicates.
    """
    items = value.split(",") if isinstance(value, str) else value
    items = [items] if isinstance(items, ElementFormat) else items
    if not isinstance(items, Sequence):
        raise TypeError(f"formats must be text or a sequence of format pairs, not {value!r}")
    pairs = tuple(_pair(item) for item in items)
    if not pairs:
        raise ValueError("formats must name at least one format pair, not none")
    if len(set(pairs)) < len(pairs):
        raise ValueError(f"formats must not repeat a pair, as {value!r} does")
    return pairs


def _pair(item: "str | ElementFormat | Sequence") -> Pair:
    halves = item.split("x") if isinstance(item, str) else item
    halves = halves if isinstance(halves, Sequence) else [halves]
    if len(halves) not in (1, 2) or (len(halves) == 2 and "" in halves):
        raise ValueError(f"formats must hold formats or pairs of formats, not {item!r}")
    return element_format(halves[0], "formats"), element_format(halves[-1], "formats")


def pairs_text(pairs: Sequence[Pair]) -> str:
    """The pairs as `format_pairs` reads them."""
    return ",".join(a.name if a is b else f"{a.name}x{b.name}" for a, b in pairs)
