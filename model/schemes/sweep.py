"""Schemes under several rules of scales and sizes of blocks."""

from collections.abc import Iterable, Sequence

from ..errors import choice, integer
from ..formats import E2M1, E2M3, E3M2, E4M3, E5M2, ElementFormat
from ..scale_rules import SCALE_RULES
from . import SCHEMES, Scheme
from . import scheme as find
from .pairing import BFLOAT16, Pairing
from .variants import LARGEST_BLOCK, has_blocks, has_rule

RECOMMENDED = "recommended"
BEST_RULES: dict[tuple[ElementFormat, ...], str] = {
    (E4M3,): "ceil",
    (E5M2,): "ceil",
    (E3M2,): "ceil",
    (E2M3,): "even",
    (E2M1,): "even",
}
"""The rule by which elements lose least (docs/schemes.md); of others it is their row's own."""


def schemes(texts: Iterable[str], rules: Sequence[str], blocks: Sequence[int]) -> list[Scheme]:
    """The schemes of these names, ``all`` for every one, with each of `rules` and of `blocks`.

    rules: of SCALE_RULES, and RECOMMENDED for the best of the elements. blocks: numbers of
    elements; none keeps each scheme's own. A scheme without such a choice, or whose name makes it
    (``mxfp4:floor``), comes once.
    """
    ways = _ways(rules, blocks)
    return list(dict.fromkeys(_set(text, *how) for text in _names(texts) for how in ways))


def pairings(texts: Iterable[str], rules: Sequence[str], blocks: Sequence[int]) -> list[Pairing]:
    """The same of texts that `pairing` reads, each rule and size for both operands."""
    ways = _ways(rules, blocks)
    return list(dict.fromkeys(_pair(text, *how) for text in _names(texts) for how in ways))


def _names(texts: Iterable[str]) -> list[str]:
    return [name for text in texts for name in (SCHEMES if text == "all" else [text])]


def _ways(rules: Sequence[str], blocks: Sequence[int]) -> list[tuple[str, int | None]]:
    """Every rule with every size, checked."""
    for rule in rules:
        choice("scale-rule", rule, (RECOMMENDED, *SCALE_RULES))
    for size in blocks:
        integer("block", size, 1, LARGEST_BLOCK)
    return [(rule, size) for rule in rules for size in blocks or (None,)]


def _pair(text: str, rule: str, size: int | None) -> Pairing:
    weights, mark, activations = text.partition("/")
    first = _set(weights, rule, size)
    if not mark:
        return Pairing(first, first)
    if activations.strip().lower() == BFLOAT16:
        return Pairing(first, None)
    return Pairing(first, _set(activations, rule, size))


def _set(text: str, rule: str, size: int | None) -> Scheme:
    """The scheme of a name, with the rule and the size where it has the choice and makes none."""
    found = find(text)
    said = text.lower().split(":")[1:]
    if has_rule(found) and not any(part.strip() in SCALE_RULES for part in said):
        best = BEST_RULES.get(found.elements, found.levels[0].rule)
        said.append(best if rule == RECOMMENDED else rule)
    if has_blocks(found) and size is not None and not any(part[:1] == "b" for part in said):
        said.append(f"b{size}")
    return find(":".join([text.partition(":")[0], *said]))
