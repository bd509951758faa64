"""Stored scales to exact float64 and back, in every format that scales are kept in."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...model.formats import FloatFormat, IntegerFormat, PowerFormat, ScaleFormat
from ..floats import exponent64, power64

DTYPES = {  # of floats; those of 8 bits are kept as uint8 codes
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn,
}


def encode(values: Tensor, fmt: FloatFormat | IntegerFormat) -> Tensor:
    """RNE of non-negative float64 `values` (rounded to odd before), limited to the format."""
    if isinstance(fmt, IntegerFormat):
        limited = values.round().clamp(fmt.smallest, fmt.largest_finite).to(torch.int32)
        return limited.to(torch.uint8 if fmt.bits <= 8 else torch.uint16)
    exponent = exponent64(values.clamp(min=fmt.smallest)).clamp(min=fmt.emin)
    unit = exponent - fmt.mantissa_bits
    rounded = (values * power64(-unit)).round() * power64(unit)
    limited = rounded.clamp(fmt.smallest, fmt.largest_finite).to(torch.float32)
    narrow = limited.to(DTYPES[fmt.name])
    return narrow.view(torch.uint8) if fmt.bits == 8 else narrow


def encode_power(exponents: Tensor, fmt: PowerFormat) -> Tensor:
    """Codes of integer `exponents`, limited to the range of the format."""
    limited = exponents.clamp(*fmt.exponent_range)
    return (fmt.sign * (limited + fmt.bias)).to(torch.uint8)


def decode(stored: Tensor, fmt: ScaleFormat) -> Tensor:
    """Exact float64 values of stored scales, NaN included."""
    if isinstance(fmt, PowerFormat):
        values = power64(fmt.sign * stored.to(torch.int64) - fmt.bias)
        return (
            values
            if fmt.nan_code is None
            else torch.where(stored == fmt.nan_code, torch.nan, values)
        )
    if isinstance(fmt, FloatFormat):
        floats = stored.view(DTYPES[fmt.name]) if fmt.bits == 8 else stored
        return floats.to(torch.float32).to(torch.float64)
    return stored.to(torch.int32).to(torch.float64)


def poison(stored: Tensor, poisoned: Tensor, fmt: ScaleFormat) -> Tensor:
    """`stored` with the format's NaN where `poisoned`, by its bits."""
    nan = of_array(np.asarray(fmt.nan)).to(stored.device, stored.dtype)
    return torch.where(poisoned, nan, stored)


# Arrays of NumPy, which has bfloat16 from ml_dtypes ----------------------------------------------


def of_array(array: NDArray) -> Tensor:
    """A copy of `array`."""
    if array.dtype.name == "bfloat16":
        return torch.tensor(array.view(np.int16)).view(torch.bfloat16)
    return torch.tensor(array)


def to_array(stored: Tensor, fmt: ScaleFormat) -> NDArray:
    """Stored scales as the model keeps them, in host memory."""
    stored = stored.cpu()
    if isinstance(fmt, FloatFormat) and stored.dtype == torch.bfloat16:
        return stored.view(torch.int16).numpy().view(fmt.dtype)
    return stored.numpy()
