"""Element and scale codes to float32 and back, for every format that mxdot.model describes."""

import torch
from torch import Tensor

from ...model.arrays import exponent as exponent64
from ...model.arrays import power as power64
from ...model.formats import E8M0, FLOAT32, ElementFormat, Specials
from ...model.formats.codes import round_to_integers
from .floats import FLOAT32_BIAS, FLOAT32_FRACTION, exponent32, power32
from .formats import code_dtype


def carrier(fmt: ElementFormat) -> torch.dtype:
    """The float in which elements, what is scaled to become one, and its digits are computed.

    float32, but for elements of its own range of exponents.
    """
    return torch.float32 if fmt.exponent_bits < FLOAT32.exponent_bits else torch.float64


def decode(codes: Tensor, fmt: ElementFormat) -> Tensor:
    """Exact values of `codes`, NaN and infinities included, in the `carrier` of the format."""
    if carrier(fmt) == torch.float64:
        return fmt.exact(codes)
    codes = codes.to(torch.int32)
    if fmt.is_integer:
        top = 2 ** (fmt.bits - 1)
        return ((codes ^ top) - top).to(torch.float32) * 2.0**-fmt.mantissa_bits
    sign_bit = 1 << (fmt.bits - 1)
    magnitude = codes & (sign_bit - 1)
    # The fields, put where float32 has them: only the bias is wrong.
    raised = torch.bitwise_left_shift(magnitude, FLOAT32_FRACTION - fmt.mantissa_bits)
    value = raised.view(torch.float32) * 2.0 ** (FLOAT32_BIAS - fmt.bias)
    if fmt.specials is Specials.FNUZ:
        value = torch.where(codes == fmt.nan_code, torch.nan, value)
    elif fmt.nan_code is not None:
        value = torch.where(magnitude > fmt.largest_code, torch.nan, value)
    if fmt.inf_code is not None:
        value = torch.where(magnitude == fmt.inf_code, torch.inf, value)
    # By its bit: a compiled -value may be 0 - value, which makes +0 of +0.
    sign = torch.bitwise_left_shift(codes & sign_bit, 32 - fmt.bits)
    return (value.view(torch.int32) | sign).view(torch.float32)


def decode_scales(scales: Tensor) -> Tensor:
    """Exact float32 values of uint8 E8M0 `scales`; NaN for the NaN code."""
    codes = scales.to(torch.int32)
    return torch.where(codes == E8M0.nan_code, torch.nan, power32(codes - E8M0.bias))


def encode(values: Tensor, fmt: ElementFormat, rounding: str, words: Tensor | None) -> Tensor:
    """Round `values`, in the `carrier` of the format, to codes as `ElementFormat.encode` does.

    NaN must have a code. words: for ``stochastic`` rounding, uint32 of the shape of `values`.
    """
    wide = values.dtype == torch.float64
    exponent_of, power = (exponent64, power64) if wide else (exponent32, power32)
    magnitude = values.abs()
    saturates = magnitude >= 2.0 ** (fmt.emax + 1)
    in_range = torch.where(magnitude < 2.0 ** (fmt.emax + 1), magnitude, 0.0)  # no NaN either
    exponent = exponent_of(in_range).clamp(min=fmt.emin)
    digits = in_range * power(fmt.mantissa_bits - exponent)
    # A carry out of the significand runs into the exponent field, as it should.
    field = torch.bitwise_left_shift(exponent - fmt.emin, fmt.mantissa_bits)
    code = round_to_integers(digits, rounding, words).to(torch.int32) + field
    code = torch.where(saturates, fmt.largest_code, code.clamp(max=fmt.largest_code))
    if fmt.inf_code is not None:
        code = torch.where(values.isinf(), fmt.inf_code, code)
    negative = values.signbit()
    if fmt.specials is Specials.FNUZ:
        negative = negative & (code != 0)
    if fmt.is_integer:
        code = torch.where(negative, -code, code) & (2**fmt.bits - 1)
    else:
        code = torch.where(negative, code | 1 << (fmt.bits - 1), code)
    if fmt.nan_code is not None:
        code = torch.where(values.isnan(), fmt.nan_code, code)
    return code.to(code_dtype(fmt))
