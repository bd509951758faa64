"""Codes of quotients without a division, and schemes with one float32 scale per row.

Used by `scheme_quantize`, and for values by `mxdot::scheme_values`. Rows with one scale take one
launch for extremes, scales and codes, and a row stays in registers unless it is too long. With a
float32 scale one fused multiplication and addition gives the sign of value - midpoint x scale,
where float64 takes four conversions.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import FLOAT32, ElementFormat, FloatFormat, IntegerFormat
from ...model.schemes import Scheme
from . import device
from .arithmetic import BIAS32, FRACTION32, INFINITY32
from .decode import Codes, decode
from .launch import Launch
from .overlap import overlaps, ready

if TYPE_CHECKING:
    from ..schemes.quantize import SchemeQuantization

SHORTEST = 256  # shorter rows would leave threads without work
LONGEST_PART = 16384  # elements of a row that a program has at once
OF_WARP = 2048  # elements
OF_WARP_FEW, FEW_ROWS = 256, 64  # elements, up to as many rows
MOST_WARPS = 32
NAN_BITS, LARGEST_BITS = tl.constexpr(FLOAT32.nan_code), tl.constexpr(FLOAT32.largest_code)
FAR = tl.constexpr(2.0**20)  # beyond every code, and what a zero point makes of it
TINY = tl.constexpr(2.0**-64)  # scales below it, and values under them, are taken 2^64 as large


class Element(NamedTuple):
    """Compile-time parameters of `element_code`, one constexpr.

    unit: integers per value 1. lowest: the least integer. largest: the greatest integer, or the
    code of the largest float. m, emin: mantissa bits and least exponent of a float, else 0.
    """

    bits: int
    integer: bool
    unit: float
    lowest: int
    largest: int
    m: int
    emin: int

    @classmethod
    def of(cls, element: ElementFormat) -> "Element":
        """The constants of `element`."""
        if isinstance(element, IntegerFormat):
            unit, ends = 2.0**element.fraction_bits, (element.lowest_encoded, element.highest)
            return cls(element.bits, True, unit, *ends, 0, 0)
        assert isinstance(element, FloatFormat)
        largest, mantissa = element.largest_code, element.mantissa_bits
        return cls(element.bits, element.is_integer, 1.0, 0, largest, mantissa, element.emin)


def takes(request: "SchemeQuantization") -> bool:
    """Whether this kernel does all that `scheme_quantize` does for a request that it takes."""
    scheme, x, element = request.scheme, request.x, request.scheme.elements[0]
    level = scheme.levels[0]
    rows = level.granularity.rows == 1 and level.granularity.columns is None
    last = request.axis in (-1, x.ndim - 1)
    if request.rounding != "nearest_even":
        return False
    if not (rows and is_plain(scheme) and last and x.is_contiguous()) or request.limits:
        return False
    room = scheme.room(0, element)
    exact = np.float32(room) == room and room <= FLOAT32.largest_finite
    return bool(exact and x.shape[-1] >= SHORTEST)


def is_plain(scheme: Scheme) -> bool:
    """Whether a code stands for itself times one float32."""
    (level, *inner), unit = scheme.levels, Element.of(scheme.elements[0]).unit
    return level.format == FLOAT32 and unit == 1 and not (inner or scheme.zero_point)


def prepare(
    request: "SchemeQuantization", dtype: torch.dtype | None = None
) -> Callable[[Tensor], list[Tensor]]:
    """The work for requests like this one: codes and scales of x, or its values of a `dtype`."""
    shape, where, (element, *_) = request.x.shape, request.device, request.scheme.elements
    columns, rows = shape[-1], shape[:-1].numel()
    part = min(LONGEST_PART, triton.next_power_of_2(columns))
    of_warp = OF_WARP_FEW if rows <= FEW_ROWS else OF_WARP
    launch = Launch(
        _quantize_rows,
        (rows,),
        ROOM=request.scheme.room(0, element),
        PART=part,
        WHOLE=columns <= part,
        FUSED=not device.interpreted(),  # which rounds a product before it adds
        num_warps=min(MOST_WARPS, max(1, part // of_warp)),
        ELEMENT=Element.of(element),
        VALUES=None if dtype is None else Codes.of(element, where),
        EARLY=overlaps(where),
        launch_pdl=overlaps(where),
    )
    scale_shape = (*shape[:-1], 1)

    def work(x: Tensor) -> list[Tensor]:
        if dtype is not None:
            values = torch.empty(shape, dtype=dtype, device=where)
            launch(x, values, values, columns)
            return [values]
        codes = torch.empty(shape, dtype=torch.uint8, device=where)
        scales = torch.empty(scale_shape, dtype=torch.float32, device=where)
        launch(x, codes, scales, columns)
        return [codes, scales]

    return work


@triton.jit
def _beyond(value, middle, scale, low, FUSED: tl.constexpr):
    """A number with the sign of value - middle x (scale + low).

    FUSED: in float32, each step rounded once: near zero the first is exact. Else exact in float64,
    without `low`.
    """
    if FUSED:
        rest = tl.fma(-middle, scale, value)
        return rest if low is None else tl.fma(-middle, low, rest)
    else:
        return value.to(tl.float64) - middle.to(tl.float64) * scale


@triton.jit
def element_code(
    value,
    near,
    scale,
    zero_point,
    ELEMENT: tl.constexpr,
    FUSED: tl.constexpr,
    low=None,
):
    """uint8 codes of float32 `value` / `scale`, nearest even, plus an int32 zero point.

    near: float32, the quotient within a few last places. scale: float64; if FUSED float32, and
    `low` what it lacks (None: nothing).
    """
    if ELEMENT.integer:
        below = tl.floor(tl.minimum(tl.maximum(near, -FAR), FAR))
        rest = _beyond(value, below + 0.5, scale, low, FUSED)
        digits = below.to(tl.int32)
        digits += ((rest > 0) | ((rest == 0) & ((digits & 1) == 1))).to(tl.int32)
        code = tl.minimum(tl.maximum(digits + zero_point, ELEMENT.lowest), ELEMENT.largest) & (
            (1 << ELEMENT.bits) - 1
        )
    else:
        size = tl.minimum(tl.abs(near), FAR)
        M: tl.constexpr = ELEMENT.m
        LEAST: tl.constexpr = ELEMENT.emin + BIAS32
        exponent = tl.maximum(size.to(tl.int32, bitcast=True) >> FRACTION32, LEAST)
        unit = ((exponent - M) << FRACTION32).to(tl.float32, bitcast=True)
        inverse = ((exponent * -1 + (2 * BIAS32 + M)) << FRACTION32).to(tl.float32, bitcast=True)
        digits = (size * inverse).to(tl.int32)
        rest = _beyond(tl.abs(value), (digits.to(tl.float32) + 0.5) * unit, scale, low, FUSED)
        digits += ((rest > 0) | ((rest == 0) & ((digits & 1) == 1))).to(tl.int32)
        # A carry out of the significand runs into the exponent field, as it should.
        code = tl.minimum(digits + ((exponent - LEAST) << M), ELEMENT.largest)
        code |= (value.to(tl.int32, bitcast=True) >> 31) & (1 << (ELEMENT.bits - 1))
    return code.to(tl.uint8)


@triton.jit
def plain_codes(
    value,
    scale,
    poisoned,
    ELEMENT: tl.constexpr,
    FUSED: tl.constexpr,
):
    """uint8 codes of float32 values under float32 scales, zeros where these are poisoned."""
    up = tl.where(scale < TINY, 1.0 / TINY, 1.0)
    value = tl.where(poisoned, 0.0, value) * up
    near = value * (1.0 / (scale * up))
    return element_code(value, near, scale * up, 0, ELEMENT, FUSED)


@triton.jit
def _quantize_rows(
    x,
    codes,
    scales,
    columns,
    ROOM: tl.constexpr,
    ELEMENT: tl.constexpr,
    PART: tl.constexpr,
    WHOLE: tl.constexpr,
    FUSED: tl.constexpr,
    VALUES: tl.constexpr,
    EARLY: tl.constexpr,
):
    ready(EARLY)
    row = tl.program_id(0).to(tl.int64)
    x += row * columns
    codes += row * columns
    j = tl.arange(0, PART)
    value = tl.load(x + j, mask=j < columns, other=0.0).to(tl.float32)
    most = value.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    if not WHOLE:
        for k in range(PART, columns, PART):
            later = tl.load(x + k + j, mask=k + j < columns, other=0.0).to(tl.float32)
            most = tl.maximum(most, later.to(tl.int32, bitcast=True) & 0x7FFFFFFF)
    largest = tl.max(most, axis=0)
    poisoned = largest >= INFINITY32
    amax = tl.where(poisoned, 0, largest).to(tl.float32, bitcast=True)
    ratio = tl.div_rn(amax, tl.full((), ROOM, tl.float32)).to(tl.int32, bitcast=True)
    bits = tl.minimum(tl.maximum(ratio, 1), LARGEST_BITS)
    scale = bits.to(tl.float32, bitcast=True)
    stored = tl.where(poisoned, NAN_BITS, bits).to(tl.float32, bitcast=True)
    if VALUES is None:
        tl.store(scales + row, stored)
    code = plain_codes(value, scale, poisoned, ELEMENT, FUSED)
    if VALUES is not None:
        code = (decode(code, VALUES) * stored).to(codes.dtype.element_ty)
    tl.store(codes + j, code, mask=j < columns)
    if not WHOLE:
        for k in range(PART, columns, PART):
            later = tl.load(x + k + j, mask=k + j < columns, other=0.0).to(tl.float32)
            code = plain_codes(later, scale, poisoned, ELEMENT, FUSED)
            if VALUES is not None:
                code = (decode(code, VALUES) * stored).to(codes.dtype.element_ty)
            tl.store(codes + k + j, code, mask=k + j < columns)
