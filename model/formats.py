"""The MX element formats and their scale as data: the only place that knows their bit layout.

Sources: OCP Microscaling Formats (MX) v1.0, section 5, and OCP 8-bit Floating Point (OFP8) v1.0.
To add an element format, add a row to the table at the end; every other fact is derived.
"""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import choice

ROUNDINGS = ("nearest_even", "toward_zero", "stochastic")


class Specials(Enum):
    """Which codes of a floating element format are not finite."""

    NONE = "every code is a finite number"
    NAN_ONLY = "all-ones exponent and mantissa is NaN; no infinity"
    IEEE = "all-ones exponent is infinity (mantissa 0) or NaN"


def read_only(table: NDArray) -> NDArray:
    """`table` itself, closed to writing: it is shared by everyone who asks for it."""
    table.flags.writeable = False
    return table


class Triple(NamedTuple):
    """Exact value (-1)^sign x significand x 2^exponent; all int64, the shape of the codes."""

    sign: NDArray[np.int64]
    significand: NDArray[np.int64]
    exponent: NDArray[np.int64]


@dataclass(frozen=True)
class ElementFormat:
    """One element format.

    ``exponent_bits`` is 0 for a two's-complement fixed-point format, which has one integer bit:
    value = int x 2^-mantissa_bits. A code is held in the low ``bits`` of a uint8.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    specials: Specials = Specials.NONE

    def __str__(self) -> str:
        return self.name

    @property
    def is_integer(self) -> bool:
        """Whether codes are two's-complement numbers and not floats."""
        return self.exponent_bits == 0

    @property
    def bits(self) -> int:
        """Width of a code; an integer format has a sign and one integer bit."""
        return 1 + (self.exponent_bits or 1) + self.mantissa_bits

    @property
    def significand_bits(self) -> int:
        """Width of the unsigned significand (an integer's magnitude reaches 2^(bits-1))."""
        return self.bits if self.is_integer else self.mantissa_bits + 1

    @property
    def bias(self) -> int:
        """Exponent field minus exponent; 0 for an integer format."""
        return 0 if self.is_integer else 2 ** (self.exponent_bits - 1) - 1

    @property
    def emax(self) -> int:
        """Exponent of the largest finite value."""
        if self.is_integer:
            return 0
        reserved = self.specials is Specials.IEEE
        return 2**self.exponent_bits - 1 - reserved - self.bias

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal value, and of every subnormal's unit digit."""
        return 0 if self.is_integer else 1 - self.bias

    @property
    def largest_code(self) -> int:
        """The positive code of the largest finite value."""
        if self.is_integer:
            return 2 ** (self.bits - 1) - 1
        reserved = {Specials.NONE: 0, Specials.NAN_ONLY: 1, Specials.IEEE: 2**self.mantissa_bits}
        return 2 ** (self.bits - 1) - 1 - reserved[self.specials]

    @property
    def largest_finite(self) -> float:
        """Where quantisation saturates."""
        one = 2**self.mantissa_bits
        return (one + self.largest_code % one) * 2.0 ** (self.emax - self.mantissa_bits)

    @property
    def smallest_subnormal(self) -> float:
        """The least positive value; every finite value is a multiple of it."""
        return 2.0 ** (self.emin - self.mantissa_bits)

    @property
    def inf_code(self) -> int | None:
        """The positive infinity, or None."""
        return self.largest_code + 1 if self.specials is Specials.IEEE else None

    @property
    def nan_code(self) -> int | None:
        """The NaN that quantisation produces (positive, quiet), or None."""
        if self.specials is Specials.NONE:
            return None
        if self.specials is Specials.NAN_ONLY:
            return 2 ** (self.bits - 1) - 1
        return (self.largest_code + 1) | 2 ** (self.mantissa_bits - 1)

    @cached_property
    def triples(self) -> Triple:
        """Sign, significand and exponent of every code (non-finite codes have significand 0)."""
        codes = np.arange(2**self.bits, dtype=np.int64)
        sign = codes >> (self.bits - 1)
        if self.is_integer:
            magnitude = np.where(sign == 1, 2**self.bits - codes, codes)
            return Triple(
                *map(read_only, (sign, magnitude, np.full_like(codes, -self.mantissa_bits)))
            )
        field = (codes >> self.mantissa_bits) & (2**self.exponent_bits - 1)
        fraction = codes & (2**self.mantissa_bits - 1)
        significand = np.where(field > 0, fraction + 2**self.mantissa_bits, fraction)
        significand[(codes & (2 ** (self.bits - 1) - 1)) > self.largest_code] = 0
        exponent = np.maximum(field, 1) - self.bias - self.mantissa_bits
        return Triple(*map(read_only, (sign, significand, exponent)))

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The value of every code, as float64 (exact), NaN and infinities included."""
        sign, significand, exponent = self.triples
        values = np.ldexp(np.where(sign == 1, -1.0, 1.0) * significand, exponent)
        if self.is_integer:
            return read_only(values + 0.0)  # one zero
        magnitude = np.arange(2**self.bits) & (2 ** (self.bits - 1) - 1)
        values[magnitude > self.largest_code] = np.nan
        if self.inf_code is not None:
            values[magnitude == self.inf_code] = [np.inf, -np.inf]
        return read_only(values)

    def check(self, codes: ArrayLike, name: str = "codes") -> NDArray[np.uint8]:
        """`codes` as a uint8 array. TypeError for another dtype, ValueError for a code too wide."""
        codes = np.asarray(codes)
        if codes.dtype != np.uint8:
            raise TypeError(f"{name} must have dtype uint8, not {codes.dtype}")
        if self.bits < 8 and codes.size and codes.max() >= 2**self.bits:
            raise ValueError(
                f"{name} of format {self.name} must be from 0 to {2**self.bits - 1}, "
                f"not {codes.max()}"
            )
        return codes

    def decode(self, codes: ArrayLike) -> NDArray[np.float32]:
        """Exact float32 values of uint8 `codes`, in their shape."""
        return self.values.astype(np.float32)[self.check(codes)]

    def triple(self, codes: ArrayLike) -> Triple:
        """Exact (sign, significand, exponent) of uint8 `codes`; non-finite codes are refused."""
        codes = self.check(codes)
        if not np.isfinite(self.values[codes]).all():
            raise ValueError(f"codes of format {self.name} must be finite to have a triple")
        return Triple(*(table[codes] for table in self.triples))

    def encode(
        self,
        values: ArrayLike,
        rounding: str = "nearest_even",
        random: NDArray[np.uint32] | None = None,
    ) -> NDArray[np.uint8]:
        """Round real `values` (float64 or narrower) to codes; saturates at the largest finite.

        NaN and infinity become the format's own where it has them; infinity saturates where it
        has none, and NaN without a code raises ValueError. ``stochastic`` rounding needs `random`,
        one uint32 word r per value: a magnitude rounds up if floor(fraction x 2^32) + r >= 2^32.
        """
        choice("rounding", rounding, ROUNDINGS)
        x = np.asarray(values, dtype=np.float64)
        nan = np.isnan(x)
        if nan.any() and self.nan_code is None:
            raise ValueError(f"values must hold no NaN: format {self.name} has none")
        magnitude = np.where(nan, 0.0, np.abs(x))
        saturates = magnitude >= 2.0 ** (self.emax + 1)
        in_range = np.where(saturates, 0.0, magnitude)
        exponent = np.where(in_range == 0, self.emin, np.frexp(in_range)[1] - 1)
        exponent = np.maximum(exponent, self.emin)
        units = np.ldexp(in_range, self.mantissa_bits - exponent)
        rounded = _round_units(units, rounding, random).astype(np.int64)
        # A carry out of the significand runs into the exponent field, as it should.
        code = rounded + ((exponent - self.emin) << self.mantissa_bits)
        code = np.where(saturates, self.largest_code, np.minimum(code, self.largest_code))
        if self.inf_code is not None:
            code = np.where(np.isinf(x), self.inf_code, code)
        negative = np.signbit(x)
        if self.is_integer:
            code = np.where(negative, -code, code) & (2**self.bits - 1)
        else:
            code = code | (negative.astype(np.int64) << (self.bits - 1))
        if self.nan_code is not None:
            code = np.where(nan, self.nan_code, code)
        return code.astype(np.uint8)


def _round_units(
    units: NDArray[np.float64], rounding: str, random: NDArray[np.uint32] | None
) -> NDArray[np.float64]:
    """Round non-negative `units` (in units of the last place) to integers."""
    if rounding == "nearest_even":
        return np.rint(units)
    below = np.floor(units)
    if rounding == "toward_zero":
        return below
    random = np.asarray(random)
    if random.dtype != np.uint32 or random.shape != units.shape:
        got = f"{random.dtype} {random.shape}" if random.dtype != object else repr(random.item())
        raise ValueError(f"random must be uint32 words of shape {units.shape}, not {got}")
    fraction = np.floor(np.ldexp(units - below, 32))
    return below + (fraction + random >= 2.0**32)


@dataclass(frozen=True)
class ScaleFormat:
    """An unsigned power-of-two block scale: value = 2^(code - bias); one NaN code, no zero."""

    name: str
    bits: int

    def __str__(self) -> str:
        return self.name

    @property
    def bias(self) -> int:
        """Code minus exponent."""
        return 2 ** (self.bits - 1) - 1

    @property
    def nan_code(self) -> int:
        """The one code that is no scale: every element under it is NaN."""
        return 2**self.bits - 1

    @property
    def exponent_range(self) -> tuple[int, int]:
        """Smallest and largest exponent."""
        return -self.bias, self.nan_code - 1 - self.bias

    def decode(self, codes: ArrayLike) -> NDArray[np.float32]:
        """Exact float32 values (2^-127 is a subnormal) of uint8 `codes`; NaN for the NaN code."""
        codes = np.asarray(codes)
        if codes.dtype != np.uint8:
            raise TypeError(f"scales must have dtype uint8, not {codes.dtype}")
        values = np.ldexp(1.0, codes.astype(np.int64) - self.bias)
        return np.where(codes == self.nan_code, np.nan, values).astype(np.float32)

    def encode(self, exponents: ArrayLike) -> NDArray[np.uint8]:
        """Codes of integer `exponents`, clamped to the range of the format."""
        clamped = np.clip(np.asarray(exponents), *self.exponent_range)
        return (clamped + self.bias).astype(np.uint8)


E4M3 = ElementFormat("e4m3", 4, 3, Specials.NAN_ONLY)
E5M2 = ElementFormat("e5m2", 5, 2, Specials.IEEE)
E3M2 = ElementFormat("e3m2", 3, 2)
E2M3 = ElementFormat("e2m3", 2, 3)
E2M1 = ElementFormat("e2m1", 2, 1)
INT8 = ElementFormat("int8", 0, 6)
INT4 = ElementFormat("int4", 0, 2)
E8M0 = ScaleFormat("e8m0", 8)

FORMATS = {f.name: f for f in (E4M3, E5M2, E3M2, E2M3, E2M1, INT8, INT4)}


def element_format(value: "ElementFormat | str", name: str = "format") -> ElementFormat:
    """The ElementFormat of a name or of itself; ValueError lists the known names."""
    if isinstance(value, ElementFormat):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} must be an ElementFormat or its name, not {value!r}")
    return FORMATS[choice(name, value.strip().lower(), FORMATS)]
