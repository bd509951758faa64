"""Steps of blocks of codes, of up to a byte by the table of all pairs; every stage on request."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ..cached import cached_property
from ..formats import E8M0
from ..products import NO_EXPONENT, Looked, Pair, Products
from ..rounding import F64
from ..specials import NAN
from ..trace import Recorder
from ..wide import exact_sum_fits
from . import MICRO_DIGITS


@dataclass(frozen=True)
class CodeStep:
    """One step of blocks of codes; see `Step`.

    pairs: (n, t) products; scale_a, scale_b: uint8 (n,). size: elements that the step stands
    for (a block's shorter last step is filled with zero products). is_last: of its dot product.
    shifts: int64 (n, t), 0 to 2, the products' micro-exponents; None where there are none.
    """

    formats: Pair
    pairs: Products | Looked
    scale_a: NDArray[np.uint8]
    scale_b: NDArray[np.uint8]
    size: int
    is_last: bool
    shifts: NDArray[np.int64] | None = None

    @cached_property
    def scale(self) -> NDArray[np.int64]:
        """The exponents s of both scales added, in [-254, 254]; (n,)."""
        return self.scale_a.astype(np.int64) + self.scale_b.astype(np.int64) - 2 * E8M0.bias

    @cached_property
    def _products(self) -> F64:
        values = self.pairs.values
        return values if self.shifts is None else np.ldexp(values, -self.shifts)

    @cached_property
    def special(self) -> NDArray[np.uint8]:
        """The class of special terms of each dot product (n,), 0 where all are finite."""
        nan_scale = (self.scale_a == E8M0.nan_code) | (self.scale_b == E8M0.nan_code)
        classes = np.where(nan_scale, np.uint8(NAN), np.uint8(0))
        terms = np.isnan(self._products.sum(axis=-1))
        if terms.any():
            found = self.pairs.specials[terms]
            classes[terms] |= np.bitwise_or.reduce(found, axis=-1)
        return classes

    @cached_property
    def products(self) -> F64:
        """(n, t), special terms as 0."""
        return np.nan_to_num(self._products, nan=0.0) if self.special.any() else self._products

    @property
    def factor(self) -> None:
        """Powers of two have none."""
        return

    @property
    def terms(self) -> F64:
        """The products."""
        return self.products

    @property
    def bits(self) -> int:
        """Width of the largest product as a multiple of 2^lsb."""
        return self.formats.bits + _below(self.shifts)

    @property
    def lsb(self) -> int:
        """Every product is a multiple of 2^lsb."""
        return self.formats.lsb - _below(self.shifts)

    @property
    def term_bits(self) -> int:
        """Products lie in [1, 4) of their unit digit (INT8's reach 4)."""
        return 2

    @cached_property
    def largest_unit(self) -> NDArray[np.int64]:
        """The largest unit exponent of each step's products (n,); NO_EXPONENT when all are zero."""
        return self.largest_units(slice(None))

    def largest_units(self, places: slice) -> NDArray[np.int64]:
        """`largest_unit` of some of the products."""
        units = self._units[:, places]
        return units.max(axis=-1, initial=NO_EXPONENT).astype(np.int64)

    @property
    def _units(self) -> NDArray[np.int16] | NDArray[np.int64]:
        units = self.pairs.unit_exponents
        if self.shifts is None:
            return units
        return np.where(units == NO_EXPONENT, NO_EXPONENT, units - self.shifts)

    def record(self, record: Recorder) -> None:
        """Record the stages that every accumulator shares."""
        if record.keep_stages:
            record.stage("product", self.pairs.significands)
            shifts = 0 if self.shifts is None else self.shifts
            record.stage("product_exponent", self.pairs.exponents - shifts)
            record.stage("unit_exponent", self._units.astype(np.int64))
            record.stage("scale", self.scale)


@dataclass(frozen=True)
class CodeSteps:
    """Codes of n dot products, in blocks of k, that are taken in steps of these `sizes`.

    codes_a, codes_b: (n, blocks, k); scales_a, scales_b: uint8 (n, blocks). Steps are made
    one at a time, so that what they need stays small however long the dot products are.
    shifts: int64 (n, blocks, k), or None, as of `CodeStep`.
    """

    formats: Pair
    codes_a: NDArray
    codes_b: NDArray
    scales_a: NDArray[np.uint8]
    scales_b: NDArray[np.uint8]
    sizes: tuple[int, ...]
    shifts: NDArray[np.int64] | None = None

    @property
    def n(self) -> int:
        """Dot products."""
        return self.codes_a.shape[0]

    @property
    def exact_sums_fit(self) -> bool:
        """Whether the exact sum of any block is one float64."""
        return exact_sum_fits(self.formats.bits + _below(self.shifts), self.codes_a.shape[-1])

    def walk(self, record: Recorder) -> Iterator[CodeStep]:
        """The steps in order."""
        blocks = self.codes_a.shape[1]
        for block in range(blocks):
            for end, size in zip(accumulate(self.sizes), self.sizes, strict=True):
                step = self._step(block, end - size, end)
                step.record(record)
                yield step

    def _step(self, block: int, start: int, end: int) -> CodeStep:
        _, blocks, k = self.codes_a.shape
        codes = [codes[:, block, start:end] for codes in (self.codes_a, self.codes_b)]
        fill = max(self.sizes) - (end - start)
        if fill:
            codes = [np.pad(some, ((0, 0), (0, fill))) for some in codes]  # zeros
        scales = self.scales_a[:, block], self.scales_b[:, block]
        is_last = block == blocks - 1 and end == k
        shifts = None if self.shifts is None else self.shifts[:, block, start:end]
        if shifts is not None and fill:
            shifts = np.pad(shifts, ((0, 0), (0, fill)))
        pairs = self.formats.of(*codes)
        return CodeStep(self.formats, pairs, *scales, end - start, is_last, shifts)


def _below(shifts: NDArray[np.int64] | None) -> int:
    """Digits that micro-exponents of two operands add below the products' last."""
    return 0 if shifts is None else MICRO_DIGITS
