"""float32 by its bits: powers of two and exponents, without a rounded logarithm.

Those of float64 are `power` and `exponent` of `mxdot.model.arrays`.
"""

import torch
from torch import Tensor

from ...model.formats import FLOAT32

FLOAT32_BIAS, FLOAT32_FRACTION = FLOAT32.bias, FLOAT32.mantissa_bits


def power32(exponent: Tensor) -> Tensor:
    """2^exponent as float32, for an int32 `exponent` from -127 (a subnormal) to 127."""
    bits = torch.bitwise_left_shift(exponent + FLOAT32_BIAS, FLOAT32_FRACTION)
    return torch.where(exponent == -FLOAT32_BIAS, 1 << (FLOAT32_FRACTION - 1), bits).view(
        torch.float32
    )


def exponent32(x: Tensor) -> Tensor:
    """The exponent floor(log2(x)) of non-negative float32 `x`, int32; -127 for a subnormal or 0."""
    return torch.bitwise_right_shift(x.view(torch.int32), FLOAT32_FRACTION) - FLOAT32_BIAS
