"""Black boxes: what the probe asks of a matrix unit, and the model's accumulators as such."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...model import Accumulator, ElementFormat, MXArray, dot, format_pairs
from ...model import accumulator as as_accumulator
from ...model.accumulators import any_operands
from ...model.errors import integer
from ...model.formats import E8M0

Codes = NDArray  # of the format's dtype
UNIT_SCALE = E8M0.bias


class MatrixUnit(Protocol):
    """A unit that computes dot products of n pairs of rows, from codes to float32 bits.

    formats: the element formats of a and b. multiple: what the length K of a row must be a multiple
    of. takes_c: whether dot products may start from a running value.
    """

    name: str
    formats: tuple[ElementFormat, ElementFormat]
    multiple: int
    takes_c: bool

    def __call__(self, a: Codes, b: Codes, c: NDArray[np.float32] | None) -> NDArray[np.uint32]:
        """Bits (n,) of the products of codes a and b (n, K), started from c (n,) or +0."""
        ...


class ModelUnit:
    """An accumulator or preset of mxdot.model as a black box, in blocks of `multiple` elements.

    formats: one format or pair, as `format_pairs` reads it; multiple: 4 to 128.
    """

    takes_c = True

    def __init__(
        self,
        accumulator: Accumulator | str,
        formats: str | tuple[ElementFormat, ElementFormat] = "e5m2",
        multiple: int = 32,
    ) -> None:
        self.accumulator = as_accumulator(accumulator)
        pairs = format_pairs(formats) if isinstance(formats, str) else (formats,)
        if len(pairs) != 1:
            raise ValueError(f"formats of a probed unit must be one pair, not {formats!r}")
        (self.formats,) = pairs
        self.accumulator.check_formats(*self.formats)
        self.multiple = integer("multiple", multiple, 4, 128)
        self.name = str(self.accumulator)

    @any_operands()
    def __call__(self, a: Codes, b: Codes, c: NDArray[np.float32] | None) -> NDArray[np.uint32]:
        """Bits of the model's dot products with unit scales."""
        scales = np.full((len(a), a.shape[1] // self.multiple), UNIT_SCALE, np.uint8)
        x = MXArray(a, scales, self.formats[0], self.multiple)
        y = MXArray(b, scales, self.formats[1], self.multiple)
        return dot(x, y, self.accumulator, c).view(np.uint32)


class Reordered:
    """A unit whose rows are put in another order first: place i of a row becomes places[i]."""

    def __init__(self, unit: MatrixUnit, places: list[int]) -> None:
        self.unit = unit
        self.name, self.formats, self.takes_c = unit.name, unit.formats, unit.takes_c
        fits = range(unit.multiple, len(places) + 1, unit.multiple)
        self.multiple = next(n for n in fits if set(places[:n]) == set(range(n)))
        self.places = np.array(places[: self.multiple])

    def __call__(self, a: Codes, b: Codes, c: NDArray[np.float32] | None) -> NDArray[np.uint32]:
        """Bits of the unit's dot products of the reordered rows."""
        return self.unit(self._order(a), self._order(b), c)

    def _order(self, codes: Codes) -> Codes:
        ordered = np.empty_like(codes).reshape(len(codes), -1, self.multiple)
        ordered[:, :, self.places] = codes.reshape(ordered.shape)
        return ordered.reshape(codes.shape)
