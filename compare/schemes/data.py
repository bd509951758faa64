"""Pairs of matrices for schemes: the data sets of `compare.accuracy`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.errors import integer
from ...util.data.sets import REAL, data_set
from ...util.data.tensors import REAL_FILE

DEFAULT_DATA = ("normal", "student-t", "outliers", REAL)
LAYERS = {"query": 384, "mlp_up": 384, "mlp_down": 1536}  # of the data set real: K


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class Pair:
    """Activations a and weights b, float32 (rows, K). name: data set, and layer if any."""

    name: str
    a: NDArray[np.float32]
    b: NDArray[np.float32]


def matrices(
    data: Sequence[str] = DEFAULT_DATA, *, rows: int = 128, length: int = 1024, seed: int = 1
) -> Iterator[Pair]:
    """Pairs of every data set, `rows` rows of `length` elements each.

    data: names as for `data_set`. ``real`` is one pair per layer, with the layer's own K and rows
    drawn from the stored ones. One seed always draws the same rows.
    Raises TypeError or ValueError, naming the argument, before any work.
    """
    integer("rows", rows, 1, 2**16)
    integer("length", length, 1, 2**20)
    integer("seed", seed, 0)
    if not data:
        raise ValueError("data must name at least one data set, not none")
    sets = [(name, text, k or length) for each in data for name, text, k in _expanded(each)]
    drawn = [(name, data_set(text), k) for name, text, k in sets]

    def draw() -> Iterator[Pair]:
        for name, source, k in drawn:
            rng = np.random.default_rng([seed, source.stream])
            yield Pair(name, *source.draw(rng, rows, k, k))

    return draw()


def _expanded(name: str) -> list[tuple[str, str, int | None]]:
    """Shown name, data set, and K (None for any)."""
    if name != REAL:
        return [(name, name, None)]
    return [
        (f"real {layer}", f"{REAL_FILE}#{layer}.input,{layer}.weight", k)
        for layer, k in LAYERS.items()
    ]
