"""Pairs of schemes for weights and activations, and lists of schemes with rules and blocks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..errors import choice, integer
from ..formats import E2M1, E2M3, E3M2, E4M3, E5M2, ElementFormat
from . import SCHEMES, Scheme, quantize, storage
from . import scheme as find
from .rules import RULES
from .scheme import SCALE_RULES
from .table import LARGEST_BLOCK, has_blocks, has_rule

BFLOAT16 = "bfloat16"
BFLOAT16_BITS = 16
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Pairing:
    """Schemes of weights and activations; activations of None are bfloat16 (weight-only)."""

    weights: Scheme
    activations: Scheme | None

    @property
    def name(self) -> str:
        """Text for `pairing`: one name where both schemes are the same."""
        if self.activations == self.weights:
            return self.weights.name
        return f"{self.weights}/{self.activations or BFLOAT16}"

    def bits(self, weights: tuple[int, int], activations: tuple[int, int]) -> tuple[float, float]:
        """Bits per element of matrices of these shapes, everything counted."""
        return tuple(
            BFLOAT16_BITS if scheme is None else float(storage(scheme, *shape).bits_per_element)
            for scheme, shape in ((self.weights, weights), (self.activations, activations))
        )  # type: ignore[return-value]

    def weight_values(self, weights: F32) -> F32:
        """Quantised weights (N, K) as values; rounded to bfloat16 for a weight-only product."""
        values = _values(self.weights, weights)
        return values if self.activations is not None else _bfloat16(values)

    def activation_values(self, activations: F32) -> F32:
        """Quantised activations (M, K) as values."""
        if self.activations is None:
            return _bfloat16(activations)
        return _values(self.activations, activations)


def pairing(text: str) -> Pairing:
    """The pairing of ``scheme`` for both operands, or of ``weights/activations``.

    Activations may be ``bfloat16``. ValueError lists the names of schemes.
    """
    return _pairing(text, lambda name: find(name, "scheme"))


def _pairing(text: str, named: Callable[[str], Scheme]) -> Pairing:
    weights, mark, activations = text.partition("/")
    first = named(weights)
    if not mark:
        return Pairing(first, first)
    if activations.strip().lower() == BFLOAT16:
        return Pairing(first, None)
    return Pairing(first, named(activations))


def _values(scheme: Scheme, x: F32) -> F32:
    return quantize(x, scheme).dequantize()


def _bfloat16(x: F32) -> F32:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


RECOMMENDED = "recommended"
BEST_RULES: dict[tuple[ElementFormat, ...], str] = {
    (E4M3,): "ceil",
    (E5M2,): "ceil",
    (E3M2,): "ceil",
    (E2M3,): "even",
    (E2M1,): "even",
}
"""Rule with the least loss for each element format (docs/schemes.md); other formats keep theirs."""


def schemes(texts: Iterable[str], rules: Sequence[str], blocks: Sequence[int]) -> list[Scheme]:
    """Schemes of these names, ``all`` for every scheme, with each of `rules` and of `blocks`.

    rules: names in SCALE_RULES, or RECOMMENDED for the best rule of the elements. blocks: sizes of
    blocks; empty for each scheme's own. A scheme without this choice, or whose name makes it
    (``mxfp4:floor``), comes once.
    """
    ways = _ways(rules, blocks)
    return list(dict.fromkeys(_set(text, *how) for text in _names(texts) for how in ways))


def pairings(texts: Iterable[str], rules: Sequence[str], blocks: Sequence[int]) -> list[Pairing]:
    """Pairings of these texts, with each rule and size for both operands, as in `schemes`."""
    ways = _ways(rules, blocks)
    return list(
        dict.fromkeys(
            _pairing(text, partial(_set, rule=rule, size=size))
            for text in _names(texts)
            for rule, size in ways
        )
    )


def _names(texts: Iterable[str]) -> list[str]:
    return [name for text in texts for name in (SCHEMES if text == "all" else [text])]


def _ways(rules: Sequence[str], blocks: Sequence[int]) -> list[tuple[str, int | None]]:
    """Every rule with every size; ValueError for an unknown rule or size."""
    for rule in rules:
        choice("scale-rule", rule, (RECOMMENDED, *SCALE_RULES))
    for size in blocks:
        integer("block", size, 1, LARGEST_BLOCK)
    return [(rule, size) for rule in rules for size in blocks or (None,)]


def _set(text: str, rule: str, size: int | None) -> Scheme:
    """The scheme of a name, with `rule` and `size` where its name leaves the choice."""
    named = find(text)
    changes = text.lower().split(":")[1:]
    if has_rule(named) and not any(part.strip() in RULES for part in changes):
        best = BEST_RULES.get(named.elements, named.levels[0].rule)
        changes.append(best if rule == RECOMMENDED else rule)
    if has_blocks(named) and size is not None and not any(part[:1] == "b" for part in changes):
        changes.append(f"b{size}")
    return find(":".join([text.partition(":")[0], *changes]))
