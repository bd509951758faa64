"""Integer element formats: two's complement, unsigned, and sign with magnitude.

The floating element formats, and MXINT8 with its fixed point, are those of `model/formats.py`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import integer
from ..formats import ElementFormat, read_only


@dataclass(frozen=True)
class IntegerFormat:
    """Integers from `lowest` to `highest` in units of 2^-fraction_bits.

    A code is held in the low `bits` of a uint8: two's complement when `lowest` is negative, or the
    sign above the magnitude when `sign_magnitude`, which then has two zeros.
    """

    name: str
    bits: int
    lowest: int
    highest: int
    fraction_bits: int = 0
    sign_magnitude: bool = False

    def __post_init__(self) -> None:
        integer(f"bits of {self.name}", self.bits, 2, 8)
        top = 2 ** (self.bits - 1)
        low, high = (-top, top - 1) if self.lowest < 0 else (0, 2 * top - 1)
        low += self.sign_magnitude
        integer(f"lowest of {self.name}", self.lowest, low, 0)
        integer(f"highest of {self.name}", self.highest, 1, high)

    def __str__(self) -> str:
        return self.name

    @property
    def nan_code(self) -> None:
        """No integer is NaN."""
        return

    @property
    def significand_bits(self) -> int:
        """Width of the largest magnitude."""
        return max(-self.lowest, self.highest).bit_length()

    @property
    def mantissa_bits(self) -> int:
        """Bits behind the leading one of `highest`."""
        return self.highest.bit_length() - 1

    @property
    def emax(self) -> int:
        """Exponent of the largest positive value."""
        return self.mantissa_bits - self.fraction_bits

    @property
    def largest_finite(self) -> float:
        """The largest positive value: where a scale puts the largest magnitude."""
        return self.highest * 2.0**-self.fraction_bits

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The value of every code, those included that encoding never gives."""
        codes = np.arange(2**self.bits, dtype=np.int64)
        top = 2 ** (self.bits - 1)
        if self.sign_magnitude:
            integers = np.where(codes >= top, -1.0, 1.0) * (codes & (top - 1))
        else:
            negative = (codes >= top) & (self.lowest < 0)
            integers = np.where(negative, codes - 2 * top, codes).astype(np.float64)
        return read_only(np.ldexp(integers, -self.fraction_bits))

    def encode(
        self, values: ArrayLike, zero_point: NDArray[np.int64] | int = 0
    ) -> NDArray[np.uint8]:
        """Codes of RNE(values x 2^fraction_bits) + zero_point, limited to the format's range."""
        x = np.asarray(values, dtype=np.float64)
        units = np.rint(np.ldexp(x, self.fraction_bits)) + zero_point
        integers = np.clip(units, self.lowest, self.highest)
        if self.sign_magnitude:
            codes = np.abs(integers).astype(np.int64)
            codes |= np.signbit(x).astype(np.int64) << (self.bits - 1)
        else:
            codes = integers.astype(np.int64) & (2**self.bits - 1)
        return codes.astype(np.uint8)


def sign_magnitude(magnitude_bits: int) -> IntegerFormat:
    """A sign and `magnitude_bits` bits, the first of them in front of the binary point."""
    highest = 2**magnitude_bits - 1
    bits = magnitude_bits + 1
    return IntegerFormat(f"sm{bits}", bits, -highest, highest, magnitude_bits - 1, True)


INT8_SYMMETRIC = IntegerFormat("int8_symmetric", 8, -127, 127)
INT8_FULL = IntegerFormat("int8_full", 8, -128, 127)
UINT8 = IntegerFormat("uint8", 8, 0, 255)
INT4_SYMMETRIC = IntegerFormat("int4_symmetric", 4, -7, 7)
INT4_FULL = IntegerFormat("int4_full", 4, -8, 7)

Element = ElementFormat | IntegerFormat
