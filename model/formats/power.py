"""Formats of powers of two, which have only an exponent."""

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, cast, is_tensor, namespace, power
from ..errors import integer
from .codes import as_given, narrow_codes

FLOAT64_EMIN, FLOAT64_EMAX = -1022, 1023
Nan = TypeVar("Nan", int, None)


@dataclass(frozen=True)
class PowerFormat(Generic[Nan]):
    """2^exponent from `emin` to `emax`, no zero; exponent = `sign` x code - `bias`, in a uint8.

    nan_code: code of NaN, which makes every element under the scale NaN, or None.
    """

    name: str
    bits: int
    emin: int
    emax: int
    bias: int
    nan_code: Nan
    sign: int = 1

    def __post_init__(self) -> None:
        bits = integer(f"bits of {self.name}", self.bits, 1, 8)
        integer(f"emin of {self.name}", self.emin, FLOAT64_EMIN, FLOAT64_EMAX)
        integer(f"emax of {self.name}", self.emax, self.emin, FLOAT64_EMAX)
        if integer(f"sign of {self.name}", self.sign, -1, 1) == 0:
            raise ValueError(f"sign of {self.name} must be 1 or -1, not 0")
        integer(f"bias of {self.name}", self.bias, -(2**11), 2**11)
        codes = sorted(self.sign * (e + self.bias) for e in (self.emin, self.emax))
        if codes[0] < 0 or codes[1] >= 2**bits:
            allowed = f"from 0 to {2**bits - 1}"
            raise ValueError(
                f"codes of {self.name} must be {allowed}, not from {codes[0]} to {codes[1]}"
            )
        if self.nan_code is not None:
            integer(f"nan_code of {self.name}", self.nan_code, 0, 2**bits - 1)
            if codes[0] <= self.nan_code <= codes[1]:
                raise ValueError(
                    f"nan_code of {self.name} must be outside the codes of values, {codes[0]} to "
                    f"{codes[1]}, not {self.nan_code}"
                )

    significand_bits: ClassVar[int] = 1
    mantissa_bits: ClassVar[int] = 0
    dtype: ClassVar[np.dtype] = np.dtype(np.uint8)

    def __str__(self) -> str:
        return self.name

    @property
    def narrow(self) -> np.dtype | None:
        """See `Codes.narrow`."""
        is_e8m0 = (self.bits, self.bias, self.nan_code, self.sign) == (8, 127, 255, 1)
        return np.dtype(ml_dtypes.float8_e8m0fnu) if is_e8m0 else None

    @property
    def exponent_range(self) -> tuple[int, int]:
        """Smallest and largest exponent."""
        return self.emin, self.emax

    @property
    def smallest(self) -> float:
        """Least value."""
        return 2.0**self.emin

    @property
    def largest_finite(self) -> float:
        return 2.0**self.emax

    @property
    def nan(self) -> NDArray | None:
        """The NaN as an array stores it, or None."""
        return None if self.nan_code is None else np.array(self.nan_code, self.dtype)

    def encode(self, exponents: Array) -> Array:
        """uint8 codes of integer `exponents`, clamped to the range; a scalar gives a scalar."""
        given = exponents if is_tensor(exponents) else np.asarray(exponents)
        clamped = namespace(given).clip(given, self.emin, self.emax)
        return as_given(cast(self.sign * (clamped + self.bias), "uint8"))

    def exact(self, stored: Array) -> Array:
        """Exact values of codes, in their shape, float64; NaN for the NaN code."""
        values = power(self.sign * cast(stored, "int64") - self.bias)
        if self.nan_code is None:
            return values
        return namespace(values).where(stored == self.nan_code, np.nan, values)

    def decode(self, codes: ArrayLike) -> NDArray[np.float32]:
        """Exact float32 values (2^-127 is a subnormal) of uint8 `codes`; NaN for the NaN code."""
        codes = narrow_codes(codes, self.narrow)
        if codes.dtype != np.uint8:
            raise TypeError(f"scales must have dtype uint8, not {codes.dtype}")
        return self.exact(codes).astype(np.float32)
