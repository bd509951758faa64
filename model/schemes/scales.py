"""Scales in the formats of `model/formats/`: floats, powers of two and unsigned integers.

No scale is zero. A level's scales are kept as the format keeps them: in an array of its dtype.
"""

import numpy as np
from numpy.typing import NDArray

from ..formats import (
    BFLOAT16,
    E1M0,
    E4M3,
    E8M0,
    FLOAT16,
    FLOAT32,
    FloatFormat,
    IntegerFormat,
    PowerFormat,
    ScaleFormat,
    UnsignedFormat,
)
from ..rounding import F64

SCALES: dict[str, ScaleFormat] = {
    fmt.name: fmt for fmt in (FLOAT32, FLOAT16, BFLOAT16, E4M3, E8M0, E1M0)
}
"""By name; integers are uN."""

FLOAT32_SCALE, FLOAT16_SCALE, BFLOAT16_SCALE, E4M3_SCALE = FLOAT32, FLOAT16, BFLOAT16, E4M3
E8M0_SCALE, E1M0_SCALE = E8M0, E1M0
FloatScale, PowerScale, IntegerScale = FloatFormat, PowerFormat, UnsignedFormat


def is_scale(value: object) -> bool:
    """Whether `value` is a format that scales can have."""
    return isinstance(value, PowerFormat | UnsignedFormat) or value in SCALES.values()


def encode(values: F64, fmt: FloatFormat | IntegerFormat) -> NDArray:
    """RNE of non-negative `values` (rounded to odd before), from the smallest to the largest."""
    return fmt.encode(np.clip(values, fmt.smallest, fmt.largest_finite))
