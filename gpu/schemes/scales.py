"""Stored scales to exact float64 and back, in every format that scales are kept in."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...model.schemes.scales import FloatScale, IntegerScale, PowerScale, Scale
from ..floats import exponent64, power64

DTYPES = {  # of floats; those of 8 bits are kept as uint8 codes
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn,
}


def encode(values: Tensor, fmt: FloatScale | IntegerScale) -> Tensor:
    """RNE of non-negative float64 `values` (rounded to odd before), limited to the format."""
    if isinstance(fmt, IntegerScale):
        limited = values.round().clamp(fmt.smallest, fmt.largest).to(torch.int32)
        return limited.to(torch.uint8 if fmt.bits <= 8 else torch.uint16)
    smallest = values.new_tensor(fmt.smallest)
    lowest = exponent64(smallest)  # subnormals are multiples of the smallest
    exponent = exponent64(values.maximum(smallest))
    unit = (exponent - (fmt.significand_bits - 1)).maximum(lowest)
    rounded = (values * power64(-unit)).round() * power64(unit)
    limited = rounded.clamp(fmt.smallest, fmt.largest).to(torch.float32)
    narrow = limited.to(DTYPES[fmt.name])
    return narrow.view(torch.uint8) if fmt.bits == 8 else narrow


def encode_power(exponents: Tensor, fmt: PowerScale) -> Tensor:
    """Codes of integer `exponents`, limited to the range of the format."""
    limited = exponents.clamp(fmt.low, fmt.high)
    return (fmt.sign * (limited + fmt.bias)).to(torch.uint8)


def decode(stored: Tensor, fmt: Scale) -> Tensor:
    """Exact float64 values of stored scales, NaN included."""
    if isinstance(fmt, PowerScale):
        values = power64(fmt.sign * stored.to(torch.int64) - fmt.bias)
        return values if fmt.nan is None else torch.where(stored == fmt.nan, torch.nan, values)
    if isinstance(fmt, FloatScale):
        floats = stored.view(DTYPES[fmt.name]) if fmt.bits == 8 else stored
        return floats.to(torch.float32).to(torch.float64)
    return stored.to(torch.int32).to(torch.float64)


def poison(stored: Tensor, poisoned: Tensor, fmt: Scale) -> Tensor:
    """`stored` with the format's NaN where `poisoned`, by its bits."""
    nan = of_array(np.asarray(fmt.nan)).to(stored.device, stored.dtype)
    return torch.where(poisoned, nan, stored)


# Arrays of NumPy, which has bfloat16 from ml_dtypes ----------------------------------------------


def of_array(array: NDArray) -> Tensor:
    """A copy of `array`."""
    if array.dtype.name == "bfloat16":
        return torch.tensor(array.view(np.int16)).view(torch.bfloat16)
    return torch.tensor(array)


def to_array(stored: Tensor, fmt: Scale) -> NDArray:
    """Stored scales as the model keeps them, in host memory."""
    stored = stored.cpu()
    if isinstance(fmt, FloatScale) and stored.dtype == torch.bfloat16:
        return stored.view(torch.int16).numpy().view(fmt.dtype)
    return stored.numpy()
