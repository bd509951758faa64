"""Formats of powers of two: an exponent and nothing else."""

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Nan = TypeVar("Nan", int, None)


@dataclass(frozen=True)
class PowerFormat(Generic[Nan]):
    """2^exponent from `emin` to `emax`, no zero; exponent = `sign` x code - `bias`, in a uint8.

    nan_code: the one code that is no scale (every element under it is NaN), or None.
    """

    name: str
    bits: int
    emin: int
    emax: int
    bias: int
    nan_code: Nan
    sign: int = 1

    significand_bits: ClassVar[int] = 1
    mantissa_bits: ClassVar[int] = 0
    dtype: ClassVar[np.dtype] = np.dtype(np.uint8)

    def __str__(self) -> str:
        return self.name

    @property
    def exponent_range(self) -> tuple[int, int]:
        """Smallest and largest exponent."""
        return self.emin, self.emax

    @property
    def smallest(self) -> float:
        """The least value."""
        return 2.0**self.emin

    @property
    def largest_finite(self) -> float:
        """The largest value."""
        return 2.0**self.emax

    @property
    def nan(self) -> NDArray | None:
        """The NaN as it is stored, or None."""
        return None if self.nan_code is None else np.array(self.nan_code, self.dtype)

    def encode(self, exponents: ArrayLike) -> NDArray[np.uint8]:
        """Codes of integer `exponents`, clamped to the range of the format."""
        clamped = np.clip(np.asarray(exponents), self.emin, self.emax)
        return (self.sign * (clamped + self.bias)).astype(np.uint8)

    def exact(self, stored: NDArray) -> NDArray[np.float64]:
        """Exact values of codes, in their shape; NaN for the NaN code."""
        values = np.ldexp(1.0, self.sign * stored.astype(np.int64) - self.bias)
        return (
            values if self.nan_code is None else np.where(stored == self.nan_code, np.nan, values)
        )

    def decode(self, codes: ArrayLike) -> NDArray[np.float32]:
        """Exact float32 values (2^-127 is a subnormal) of uint8 `codes`; NaN for the NaN code."""
        codes = np.asarray(codes)
        if codes.dtype != np.uint8:
            raise TypeError(f"scales must have dtype uint8, not {codes.dtype}")
        return self.exact(codes).astype(np.float32)
