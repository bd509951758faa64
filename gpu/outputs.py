"""The output formats of a product: float32, or a narrower float by one final RNE."""

import torch
from torch import Tensor

from ..model.outputs import BFLOAT16, FLOAT16, FLOAT32, OutputFormat

OUTPUTS = {torch.float32: FLOAT32, torch.bfloat16: BFLOAT16, torch.float16: FLOAT16}


def convert(x: Tensor, out: OutputFormat, dtype: torch.dtype) -> Tensor:
    """RNE of float32 `x` to `dtype`, which `out` describes, as the model's `outputs.convert`:
    subnormals kept, a zero +0, a NaN quiet and with its leading bits."""
    if out == FLOAT32:
        return x
    narrow = (x.to(dtype) + 0.0).view(torch.int16)  # a zero is +0
    fraction = torch.bitwise_right_shift(x.view(torch.int32) & 0x7FFFFF, 23 - out.fraction_bits)
    quiet_nan = (2 ** (out.exponent_bits + 1) - 1) * 2 ** (out.fraction_bits - 1)
    return torch.where(x.isnan(), (quiet_nan | fraction).to(torch.int16), narrow).view(dtype)
