"""Operands of products: the parts of a quantised array that make terms, blocks and regions.

Elements, with zero points and one-bit shifts, make the terms. Powers of two, and scales inside the
outermost float scale, make the scale of a block. The outermost float scale is the scale of a region
(section 7 of docs/numerics.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import (
    FLOAT64_BIAS,
    Array,
    at_least,
    cast,
    dtype_name,
    exponent,
    is_tensor,
    matched,
    namespace,
    power,
)
from ..formats import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    ElementFormat,
    FloatFormat,
    PowerFormat,
    ScaleFormat,
    TableFormat,
)
from ..products import NO_EXPONENT, unit_exponents
from .array import Scaled, value_table
from .grouping import expand
from .scheme import Scheme, is_region, is_shift


class BlockLayout(Protocol):
    """A `BlockScale` without its numbers."""

    @property
    def length(self) -> int: ...
    @property
    def fraction_bits(self) -> int: ...
    @property
    def is_power(self) -> bool: ...


class Layout(Protocol):
    """An `Operand` without its numbers: enough to cut a product and to know the width of terms."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def lsb(self) -> int: ...
    @property
    def largest(self) -> int: ...
    @property
    def significand_bits(self) -> int: ...
    @property
    def blocks(self) -> Sequence[BlockLayout]: ...
    @property
    def regions(self) -> object | None: ...
    @property
    def region_length(self) -> int: ...


@dataclass(frozen=True)
class BlockScale:
    """Scales of blocks: significand x 2^exponent, one per `length` columns.

    significands: float64 (rows, groups) in [0, 2), multiples of 2^-fraction_bits; NaN for a NaN
    scale. exponents: int64, exponents of the unit digits.
    """

    significands: Array
    exponents: Array
    length: int
    fraction_bits: int

    @property
    def is_power(self) -> bool:
        """Whether every significand is 1 (or NaN)."""
        return self.fraction_bits == 0


@dataclass(frozen=True)
class Operand:
    """A matrix (rows, K) of terms' factors with its scales, as arrays of NumPy or tensors.

    values: exact float64, NaN and infinities included. units: int16, exponents of the unit digits;
    NO_EXPONENT for zeros and for values that are not finite. lsb, low, high: values are multiples
    of 2^lsb, from low x 2^lsb to high x 2^lsb. significand_bits: digits from the first to the last.
    regions: float64 scales (rows, regions) of `region_length` columns each, or None. floats:
    whether elements are floats, which have subnormal numbers; per element for a code book of floats
    and integers.
    """

    values: Array
    units: Array
    lsb: int
    low: int
    high: int
    significand_bits: int
    blocks: tuple[BlockScale, ...] = ()
    regions: Array | None = None
    region_length: int = 0
    floats: bool | Array = True

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, K)."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def largest(self) -> int:
        """Largest magnitude, as a multiple of 2^lsb."""
        return max(-self.low, self.high)

    @property
    def flushed(self) -> "Operand":
        """The operand of a machine without subnormal numbers: floats below their unit are zeros."""
        if self.floats is False:
            return self
        xp, values = namespace(self.values), self.values
        size = xp.abs(values)
        zero = (size < power(at_least(self.units, -FLOAT64_BIAS + 1))) & (size > 0) & self.floats
        units = xp.where(zero, NO_EXPONENT, self.units)
        signed = 0.0 * xp.where(zero, values, 0.0)
        return replace(self, values=xp.where(zero, signed, values), units=cast(units, "int16"))

    def reordered(self, columns: NDArray[np.int64]) -> "Operand":
        """The operand with its columns in another order, which keeps each in its block."""
        index = matched(columns, self.values)
        floats = self.floats if isinstance(self.floats, bool) else self.floats[:, index]
        return replace(
            self, values=self.values[:, index], units=self.units[:, index], floats=floats
        )

    def region_scale(self, column: int) -> Array:
        """Scale of every row's region at `column`; 1 without regions."""
        if self.regions is None:
            return namespace(self.values).ones_like(self.values[:, 0])
        return self.regions[:, column // self.region_length]


def element_range(scheme: Scheme) -> tuple[int, int, int]:
    """(lsb, low, high): elements less zero points are n x 2^lsb, with n from low to high."""
    shifts = [level.format for i, level in enumerate(scheme.levels) if is_shift(level, i)]
    smallest, largest = (
        sum(getattr(fmt, end) for fmt in shifts if isinstance(fmt, PowerFormat))
        for end in ("emin", "emax")
    )
    lsb = min(element.lsb for element in scheme.elements) + smallest
    lows, highs = [], []
    for element in scheme.elements:
        low, high = element.extremes
        lows.append(low - high if scheme.zero_point else low)
        highs.append(high - low if scheme.zero_point else high)
    return lsb, int(np.ldexp(min(lows), largest - lsb)), int(np.ldexp(max(highs), largest - lsb))


def significand_bits(scheme: Scheme) -> int:
    """Digits from the first to the last of an element less its zero point."""
    return max(fmt.significand_bits for fmt in scheme.elements) + scheme.zero_point


def operand(array: Scaled) -> Operand:
    """The operand of a matrix whose groups' columns run along its last axis; its codes are
    checked."""
    scheme, formats = array.scheme, array.scheme.elements
    codes = (
        cast(array.codes, "int32") if is_tensor(array.codes) else array.codes
    )  # cast once for both tables
    values = array.elements(value_table(formats), codes)
    units = array.elements(_unit_table(formats), codes)
    xp = namespace(values)
    if array.zero_points is not None:
        values = values - array.spread(array.zero_points, -1)
        low, high = formats[0].extremes
        width = int(high - low).bit_length()
        units = cast(xp.where(values == 0, NO_EXPONENT, width - 1), "int16")
    blocks, regions, region_length = [], None, 0
    for i, (level, stored) in enumerate(zip(scheme.levels, array.level_scales, strict=True)):
        rows, length = level.granularity.group(array.matrix_shape)
        scales = expand(level.format.exact(stored), (rows, 1))
        if is_region(level, i):
            regions, region_length = scales, length
        elif is_shift(level, i):
            shift = expand(exponent(scales), (1, length))
            values = values * power(shift)
            units = cast(xp.where(units == NO_EXPONENT, units, units + shift), "int16")
        else:
            blocks.append(block_scale(level.format, scales, length))
    lsb, low, high = element_range(scheme)
    width = significand_bits(scheme)
    return Operand(
        *(values, units, lsb, low, high, width, tuple(blocks), regions, region_length),
        floats=_floats(array, codes),
    )


def _floats(array: Scaled, codes: Array) -> bool | Array:
    """Whether elements are floats: one answer where all are alike, else one per code."""
    table = _float_table(array.scheme.elements)
    if array.zero_points is not None or not table.any():
        return False
    return True if table.all() else array.elements(table, codes)


@cache
def _float_table(formats: tuple[ElementFormat, ...]) -> NDArray[np.bool_]:
    """(formats, codes): whether the format is a float."""
    return np.stack([np.full(fmt.values.shape, not fmt.is_integer) for fmt in formats])


@cache
def _unit_table(formats: tuple[ElementFormat, ...]) -> NDArray[np.int16]:
    """(formats, codes): unit exponents; NO_EXPONENT for zeros and values that are not finite."""
    return np.stack([unit_exponents(fmt) for fmt in formats])


def float_operand(matrix: Array) -> Operand:
    """The operand without scales of a matrix of float32, float16 or bfloat16."""
    fmt = next(f for f in (FLOAT32, FLOAT16, BFLOAT16) if f.name == dtype_name(matrix))
    values = cast(matrix, "float64")
    xp = namespace(values)
    magnitude = xp.abs(values)
    none = ~xp.isfinite(magnitude) | (magnitude == 0)
    exponents = xp.clip(exponent(magnitude), fmt.emin, None)
    units = cast(xp.where(none, NO_EXPONENT, exponents), "int16")
    largest = int(fmt.largest_finite / fmt.smallest)
    return Operand(values, units, fmt.lsb, -largest, largest, fmt.significand_bits)


def block_scale(fmt: ScaleFormat, scales: Array, length: int) -> BlockScale:
    """Significands and exponents of scales; subnormal and integer scales stay unnormalised."""
    xp = namespace(scales)
    exponents = exponent(scales)
    if isinstance(fmt, PowerFormat):
        fraction_bits = 0
    elif isinstance(fmt, FloatFormat | TableFormat):
        fraction_bits = fmt.mantissa_bits
        exponents = xp.clip(exponents, fmt.emin, None)
    else:
        fraction_bits = fmt.bits - 1
        exponents = xp.full_like(exponents, fraction_bits)
    exponents = xp.where(xp.isnan(scales), 0, exponents)
    return BlockScale(scales * power(-exponents), exponents, length, fraction_bits)
