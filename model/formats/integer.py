"""Integer formats: two's complement, unsigned, and sign with magnitude; fixed point."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, cached_property, cast, namespace
from ..errors import choice, flag, integer
from .codes import (
    ROUNDINGS,
    Codes,
    Specials,
    Triple,
    as_given,
    checked_words,
    read_only,
    refuse_nan,
    round_to_integers,
)

MOST_SCALE_BITS = 16
MOST_FRACTION_BITS = 126  # so that all values are normal float32


@dataclass(frozen=True)
class IntegerFormat(Codes):
    """Integers from `lowest` to `highest`, times 2^-fraction_bits.

    A code is two's complement for a negative `lowest`. sign_magnitude: a code is a sign above a
    magnitude, with two zeros. symmetric: encoding gives nothing below -`highest`.
    """

    name: str
    bits: int
    lowest: int
    highest: int
    fraction_bits: int = 0
    sign_magnitude: bool = False
    symmetric: bool = False

    is_integer: ClassVar[bool] = True
    exponent_bits: ClassVar[int] = 0
    bias: ClassVar[int] = 0
    specials: ClassVar[Specials] = Specials.NONE
    nan_code: ClassVar[None] = None
    nan: ClassVar[None] = None
    inf_code: ClassVar[None] = None

    def __post_init__(self) -> None:
        integer(f"bits of {self.name}", self.bits, 1, 32)
        top = 2 ** (self.bits - 1)
        low, high = (-top, top - 1) if self.lowest < 0 else (0, 2 * top - 1)
        low += self.sign_magnitude
        integer(f"lowest of {self.name}", self.lowest, low, 0)
        integer(f"highest of {self.name}", self.highest, 1, high)
        integer(f"fraction_bits of {self.name}", self.fraction_bits, 0, MOST_FRACTION_BITS)
        flag(f"sign_magnitude of {self.name}", self.sign_magnitude)
        flag(f"symmetric of {self.name}", self.symmetric)
        if self.symmetric and self.lowest > -self.highest:
            raise ValueError(
                f"lowest of {self.name} must be at most {-self.highest}, as it is symmetric, not "
                f"{self.lowest}"
            )

    @property
    def is_mx(self) -> bool:
        """Whether elements of MX blocks can have the format: one digit before the binary point."""
        return self.symmetric and self.emax == 0

    @property
    def lowest_encoded(self) -> int:
        """Least integer that encoding gives."""
        return -self.highest if self.symmetric else self.lowest

    @property
    def significand_bits(self) -> int:
        """Width of the largest magnitude."""
        return max(-self.lowest, self.highest).bit_length()

    @property
    def mantissa_bits(self) -> int:
        """Digits after the leading one of `highest`."""
        return self.highest.bit_length() - 1

    @property
    def emax(self) -> int:
        """Exponent of the largest positive value."""
        return self.mantissa_bits - self.fraction_bits

    @property
    def emin(self) -> int:
        """Exponent of every value's unit digit: the point is fixed."""
        return self.emax

    @property
    def lsb(self) -> int:
        """Exponent of the last digit: every value is a multiple of 2^lsb."""
        return -self.fraction_bits

    @property
    def largest_code(self) -> int:
        """Code of the largest value."""
        return self.highest

    @property
    def largest_finite(self) -> float:
        """Largest value, to which a scale maps the largest magnitude."""
        return self.highest * 2.0**self.lsb

    @property
    def extremes(self) -> tuple[float, float]:
        """Least and largest value."""
        return self.lowest * 2.0**self.lsb, self.largest_finite

    @property
    def smallest(self) -> float:
        """Least positive value."""
        return 2.0**self.lsb

    @property
    def smallest_normal(self) -> float:
        """Least positive value; integers have no subnormal numbers."""
        return self.smallest

    @cached_property
    def integers(self) -> NDArray[np.int64]:
        """Integer of every code, also of codes that encoding never gives."""
        codes = self.every_code()
        top = 2 ** (self.bits - 1)
        if self.sign_magnitude:
            return read_only(np.where(codes >= top, -1, 1) * (codes & (top - 1)))
        negative = (codes >= top) & (self.lowest < 0)
        return read_only(np.where(negative, codes - 2 * top, codes))

    @cached_property
    def triples(self) -> Triple:
        """Sign, significand and exponent of every code."""
        exponent = np.full_like(self.integers, self.lsb)
        negative = (self.integers < 0).astype(np.int64)
        return Triple(*map(read_only, (negative, np.abs(self.integers), exponent)))

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Exact float64 value of every code."""
        values = np.ldexp(self.integers.astype(np.float64), self.lsb)
        if self.sign_magnitude:
            values[2 ** (self.bits - 1)] = -0.0
        return read_only(values)

    @property
    def in_range(self) -> NDArray[np.bool_]:
        """Whether operands may hold each code."""
        return (self.integers >= self.lowest) & (self.integers <= self.highest)

    def negated(self, codes: NDArray) -> NDArray:
        """Codes of the negated values; the least of a two's complement stays."""
        if self.sign_magnitude:
            return codes ^ codes.dtype.type(1 << (self.bits - 1))
        return (0 - codes) & codes.dtype.type(2**self.bits - 1)

    def encode(
        self,
        values: Array,
        rounding: str = "nearest_even",
        random: Array | None = None,
        zero_point: Array | int = 0,
    ) -> Array:
        """Codes of `values` rounded to integers, plus `zero_point`, saturated.

        A scalar gives a scalar. NaN raises ValueError. random: uint32 `words` of
        `round_to_integers`, for the magnitudes.
        """
        refuse_nan(values, self.name)
        return self.encode_unchecked(values, rounding, random, zero_point)

    def encode_unchecked(
        self,
        values: Array,
        rounding: str = "nearest_even",
        random: Array | None = None,
        zero_point: Array | int = 0,
    ) -> Array:
        """`encode` without the search for NaN, which would wait for a GPU: NaN gives any code."""
        choice("rounding", rounding, ROUNDINGS)
        x = cast(values, "float64")
        xp = namespace(x)
        digits = x
        if self.fraction_bits:
            with np.errstate(over="ignore"):
                digits = x * 2.0**self.fraction_bits
        if rounding == ROUNDINGS[0]:
            rounded = xp.round(digits)
        else:
            within = xp.clip(xp.abs(digits), None, 2.0 ** (self.bits + 1))  # no infinity
            words = checked_words(random, rounding, x)
            rounded = xp.copysign(round_to_integers(within, rounding, words), digits)
        if not isinstance(zero_point, int) or zero_point:
            rounded = rounded + zero_point
        limited = xp.clip(rounded, self.lowest_encoded, self.highest)
        integers = cast(limited, "int32" if self.bits < 32 else "int64")
        if self.sign_magnitude:
            codes = xp.abs(integers) | cast(xp.signbit(x), "int32") * 2 ** (self.bits - 1)
        else:
            codes = integers & (2**self.bits - 1)
        return as_given(cast(codes, self._kept_as))


@dataclass(frozen=True)
class UnsignedFormat(IntegerFormat):
    """Unsigned integers of 1 to 16 bits for scales, named uN for N bits."""

    name: str = field(init=False)
    bits: int
    lowest: int = field(init=False, default=0)
    highest: int = field(init=False)
    fraction_bits: int = field(init=False, default=0)
    sign_magnitude: bool = field(init=False, default=False)
    symmetric: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        bits = integer("bits of an integer scale", self.bits, 1, MOST_SCALE_BITS)
        vars(self).update(
            name=f"u{bits}", bits=bits, highest=2**bits - 1
        )  # the dataclass is frozen

    def exact(self, stored: Array) -> Array:
        return cast(cast(stored, "int32"), "float64")


def sign_magnitude(magnitude_bits: int) -> IntegerFormat:
    """A sign and `magnitude_bits` bits, the first of them before the binary point."""
    highest = 2**magnitude_bits - 1
    bits = magnitude_bits + 1
    return IntegerFormat(f"sm{bits}", bits, -highest, highest, magnitude_bits - 1, True)
