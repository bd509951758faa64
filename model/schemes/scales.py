"""The formats that scales are kept in: floats, powers of two and unsigned integers.

Each has `bits`, `significand_bits`, the `smallest` and the `largest` scale, the stored `nan` (None
where the format has none), `decode` to exact float64, and a way to encode. No scale is zero.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import integer
from ..formats import E8M0

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class FloatScale:
    """A floating scale, kept as an array of `dtype`, or of uint8 codes when that has 8 bits."""

    name: str
    dtype: np.dtype

    def __str__(self) -> str:
        return self.name

    @property
    def bits(self) -> int:
        """Width of a stored scale."""
        return 8 * self.dtype.itemsize

    @property
    def significand_bits(self) -> int:
        """Bits of a normal scale's significand."""
        return ml_dtypes.finfo(self.dtype).nmant + 1

    @property
    def smallest(self) -> float:
        """The least positive scale, a subnormal."""
        return float(ml_dtypes.finfo(self.dtype).smallest_subnormal)

    @property
    def largest(self) -> float:
        """Where encoding saturates."""
        return float(ml_dtypes.finfo(self.dtype).max)

    @property
    def nan(self) -> NDArray:
        """The quiet NaN, as it is stored."""
        return self._stored(np.array(np.nan))

    def encode(self, values: F64) -> NDArray:
        """RNE of positive `values` (rounded to odd before), from the smallest to the largest."""
        exponent = np.frexp(np.where(values == 0, self.smallest, values))[1] - 1
        lowest = np.frexp(self.smallest)[1] - 1  # subnormals are multiples of the smallest
        unit = np.maximum(exponent - (self.significand_bits - 1), lowest)
        rounded = np.ldexp(np.rint(np.ldexp(values, -unit)), unit)
        return self._stored(np.clip(rounded, self.smallest, self.largest))

    def decode(self, stored: NDArray) -> F64:
        """Exact values of stored scales."""
        return (stored.view(self.dtype) if self.bits == 8 else stored).astype(np.float64)

    def _stored(self, values: F64) -> NDArray:
        narrow = values.astype(self.dtype)
        return narrow.view(np.uint8) if self.bits == 8 else narrow


@dataclass(frozen=True)
class PowerScale:
    """A power of two, kept as uint8 codes: exponent = sign x code - bias, from `low` to `high`."""

    name: str
    bits: int
    low: int
    high: int
    bias: int
    sign: int = 1
    nan: int | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def significand_bits(self) -> int:
        """A power of two has one."""
        return 1

    @property
    def smallest(self) -> float:
        """The least scale."""
        return 2.0**self.low

    @property
    def largest(self) -> float:
        """The largest scale."""
        return 2.0**self.high

    def encode(self, exponents: ArrayLike) -> NDArray[np.uint8]:
        """Codes of integer `exponents`, limited to the range of the format."""
        limited = np.clip(np.asarray(exponents), self.low, self.high)
        return (self.sign * (limited + self.bias)).astype(np.uint8)

    def decode(self, stored: NDArray) -> F64:
        """Exact values of stored scales, NaN under the NaN code."""
        values = np.ldexp(1.0, self.sign * stored.astype(np.int64) - self.bias)
        return values if self.nan is None else np.where(stored == self.nan, np.nan, values)


@dataclass(frozen=True)
class IntegerScale:
    """An unsigned integer of `bits` (1 to 16), kept as uint8 or uint16; 0 is not used."""

    bits: int

    def __post_init__(self) -> None:
        integer("bits of an integer scale", self.bits, 1, 16)

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """uN for N bits."""
        return f"u{self.bits}"

    @property
    def significand_bits(self) -> int:
        """All of them."""
        return self.bits

    @property
    def smallest(self) -> float:
        """One."""
        return 1.0

    @property
    def largest(self) -> float:
        """Where encoding saturates."""
        return 2.0**self.bits - 1

    @property
    def nan(self) -> None:
        """No integer is NaN."""
        return

    def encode(self, values: F64) -> NDArray:
        """RNE of positive `values` (rounded to odd before), from 1 to the largest."""
        limited = np.clip(np.rint(values), self.smallest, self.largest)
        return limited.astype(np.uint8 if self.bits <= 8 else np.uint16)

    def decode(self, stored: NDArray) -> F64:
        """Exact values of stored scales."""
        return stored.astype(np.float64)


FLOAT32_SCALE = FloatScale("float32", np.dtype(np.float32))
FLOAT16_SCALE = FloatScale("float16", np.dtype(np.float16))
BFLOAT16_SCALE = FloatScale("bfloat16", np.dtype(ml_dtypes.bfloat16))
E4M3_SCALE = FloatScale("e4m3", np.dtype(ml_dtypes.float8_e4m3fn))
E8M0_SCALE = PowerScale("e8m0", E8M0.bits, *E8M0.exponent_range, E8M0.bias, nan=E8M0.nan_code)
E1M0_SCALE = PowerScale("e1m0", 1, -1, 0, 0, sign=-1)  # the code counts places to the right

Scale = FloatScale | PowerScale | IntegerScale
SCALES: dict[str, Scale] = {  # by name; integers are uN
    fmt.name: fmt
    for fmt in (
        FLOAT32_SCALE,
        FLOAT16_SCALE,
        BFLOAT16_SCALE,
        E4M3_SCALE,
        E8M0_SCALE,
        E1M0_SCALE,
    )
}
