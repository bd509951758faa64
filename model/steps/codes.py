"""Steps of blocks of codes, with every stage on request.

Products of codes of up to a byte come from a table of all pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ..arrays import cached_property
from ..formats import E8M0, ScaleFormat, block_scale_bits
from ..products import NO_EXPONENT, Pair, Products, TableProducts
from ..rounding import F64
from ..schemes.operand import BlockScale, block_scale
from ..specials import NAN, special_value
from ..trace import Recorder
from ..wide import exact_sum_fits
from . import MICRO_DIGITS


@cache
def scale_table(fmt: ScaleFormat) -> BlockScale:
    """Significands and exponents of all codes of a format of `BLOCK_SCALES`."""
    codes = np.arange(2 ** block_scale_bits(fmt)).astype(np.uint8)
    return block_scale(fmt, fmt.exact(codes), 1)


@dataclass(frozen=True)
class CodeStep:
    """One step of blocks of codes; see `Step`.

    pairs: (n, t) products. scale_a, scale_b: uint8 (n,). size: elements of the step, before zero
    products fill up a block's shorter last step. is_last: last step of its dot product. shifts:
    int64 (n, t), 0 to 2, the products' micro-exponents; None without micro-exponents.
    scale_format: one of `BLOCK_SCALES`.
    """

    formats: Pair
    pairs: Products | TableProducts
    scale_a: NDArray[np.uint8]
    scale_b: NDArray[np.uint8]
    size: int
    is_last: bool
    shifts: NDArray[np.int64] | None = None
    scale_format: ScaleFormat = E8M0

    @cached_property
    def scale(self) -> NDArray[np.int64]:
        """Sum of both scales' exponents, (n,); from -254 to 254 for E8M0."""
        if self.scale_format == E8M0:
            return self.scale_a.astype(np.int64) + self.scale_b.astype(np.int64) - 2 * E8M0.bias
        exponents = scale_table(self.scale_format).exponents
        return exponents[self.scale_a] + exponents[self.scale_b]

    @cached_property
    def _significand(self) -> F64:
        """Product of both scales' significands; NaN where one scale is."""
        significands = scale_table(self.scale_format).significands
        return significands[self.scale_a] * significands[self.scale_b]

    @cached_property
    def _products(self) -> F64:
        values = self.pairs.values
        return values if self.shifts is None else np.ldexp(values, -self.shifts)

    @cached_property
    def special(self) -> NDArray[np.uint8]:
        """Class of the special terms of each dot product (n,); 0 where all are finite."""
        classes = np.where(np.isnan(self._significand), np.uint8(NAN), np.uint8(0))
        terms = np.isnan(self._products.sum(axis=-1))
        if terms.any():
            classes[terms] |= np.bitwise_or.reduce(self.pairs.specials[terms], axis=-1)
        return classes

    @cached_property
    def products(self) -> F64:
        """Products (n, t), special terms as 0."""
        return np.nan_to_num(self._products, nan=0.0) if self.special.any() else self._products

    @property
    def values(self) -> F64:
        """Products (n, t), special terms as NaN and infinities; NaN under a scale of NaN."""
        if not self.special.any():
            return self._products
        specials = self.pairs.specials
        values = np.where(specials == 0, self._products, special_value(specials))
        values[np.isnan(self._significand)] = np.nan
        return values

    @cached_property
    def factor(self) -> F64 | None:
        """Product g of both scales' significands (n,), 0 for NaN; None for powers of two."""
        if self.scale_format == E8M0:
            return None
        return np.nan_to_num(self._significand, nan=0.0)

    @property
    def terms(self) -> F64:
        """Products x factor, (n, t)."""
        return self.products if self.factor is None else self.products * self.factor[:, None]

    @property
    def bits(self) -> int:
        """Width of the largest term as a multiple of 2^lsb."""
        return _term_bits(self.formats, self.shifts, self.scale_format)

    @property
    def lsb(self) -> int:
        """Exponent of the last digit: every term is a multiple of 2^lsb."""
        below = 2 * scale_table(self.scale_format).fraction_bits
        return self.formats.lsb - _below(self.shifts) - below

    @property
    def term_bits(self) -> int:
        """Bound of terms: each is at most 2^term_bits times its unit digit.

        A product is less than 4 unit digits (4 for INT8); a scale's significand is below 2.
        """
        return 2 if self.factor is None else 4

    @cached_property
    def largest_unit(self) -> NDArray[np.int64]:
        """Largest unit exponent of the products (n,); NO_EXPONENT when all are zero."""
        return self.largest_units(slice(None))

    def largest_units(self, places: slice) -> NDArray[np.int64]:
        units = self._units[:, places]
        return units.max(axis=-1, initial=NO_EXPONENT).astype(np.int64)

    @property
    def _units(self) -> NDArray[np.int16] | NDArray[np.int64]:
        units = self.pairs.unit_exponents
        if self.shifts is None:
            return units
        return np.where(units == NO_EXPONENT, NO_EXPONENT, units - self.shifts)

    def record(self, record: Recorder) -> None:
        """Record the stages that all accumulators share."""
        if record.keep_stages:
            record.stage("product", self.pairs.significands)
            shifts = 0 if self.shifts is None else self.shifts
            record.stage("product_exponent", self.pairs.exponents - shifts)
            record.stage("unit_exponent", self._units.astype(np.int64))
            record.stage("scale", self.scale)
            if self.factor is not None:
                record.stage("factor", self.factor)


@dataclass(frozen=True)
class CodeSteps:
    """Codes of n dot products in blocks of k, each taken in steps of `sizes` elements.

    codes_a, codes_b: (n, blocks, k). scales_a, scales_b: uint8 (n, blocks). shifts: int64
    (n, blocks, k) or None. scale_format: see `CodeStep`. One step exists at a time, so that memory
    stays small for dot products of any length.
    """

    formats: Pair
    codes_a: NDArray
    codes_b: NDArray
    scales_a: NDArray[np.uint8]
    scales_b: NDArray[np.uint8]
    sizes: tuple[int, ...]
    shifts: NDArray[np.int64] | None = None
    scale_format: ScaleFormat = E8M0

    @property
    def n(self) -> int:
        """Number of dot products."""
        return self.codes_a.shape[0]

    @property
    def exact_sums_fit(self) -> bool:
        """Whether the exact sum of any block is one float64."""
        bits = _term_bits(self.formats, self.shifts, self.scale_format)
        return exact_sum_fits(bits, self.codes_a.shape[-1])

    def walk(self, record: Recorder) -> Iterator[CodeStep]:
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
            zeros = self.formats.a.zero_code or 0, self.formats.b.zero_code or 0
            codes = [
                np.pad(side, ((0, 0), (0, fill)), constant_values=zero)
                for side, zero in zip(codes, zeros, strict=True)
            ]
        scales = self.scales_a[:, block], self.scales_b[:, block]
        is_last = block == blocks - 1 and end == k
        shifts = None if self.shifts is None else self.shifts[:, block, start:end]
        if shifts is not None and fill:
            shifts = np.pad(shifts, ((0, 0), (0, fill)))
        pairs = self.formats.of(*codes)
        kind = self.scale_format
        return CodeStep(self.formats, pairs, *scales, end - start, is_last, shifts, kind)


def _term_bits(formats: Pair, shifts: NDArray[np.int64] | None, scale_format: ScaleFormat) -> int:
    """Width of the largest product times its scales, as a multiple of its last digit."""
    table = scale_table(scale_format)
    significands = 0 if table.is_power else 2 * (table.fraction_bits + 1)
    return formats.bits + _below(shifts) + significands


def _below(shifts: NDArray[np.int64] | None) -> int:
    """Digits that micro-exponents of both operands add below the products' last digit."""
    return 0 if shifts is None else MICRO_DIGITS
