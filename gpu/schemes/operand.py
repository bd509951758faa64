"""Operands of products on a device: `mxdot.model.schemes.operand` for tensors.

Elements (with their zero points and one-bit shifts) make the terms; scales inside the outermost
float scale, and powers of two, make the scale of a block; the outermost float scale that of a
region (section 7 of docs/numerics.md).
"""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from ...model.formats import ElementFormat, FloatFormat, PowerFormat, ScaleFormat
from ...model.products import NO_EXPONENT
from ...model.schemes.operand import (
    element_range,
    in_range,
    is_region,
    is_shift,
    unit_exponents,
)
from .. import checks
from ..floats import exponent64, power64
from ..rules.steps import NO_UNIT
from . import elements, scales
from .grouping import expand
from .tensor import ScaledTensor


@dataclass(frozen=True)
class BlockScale:
    """Scales of blocks: significand x 2^exponent, one for `length` columns.

    significands: float64 (rows, groups) in [0, 2), multiples of 2^-fraction_bits, NaN under a NaN
    scale; exponents: int32, those of the unit digit.
    """

    significands: Tensor
    exponents: Tensor
    length: int
    fraction_bits: int

    @property
    def is_power(self) -> bool:
        """Whether every significand is 1 (or NaN)."""
        return self.fraction_bits == 0


@dataclass(frozen=True)
class Operand:
    """A matrix (rows, K) of terms' factors with its scales.

    values: float64, exact, NaN and infinities included. units: int16, exponents of the unit digit,
    NO_UNIT for zeros and what is not finite. lsb, low, high: values are multiples of 2^lsb from low
    to high of them. regions: float64 scales (rows, regions) of `region_length` columns each, or
    None.
    """

    values: Tensor
    units: Tensor
    lsb: int
    low: int
    high: int
    blocks: tuple[BlockScale, ...] = ()
    regions: Tensor | None = None
    region_length: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, K)."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def largest(self) -> int:
        """The largest magnitude, in units of 2^lsb."""
        return max(-self.low, self.high)

    def region_scale(self, column: int) -> Tensor:
        """The scale of every row's region at `column`; 1 where there is none."""
        if self.regions is None:
            return self.values.new_ones(self.shape[0])
        return self.regions[:, column // self.region_length]


@cache
def _units(formats: tuple[ElementFormat, ...], device: torch.device) -> Tensor:
    """(formats, codes): the exponent of every code's unit digit, int16; NO_UNIT for none."""
    table = torch.stack([torch.tensor(unit_exponents(fmt), device=device) for fmt in formats])
    return torch.where(table == NO_EXPONENT, NO_UNIT, table).to(torch.int16)


@cache
def _in_range(formats: tuple[ElementFormat, ...], device: torch.device) -> Tensor:
    return torch.stack([torch.tensor(in_range(fmt), device=device) for fmt in formats])


def operand(array: ScaledTensor) -> Operand:
    """The operand of a matrix whose groups' columns run along its last axis."""
    scheme = array.scheme
    formats = scheme.elements
    check_codes(array)
    book = _book(array)
    index = book, array.codes.to(torch.int32)
    values = elements.values(formats, array.device)[index]
    units = _units(formats, array.device)[index]
    if array.zero_points is not None:
        values = values - array.spread(array.zero_points, -1)
        low, high = formats[0].extremes
        width = int(high - low).bit_length()
        units = torch.where(values == 0, NO_UNIT, width - 1).to(torch.int16)
    blocks, regions, region_length = [], None, 0
    for i, (level, stored) in enumerate(zip(scheme.levels, array.scales, strict=True)):
        rows, length = level.granularity.group(array.matrix_shape)
        decoded = expand(scales.decode(stored, level.format), (rows, 1))
        if is_region(level, i):
            regions, region_length = decoded, length
        elif is_shift(level, i):
            shift = expand(exponent64(decoded), (1, length))
            values = values * power64(shift)
            units = torch.where(units == NO_UNIT, units, units + shift).to(torch.int16)
        else:
            blocks.append(_block_scale(level.format, decoded, length))
    lsb, low, high = element_range(scheme)
    return Operand(values, units, lsb, low, high, tuple(blocks), regions, region_length)


def _book(array: ScaledTensor) -> Tensor | int:
    """Which format every code is of."""
    return 0 if array.selectors is None else array.spread(array.selectors, -1).to(torch.int32)


def check_codes(array: ScaledTensor) -> None:
    """ValueError for codes, zero points and selectors outside their range.

    By that of elements sums are sized. Codes are those of a matrix, as for `operand`.
    """
    scheme = array.scheme
    if array.selectors is not None:
        checks.integers(f"selectors of {scheme}", array.selectors, 0, len(scheme.elements) - 1)
    if array.zero_points is not None:
        low, high = map(int, scheme.elements[0].extremes)
        checks.integers(f"zero_points of {scheme}", array.zero_points, low, high)
    allowed = _in_range(scheme.elements, array.device)[_book(array), array.codes.to(torch.int32)]
    if not bool(allowed.all()):
        code = int(array.codes[~allowed][0])
        raise ValueError(
            f"codes of {scheme} must stand for numbers of "
            f"{', '.join(map(str, scheme.elements))}, not be {code:#04x}"
        )


def _block_scale(fmt: ScaleFormat, decoded: Tensor, length: int) -> BlockScale:
    """Significands and exponents; a subnormal or integer scale is not normalised."""
    nan = decoded.isnan()
    exponents = exponent64(torch.where(nan, 1.0, decoded))
    if isinstance(fmt, PowerFormat):
        fraction_bits = 0
    elif isinstance(fmt, FloatFormat):
        fraction_bits = fmt.mantissa_bits
        exponents = exponents.clamp(min=fmt.emin)
    else:
        fraction_bits = fmt.bits - 1
        exponents = torch.full_like(exponents, fraction_bits)
    significands = decoded * power64(-exponents)
    return BlockScale(significands, exponents.to(torch.int32), length, fraction_bits)


def float_operand(matrix: Tensor) -> Operand:
    """The operand of a matrix of floats, which has no scales."""
    info = torch.finfo(matrix.dtype)
    values = matrix.to(torch.float64)
    lowest = int(exponent64(values.new_tensor(info.smallest_normal)))
    lsb = int(exponent64(values.new_tensor(info.smallest_normal * info.eps)))
    magnitude = values.abs()
    none = ~magnitude.isfinite() | (magnitude == 0)
    exponents = exponent64(torch.where(none, 1.0, magnitude)).clamp(min=lowest)
    units = torch.where(none, NO_UNIT, exponents).to(torch.int16)
    largest = int(info.max) * 2**-lsb
    return Operand(values, units, lsb, -largest, largest)
