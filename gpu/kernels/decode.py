"""Triton functions that read codes: the values of elements and of scales, exact in float32."""

from typing import Any

import torch
import triton
import triton.language as tl

from ...model.formats import E4M3, E5M2, E8M0, ElementFormat
from ..floats import FLOAT32_BIAS, FLOAT32_FRACTION
from . import device

NAN_SCALE = tl.constexpr(E8M0.nan_code)


def constants(fmt: ElementFormat, where: torch.device) -> dict[str, Any]:
    """The constexpr arguments of `decode` on the device `where`."""
    converts = fmt in (E4M3, E5M2) and device.has_fp8_conversion(where)
    return {
        "SIGN": 1 << (fmt.bits - 1),
        "SHIFT": FLOAT32_FRACTION - fmt.mantissa_bits,
        "FACTOR": 2.0**-fmt.mantissa_bits if fmt.is_integer else 2.0 ** (FLOAT32_BIAS - fmt.bias),
        "INTEGER": fmt.is_integer,
        "LARGEST_CODE": fmt.largest_code,
        "HAS_INF": fmt.inf_code is not None,
        "HAS_NAN": fmt.nan_code is not None,
        "CONVERT": converts,
    }


@triton.jit
def decode(
    codes,
    SIGN: tl.constexpr,
    SHIFT: tl.constexpr,
    FACTOR: tl.constexpr,
    INTEGER: tl.constexpr,
    LARGEST_CODE: tl.constexpr,
    HAS_INF: tl.constexpr,
    HAS_NAN: tl.constexpr,
    CONVERT: tl.constexpr,
):
    """float32 values of uint8 `codes`, NaN and infinities included."""
    if CONVERT and HAS_INF:
        return codes.to(tl.float8e5, bitcast=True).to(tl.float32)
    if CONVERT:
        return codes.to(tl.float8e4nv, bitcast=True).to(tl.float32)
    code = codes.to(tl.int32)
    if INTEGER:
        return tl.where(code >= SIGN, code - 2 * SIGN, code).to(tl.float32) * FACTOR
    magnitude = code & (SIGN - 1)
    # The fields, put where float32 has them: only the bias is wrong.
    value = (magnitude << SHIFT).to(tl.float32, bitcast=True) * FACTOR
    if HAS_NAN:
        value = tl.where(magnitude > LARGEST_CODE, float("nan"), value)
    if HAS_INF:
        value = tl.where(magnitude == LARGEST_CODE + 1, float("inf"), value)
    sign = tl.where(code >= SIGN, -2147483648, 0).to(tl.int32)
    return (value.to(tl.int32, bitcast=True) | sign).to(tl.float32, bitcast=True)


@triton.jit
def scale_value(scales):
    """float32 values of E8M0 codes; the least is a subnormal."""
    code = scales.to(tl.int32)
    bits = tl.where(code == 0, 0x00400000, code << 23)
    return tl.where(code == NAN_SCALE, float("nan"), bits.to(tl.float32, bitcast=True))
