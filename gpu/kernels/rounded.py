"""Triton functions that round quotients to elements without a division (scheme_quantize.py)."""

import triton
import triton.language as tl

from ...model.formats import ElementFormat, FloatFormat, IntegerFormat
from .arithmetic import BIAS32, FRACTION32

FAR = tl.constexpr(2.0**20)  # beyond every code, and what a zero point makes of it


def element_constants(element: ElementFormat) -> dict[str, object]:
    """The constexpr arguments of the kernels that say what an element is."""
    found: dict[str, object] = {"BITS": element.bits, "INTEGER": element.is_integer}
    if isinstance(element, IntegerFormat):
        unit, ends = 2.0**element.fraction_bits, (element.lowest_encoded, element.highest)
        return found | {"UNIT": unit, "LOWEST": ends[0], "LARGEST": ends[1], "M": 0, "EMIN": 0}
    assert isinstance(element, FloatFormat)
    places = {"M": element.mantissa_bits, "EMIN": element.emin}
    return found | {"UNIT": 1.0, "LOWEST": 0, "LARGEST": element.largest_code, **places}


@triton.jit
def _beyond(value, middle, scale, FUSED: tl.constexpr):
    """The sign of value - middle x scale: of the exact difference, be it rounded (FUSED, of
    float32) or not (float64)."""
    if FUSED:
        return tl.fma(-middle, scale, value)
    else:
        return value.to(tl.float64) - middle.to(tl.float64) * scale


@triton.jit
def element_code(
    value,
    near,
    scale,
    zero_point,
    BITS: tl.constexpr,
    INTEGER: tl.constexpr,
    LOWEST: tl.constexpr,
    LARGEST: tl.constexpr,
    M: tl.constexpr,
    EMIN: tl.constexpr,
    FUSED: tl.constexpr,
):
    """uint8 codes of float32 `value` / `scale`, nearest even, plus an int32 zero point.

    near: float32, the quotient but for a few last places. scale: float64, or float32 and FUSED.
    """
    if INTEGER:
        below = tl.floor(tl.minimum(tl.maximum(near, -FAR), FAR))
        rest = _beyond(value, below + 0.5, scale, FUSED)
        digits = below.to(tl.int32)
        digits += ((rest > 0) | ((rest == 0) & ((digits & 1) == 1))).to(tl.int32)
        code = tl.minimum(tl.maximum(digits + zero_point, LOWEST), LARGEST) & ((1 << BITS) - 1)
    else:
        size = tl.minimum(tl.abs(near), FAR)
        exponent = tl.maximum(size.to(tl.int32, bitcast=True) >> FRACTION32, EMIN + BIAS32)
        unit = ((exponent - M) << FRACTION32).to(tl.float32, bitcast=True)
        inverse = ((exponent * -1 + (2 * BIAS32 + M)) << FRACTION32).to(tl.float32, bitcast=True)
        digits = (size * inverse).to(tl.int32)
        rest = _beyond(tl.abs(value), (digits.to(tl.float32) + 0.5) * unit, scale, FUSED)
        digits += ((rest > 0) | ((rest == 0) & ((digits & 1) == 1))).to(tl.int32)
        # A carry out of the significand runs into the exponent field, as it should.
        code = tl.minimum(digits + ((exponent - (EMIN + BIAS32)) << M), LARGEST)
        code |= (value.to(tl.int32, bitcast=True) >> 31) & (1 << (BITS - 1))
    return code.to(tl.uint8)
