"""float32 and float64 by their bits: powers of two and exponents, without a rounded logarithm."""

import torch
from torch import Tensor

from ..model.formats import FLOAT32, FLOAT64

FLOAT32_BIAS, FLOAT32_FRACTION = FLOAT32.bias, FLOAT32.mantissa_bits
FLOAT64_BIAS, FLOAT64_FRACTION = FLOAT64.bias, FLOAT64.mantissa_bits


def power32(exponent: Tensor) -> Tensor:
    """2^exponent as float32, for an int32 `exponent` from -127 (a subnormal) to 127."""
    bits = torch.bitwise_left_shift(exponent + FLOAT32_BIAS, FLOAT32_FRACTION)
    return torch.where(exponent == -FLOAT32_BIAS, 1 << (FLOAT32_FRACTION - 1), bits).view(
        torch.float32
    )


def power64(exponent: Tensor) -> Tensor:
    """2^exponent as float64, for an integer `exponent` from -1022 to 1023."""
    biased = exponent.to(torch.int64) + FLOAT64_BIAS
    return torch.bitwise_left_shift(biased, FLOAT64_FRACTION).view(torch.float64)


def exponent32(x: Tensor) -> Tensor:
    """The exponent floor(log2(x)) of non-negative float32 `x`, int32; -127 for a subnormal or 0."""
    return torch.bitwise_right_shift(x.view(torch.int32), FLOAT32_FRACTION) - FLOAT32_BIAS


def exponent64(x: Tensor) -> Tensor:
    """The exponent floor(log2(x)) of non-negative normal float64 `x`, int64; -1023 for 0."""
    return torch.bitwise_right_shift(x.view(torch.int64), FLOAT64_FRACTION) - FLOAT64_BIAS
