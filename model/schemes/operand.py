"""Operands of products: which part of a scheme enters the terms, the blocks and the regions.

Elements (with their zero points and one-bit shifts) make the terms; scales inside the outermost
float scale, and powers of two, make the scale of a block; the outermost float scale that of a
region (section 7 of docs/numerics.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..errors import integer_array
from ..formats import ElementFormat, FloatFormat, PowerFormat, ScaleFormat
from ..products import NO_EXPONENT
from ..rounding import F64
from .array import ScaledArray, check_selectors
from .scheme import Level, Scheme

I64 = NDArray[np.int64]


class BlockLayout(Protocol):
    """Scales of blocks without their numbers: see `BlockScale`."""

    @property
    def length(self) -> int: ...
    @property
    def fraction_bits(self) -> int: ...
    @property
    def is_power(self) -> bool: ...


class Layout(Protocol):
    """An operand without its numbers: what cuts a product, and how wide its terms are."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def lsb(self) -> int: ...
    @property
    def largest(self) -> int: ...
    @property
    def blocks(self) -> Sequence[BlockLayout]: ...
    @property
    def regions(self) -> object | None: ...
    @property
    def region_length(self) -> int: ...


@dataclass(frozen=True)
class BlockScale:
    """Scales of blocks: significand x 2^exponent, one for `length` columns.

    significands: (rows, groups) in [0, 2), multiples of 2^-fraction_bits, NaN under a NaN scale;
    exponents: those of the unit digit.
    """

    significands: F64
    exponents: I64
    length: int
    fraction_bits: int

    @property
    def is_power(self) -> bool:
        """Whether every significand is 1 (or NaN)."""
        return self.fraction_bits == 0


@dataclass(frozen=True)
class Operand:
    """A matrix (rows, K) of terms' factors with its scales.

    values: exact, NaN and infinities included. units: exponents of the unit digit, NO_EXPONENT for
    zeros. lsb, low, high: values are multiples of 2^lsb from low to high of them. regions: scales
    (rows, regions) of `region_length` columns each, or None.
    """

    values: F64
    units: NDArray[np.int16]
    lsb: int
    low: int
    high: int
    blocks: tuple[BlockScale, ...] = ()
    regions: F64 | None = None
    region_length: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, K)."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def largest(self) -> int:
        """The largest magnitude, in units of 2^lsb."""
        return max(-self.low, self.high)

    def region_scale(self, column: int) -> F64:
        """The scale of every row's region at `column`; 1 where there is none."""
        if self.regions is None:
            return np.ones(self.shape[0])
        return self.regions[:, column // self.region_length]


def is_shift(level: Level, index: int) -> bool:
    """Whether a level is a one-bit shift of elements: a power of two of one bit, not outermost."""
    return index > 0 and isinstance(level.format, PowerFormat) and level.format.bits == 1


def is_region(level: Level, index: int) -> bool:
    """Whether a level's scales join after the sums: floats of the outermost level."""
    return index == 0 and isinstance(level.format, FloatFormat)


def element_range(scheme: Scheme) -> tuple[int, int, int]:
    """(lsb, low, high): elements less zero points are multiples of 2^lsb, from low to high."""
    shifts = sum(is_shift(level, i) for i, level in enumerate(scheme.levels))
    lsb = min(element.lsb for element in scheme.elements) - shifts
    lows, highs = [], []
    for element in scheme.elements:
        low, high = element.extremes
        lows.append(low - high if scheme.zero_point else low)
        highs.append(high - low if scheme.zero_point else high)
    return lsb, int(np.ldexp(min(lows), -lsb)), int(np.ldexp(max(highs), -lsb))


def operand(array: ScaledArray) -> Operand:
    """The operand of a matrix whose groups' columns run along its last axis."""
    scheme = array.scheme
    check_selectors(scheme, array.selectors)
    book = 0 if array.selectors is None else array.spread(array.selectors, -1)
    _check_codes(array, book)
    values = np.stack([element.values for element in scheme.elements])[book, array.codes]
    units = np.stack([unit_exponents(element) for element in scheme.elements])[book, array.codes]
    if array.zero_points is not None:
        values = values - array.spread(array.zero_points, -1)
        low, high = scheme.elements[0].extremes
        width = int(high - low).bit_length()
        units = np.where(values == 0, NO_EXPONENT, width - 1).astype(np.int16)
    blocks, regions, region_length = [], None, 0
    for i, (level, stored) in enumerate(zip(scheme.levels, array.scales, strict=True)):
        rows, length = level.granularity.group(array.matrix_shape)
        scales = np.repeat(level.format.exact(stored), rows, axis=0)
        if is_region(level, i):
            regions, region_length = scales, length
        elif is_shift(level, i):
            shift = np.repeat(np.frexp(scales)[1] - 1, length, axis=1)
            values = np.ldexp(values, shift)
            units = np.where(units == NO_EXPONENT, units, units + shift).astype(np.int16)
        else:
            blocks.append(_block_scale(level.format, scales, length))
    lsb, low, high = element_range(scheme)
    return Operand(values, units, lsb, low, high, tuple(blocks), regions, region_length)


def _check_codes(array: ScaledArray, book: NDArray | int) -> None:
    """ValueError for codes and zero points outside the range by which sums are sized."""
    elements = array.scheme.elements
    allowed = np.stack([in_range(element) for element in elements])
    outside = ~allowed[book, array.codes]
    if outside.any():
        code = array.codes[outside].flat[0]
        raise ValueError(
            f"codes of {array.scheme} must stand for numbers of {', '.join(map(str, elements))}, "
            f"not be {code:#04x}"
        )
    if array.zero_points is not None:
        low, high = map(int, elements[0].extremes)
        integer_array(f"zero_points of {array.scheme}", array.zero_points, low, high)


def in_range(element: ElementFormat) -> NDArray[np.bool_]:
    """Of every byte: whether it is a code, and stands for a number of the range or for none."""
    return np.pad(element.in_range, (0, 256 - 2**element.bits))


def float_operand(matrix: NDArray) -> Operand:
    """The operand of a matrix of floats, which has no scales and no useful range."""
    values = matrix.astype(np.float64)
    lowest = int(ml_dtypes.finfo(matrix.dtype).minexp)
    exponents = np.maximum(np.frexp(np.where(np.isfinite(values), values, 0))[1] - 1, lowest)
    units = np.where(values == 0, NO_EXPONENT, exponents).astype(np.int16)
    return Operand(values, units, 0, 0, 0)


def unit_exponents(element: ElementFormat) -> NDArray[np.int16]:
    """The unit exponent of every code; NO_EXPONENT for zeros and what is not finite."""
    _, significand, exponent = element.triples
    units = exponent + element.mantissa_bits
    return np.where(significand == 0, NO_EXPONENT, units).astype(np.int16)


def _block_scale(fmt: ScaleFormat, scales: F64, length: int) -> BlockScale:
    """Significands and exponents; a subnormal or integer scale is not normalised."""
    if isinstance(fmt, PowerFormat):
        exponents, fraction_bits = np.frexp(scales)[1] - 1, 0
    elif isinstance(fmt, FloatFormat):
        fraction_bits = fmt.mantissa_bits
        exponents = np.maximum(np.frexp(scales)[1] - 1, fmt.emin)
    else:
        fraction_bits = fmt.bits - 1
        exponents = np.full(scales.shape, fraction_bits)
    exponents = np.where(np.isnan(scales), 0, exponents).astype(np.int64)
    return BlockScale(np.ldexp(scales, -exponents), exponents, length, fraction_bits)
