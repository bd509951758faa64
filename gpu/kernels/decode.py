"""Triton functions that read codes: the values of elements and of scales, exact in float32."""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from ...model.formats import E4M3, E5M2, E8M0, ElementFormat, IntegerFormat, Specials, TableFormat
from ..tensors.formats import FLOAT32_BIAS, FLOAT32_FRACTION
from . import device
from .arithmetic import FRACTION32, HIDDEN32

LONGEST_CODE = 8  # bits, of the kernels that read and write codes one by one
NAN_SCALE = tl.constexpr(E8M0.nan_code)


class Codes(NamedTuple):
    """Compile-time parameters of `decode`, one constexpr.

    sign: the sign bit. shift: from a code's fields to their places in float32. factor: corrects the
    bias after the shift, or an integer's unit. fnuz: whether the code of -0 is the NaN. converts:
    whether the GPU has an instruction for the format.
    """

    sign: int
    shift: int
    factor: float
    is_integer: bool
    largest_code: int
    has_inf: bool
    has_nan: bool
    fnuz: bool
    converts: bool

    @classmethod
    @cache
    def of(cls, fmt: ElementFormat, where: torch.device) -> "Codes":
        """The constants of `fmt` on the device `where`."""
        return cls(
            1 << (fmt.bits - 1),
            FLOAT32_FRACTION - fmt.mantissa_bits,
            _factor(fmt),
            fmt.is_integer,
            fmt.largest_code,
            fmt.inf_code is not None,
            fmt.nan_code is not None,
            fmt.specials is Specials.FNUZ,
            fmt in (E4M3, E5M2) and device.has_fp8_conversion(where),
        )


def codes_refusal(*formats: ElementFormat) -> str | None:
    """Why kernels cannot take elements of these formats; None when they can."""
    for fmt in formats:
        if isinstance(fmt, TableFormat):
            return f"elements must be floats or integers, not the table of values of {fmt}"
        if fmt.bits > LONGEST_CODE:
            return f"codes must have at most {LONGEST_CODE} bits, not {fmt.bits}"
    return None


def _factor(fmt: ElementFormat) -> float:
    if isinstance(fmt, IntegerFormat):
        return 2.0**-fmt.fraction_bits
    return 2.0 ** (FLOAT32_BIAS - fmt.bias)


@triton.jit
def decode(codes, FORMAT: tl.constexpr):
    """float32 values of uint8 `codes`, NaN and infinities included."""
    if FORMAT.converts and FORMAT.has_inf:
        return codes.to(tl.float8e5, bitcast=True).to(tl.float32)
    if FORMAT.converts:
        return codes.to(tl.float8e4nv, bitcast=True).to(tl.float32)
    code = codes.to(tl.int32)
    if FORMAT.is_integer:
        units = tl.where(code >= FORMAT.sign, code - 2 * FORMAT.sign, code)
        return units.to(tl.float32) * FORMAT.factor
    magnitude = code & (FORMAT.sign - 1)
    # The fields, put where float32 has them: only the bias is wrong.
    value = (magnitude << FORMAT.shift).to(tl.float32, bitcast=True) * FORMAT.factor
    if FORMAT.has_inf:
        value = tl.where(magnitude == FORMAT.largest_code + 1, float("inf"), value)
    sign = tl.where(code >= FORMAT.sign, -2147483648, 0).to(tl.int32)
    value = (value.to(tl.int32, bitcast=True) | sign).to(tl.float32, bitcast=True)
    # A NaN has no sign: it comes last.
    if FORMAT.fnuz:
        value = tl.where(code == FORMAT.sign, float("nan"), value)
    elif FORMAT.has_nan:
        value = tl.where(magnitude > FORMAT.largest_code + FORMAT.has_inf, float("nan"), value)
    return value


@triton.jit
def scale_value(scales):
    """float32 values of E8M0 codes; the least is a subnormal."""
    code = scales.to(tl.int32)
    bits = tl.where(code == 0, HIDDEN32 >> 1, code << FRACTION32)
    return tl.where(code == NAN_SCALE, float("nan"), bits.to(tl.float32, bitcast=True))
