"""Floating formats: a sign, an exponent and a mantissa, laid out as in IEEE 754."""

from dataclasses import dataclass
from typing import ClassVar

import ml_dtypes  # noqa: F401  # NumPy then knows bfloat16 by name
import numpy as np
from numpy.typing import NDArray

from ..arrays import (
    LARGEST_POWER,
    Array,
    at_least,
    at_most,
    cached_property,
    cast,
    exponent,
    look_up,
    namespace,
    power,
    view,
)
from ..errors import choice, flag, integer
from .codes import (
    LONGEST_CODE,
    LONGEST_EXPONENT,
    NARROW,
    ROUNDINGS,
    Codes,
    Specials,
    Triple,
    as_given,
    checked_words,
    code_dtype,
    read_only,
    round_to_integers,
)

LEAST_FIELDS = {  # exponent and mantissa bits that leave room for finite codes and a NaN
    Specials.NONE: (1, 0),
    Specials.NAN_ONLY: (1, 1),
    Specials.IEEE: (2, 1),
    Specials.FNUZ: (1, 0),
}


FLOAT64_EXPONENT_BITS = 11


@dataclass(frozen=True)
class FloatFormat(Codes):
    """A sign, `exponent_bits` and `mantissa_bits`.

    native: NumPy or ml_dtypes has a float type of that name.
    Raises TypeError or ValueError, naming the field, for fields or values beyond float64's, and for
    special codes without room.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    specials: Specials = Specials.NONE
    native: bool = False

    is_integer: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.specials, Specials):
            raise TypeError(f"specials of {self.name} must be a Specials, not {self.specials!r}")
        flag(f"native of {self.name}", self.native)
        least_exponent, least_mantissa = LEAST_FIELDS[self.specials]
        most_exponent = FLOAT64_EXPONENT_BITS  # float64's largest exponent field has no numbers
        if self.specials is not Specials.IEEE:
            most_exponent -= 1
        integer(f"exponent_bits of {self.name}", self.exponent_bits, least_exponent, most_exponent)
        integer(f"mantissa_bits of {self.name}", self.mantissa_bits, least_mantissa, 52)

    @cached_property
    def dtype(self) -> np.dtype:
        """Type of an array in NumPy: unsigned codes, or the native float."""
        return np.dtype(self.name) if self.native else code_dtype(self.bits)

    @property
    def bits(self) -> int:
        """Width of a code."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def narrow(self) -> np.dtype | None:
        return NARROW.get((self.exponent_bits, self.mantissa_bits, self.specials))

    @property
    def is_mx(self) -> bool:
        """Whether elements of MX blocks can have the format: codes of at most 19 bits, 8 of them
        the exponent, so that sums of products fit 1024 bits.
        """
        short = self.bits <= LONGEST_CODE and self.exponent_bits <= LONGEST_EXPONENT
        return short and not self.native

    @property
    def significand_bits(self) -> int:
        """Width of the significand, its leading digit included."""
        return self.mantissa_bits + 1

    @cached_property
    def bias(self) -> int:
        """Exponent field minus exponent."""
        return 2 ** (self.exponent_bits - 1) - 1 + (self.specials is Specials.FNUZ)

    @cached_property
    def emax(self) -> int:
        """Exponent of the largest finite value."""
        reserved = self.specials is Specials.IEEE
        return 2**self.exponent_bits - 1 - reserved - self.bias

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal value, and of every subnormal's unit digit."""
        return 1 - self.bias

    @property
    def lsb(self) -> int:
        """Exponent of the last digit: every finite value is a multiple of 2^lsb."""
        return self.emin - self.mantissa_bits

    @cached_property
    def largest_code(self) -> int:
        """Positive code of the largest finite value."""
        reserved = {Specials.NAN_ONLY: 1, Specials.IEEE: 2**self.mantissa_bits}
        return 2 ** (self.bits - 1) - 1 - reserved.get(self.specials, 0)

    @cached_property
    def largest_finite(self) -> float:
        """Largest finite value, at which quantisation saturates."""
        one = 2**self.mantissa_bits
        return (one + self.largest_code % one) * 2.0 ** (self.emax - self.mantissa_bits)

    @property
    def extremes(self) -> tuple[float, float]:
        """Least and largest finite value."""
        return -self.largest_finite, self.largest_finite

    @property
    def smallest(self) -> float:
        """Least positive value, a subnormal."""
        return 2.0**self.lsb

    @property
    def smallest_normal(self) -> float:
        """Least positive value whose significand has all its digits."""
        return 2.0**self.emin

    @cached_property
    def inf_code(self) -> int | None:
        """Code of positive infinity, or None."""
        return self.largest_code + 1 if self.specials is Specials.IEEE else None

    @cached_property
    def nan_code(self) -> int | None:
        """Code of the NaN that quantisation makes, positive and quiet except in FNUZ, or None."""
        if self.specials is Specials.NONE:
            return None
        if self.specials is Specials.FNUZ:
            return 2 ** (self.bits - 1)
        if self.specials is Specials.NAN_ONLY:
            return 2 ** (self.bits - 1) - 1
        return (self.largest_code + 1) | 2 ** (self.mantissa_bits - 1)

    @property
    def nan(self) -> NDArray | None:
        """The NaN of `nan_code` as an array stores it, or None."""
        return None if self.nan_code is None else self._stored(np.array(self.nan_code))

    @cached_property
    def triples(self) -> Triple:
        """Sign, significand and exponent of every code (non-finite codes have significand 0)."""
        codes = self.every_code()
        sign = codes >> (self.bits - 1)
        field = (codes >> self.mantissa_bits) & (2**self.exponent_bits - 1)
        fraction = codes & (2**self.mantissa_bits - 1)
        significand = np.where(field > 0, fraction + 2**self.mantissa_bits, fraction)
        significand[(codes & (2 ** (self.bits - 1) - 1)) > self.largest_code] = 0
        exponent = np.maximum(field, 1) - self.bias - self.mantissa_bits
        return Triple(*map(read_only, (sign, significand, exponent)))

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Exact float64 value of every code, NaN and infinities included."""
        sign, significand, exponent = self.triples
        values = np.ldexp(np.where(sign == 1, -1.0, 1.0) * significand, exponent)
        magnitude = self.every_code() & (2 ** (self.bits - 1) - 1)
        values[magnitude > self.largest_code] = np.nan
        if self.inf_code is not None:
            values[magnitude == self.inf_code] = [np.inf, -np.inf]
        if self.specials is Specials.FNUZ:
            values[self.nan_code] = np.nan
        return read_only(values)

    @property
    def in_range(self) -> NDArray[np.bool_]:
        """Whether operands may hold each code: True for all, also codes that are not finite."""
        return np.ones_like(self.every_code(), np.bool_)

    def negated(self, codes: NDArray) -> NDArray:
        """Codes of the negated values; FNUZ has one zero and one NaN, which stay."""
        sign = codes.dtype.type(1 << (self.bits - 1))
        if self.specials is Specials.FNUZ:
            return np.where(codes & (sign - 1), codes ^ sign, codes)
        return codes ^ sign

    def encode_unchecked(
        self, values: Array, rounding: str = "nearest_even", random: Array | None = None
    ) -> Array:
        """`encode` without the search for NaN, which would wait for a GPU: NaN saturates."""
        choice("rounding", rounding, ROUNDINGS)
        x = cast(values, "float64")
        xp, words = namespace(x), checked_words(random, rounding, x)
        magnitude = xp.abs(x)
        inside = magnitude <= self.largest_finite  # False for NaN
        finite = xp.where(inside, magnitude, 0.0)
        place = at_least(exponent(finite), self.emin)
        digits = scaled(finite, self.mantissa_bits - place, self.mantissa_bits - self.emin)
        rounded = cast(round_to_integers(digits, rounding, words), "int64")
        # A carry out of the significand rightly increments the exponent field.
        code = rounded + xp.bitwise_left_shift(place - self.emin, self.mantissa_bits)
        code = xp.where(inside, at_most(code, self.largest_code), self.largest_code)
        if self.inf_code is not None:
            code = xp.where(xp.isinf(x), self.inf_code, code)
        negative = xp.signbit(x)
        if self.specials is Specials.FNUZ:
            negative = negative & (code != 0)
        code = code | xp.bitwise_left_shift(cast(negative, "int64"), self.bits - 1)
        if self.nan_code is not None:
            code = xp.where(xp.isnan(x), self.nan_code, code)
        return as_given(self._stored(code))

    def exact(self, stored: Array) -> Array:
        return cast(stored, "float64") if self.native else look_up(self.values, stored)

    def _stored(self, codes: Array) -> Array:
        if self.native:
            return view(cast(codes, f"int{self.bits}"), self.name)
        return cast(codes, self._kept_as)


@dataclass(frozen=True)
class Flushed(FloatFormat):
    """A format as a machine without subnormal numbers reads it: subnormal codes are zeros."""

    @cached_property
    def triples(self) -> Triple:
        sign, significand, exponent = super().triples
        normal = significand >= 2**self.mantissa_bits
        return Triple(sign, read_only(np.where(normal, significand, 0)), exponent)


def scaled(x: Array, exponent: Array, largest: int) -> Array:
    """x x 2^exponent for exponents up to `largest`; two exact steps where 2^largest overflows."""
    if largest <= LARGEST_POWER:
        return x * power(exponent)
    half = namespace(x).bitwise_right_shift(exponent, 1)
    return x * power(half) * power(exponent - half)
