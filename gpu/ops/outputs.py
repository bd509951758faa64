"""The output formats of a product: float32, or a narrower float by one final RNE."""

import torch
from torch import Tensor

from ...model.formats import BFLOAT16, FLOAT16, FLOAT32, FloatFormat

OUTPUTS = {torch.float32: FLOAT32, torch.bfloat16: BFLOAT16, torch.float16: FLOAT16}


def convert(x: Tensor, out: FloatFormat, dtype: torch.dtype) -> Tensor:
    """RNE of float32 `x` to `dtype`, which `out` describes, as the model's `outputs.convert`:
    subnormals kept, a zero +0, a NaN quiet and with its leading bits."""
    if out == FLOAT32:
        return x
    narrow = (x.to(dtype) + 0.0).view(torch.int16)  # a zero is +0
    fraction = x.view(torch.int32) & (2**FLOAT32.mantissa_bits - 1)
    leading = torch.bitwise_right_shift(fraction, FLOAT32.mantissa_bits - out.mantissa_bits)
    assert out.nan_code is not None
    return torch.where(x.isnan(), (out.nan_code | leading).to(torch.int16), narrow).view(dtype)
