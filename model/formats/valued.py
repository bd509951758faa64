"""Formats given by their table of values: elements and scales that have no layout of their own.

`p3109` makes the tables of the IEEE P3109 interim report, version 3.2.
"""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, cached_property, cast, count_below, look_up, namespace
from ..errors import choice, flag, integer
from .codes import ROUNDINGS, Codes, Specials, Triple, as_given, checked_words, read_only

MOST_BITS = 16
MOST_SIGNIFICANT = 24  # bits: products of two values are exact float64
TIES = ("even", "away")


class TableFormat(Codes):
    """The format whose code i stands for values[i].

    values: 2^bits float32 numbers, for 1 to 16 bits; they may repeat, and hold NaN, infinities and
    -0. ties: a value halfway between two neighbours goes to the one with the ``even`` code (of two
    codes of equal parity to the smaller magnitude), or ``away`` from zero. emin: least exponent of
    a unit digit, which smaller values share as subnormal numbers do; None for no such values.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """

    exponent_bits: ClassVar[int] = 0
    bias: ClassVar[int] = 0
    is_integer: ClassVar[bool] = False
    specials: ClassVar[Specials] = Specials.NONE

    def __init__(
        self,
        name: str,
        values: Sequence[float] | ArrayLike,
        ties: str = "even",
        emin: int | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"name of a format must be text, not {name!r}")
        self.name, self.ties = name, choice(f"ties of {name}", ties, TIES)
        with np.errstate(over="ignore"):
            given = np.array(values, np.float64)
            narrow = given.astype(np.float32)
        self.bits = max(1, given.size.bit_length() - 1)
        if given.ndim != 1 or given.size != 2**self.bits or self.bits > MOST_BITS:
            raise ValueError(
                f"values of {name} must be 2, 4, 8, ... {2**MOST_BITS} numbers, not {given.shape}"
            )
        wrong = ~np.isnan(given) & (narrow != given)
        if wrong.any():
            raise ValueError(
                f"values of {name} must be float32 numbers, NaN or infinite, "
                f"not {float(given[wrong][0])}"
            )
        given[np.isnan(given)] = np.nan  # one NaN: equal content has equal bytes
        self.values = read_only(given)
        if not (self.values[np.isfinite(self.values)] > 0).any():
            raise ValueError(f"values of {name} must have a positive number")
        least = int(np.floor(np.log2(self.smallest)))
        if emin is None:
            self.emin = least
        else:
            self.emin = integer(f"emin of {name}", emin, least, self.emax)
        self.zero_code = self._first(self.values == 0)
        self._check_midpoints()
        integer(f"significand bits of {name}", self.significand_bits, 1, MOST_SIGNIFICANT)

    def _check_midpoints(self) -> None:
        """ValueError where a float64 cannot lie halfway between two neighbours."""
        low, high = self._ordered[:-1], self._ordered[1:]
        middle = (low + high) / 2
        if (2 * middle - low != high).any() or (2 * middle - high != low).any():
            raise ValueError(f"values of {self.name} must have midpoints that float64 holds")

    # Identity -----------------------------------------------------------------------------------

    @property
    def _content(self) -> tuple[Any, ...]:
        return self.name, self.ties, self.emin, self.values.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableFormat) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    def __repr__(self) -> str:
        values = ", ".join(map(repr, self.values.tolist()))
        return f"TableFormat({self.name!r}, ({values}), {self.ties!r}, {self.emin})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TableFormat, (self.name, self.values.tolist(), self.ties, self.emin)

    def flushed(self) -> "TableFormat":
        """The format as a machine without subnormal numbers reads it."""
        small = np.abs(self.values) < 2.0**self.emin
        values = np.where(small, np.copysign(0.0, self.values), self.values)
        return TableFormat(self.name, values, self.ties, self.emin)

    # Facts --------------------------------------------------------------------------------------

    @cached_property
    def _ordered(self) -> NDArray[np.float64]:
        """Different finite values, ascending; one zero."""
        return read_only(np.unique(self.values[np.isfinite(self.values)] + 0.0))

    @cached_property
    def _codes(self) -> NDArray[np.int64]:
        """Code of each value of `_ordered`: the first that stands for it, +0 before -0."""
        codes = []
        for value in self._ordered:
            same = np.flatnonzero(self.values == value)
            positive = same[~np.signbit(self.values[same])]
            codes.append((positive if positive.size else same)[0])
        return read_only(np.array(codes, np.int64))

    @property
    def is_mx(self) -> bool:
        """Whether elements of MX blocks can have the format: it has a zero."""
        return self.zero_code is not None

    @cached_property
    def nan_code(self) -> int | None:
        """The first code of NaN, or None."""
        return self._first(np.isnan(self.values))

    @cached_property
    def inf_code(self) -> int | None:
        """Code of positive infinity, or None."""
        return self._first(np.isposinf(self.values))

    @cached_property
    def negative_inf_code(self) -> int | None:
        """Code of negative infinity, or None."""
        return self._first(np.isneginf(self.values))

    @cached_property
    def _negative_zero(self) -> int | None:
        return self._first((self.values == 0) & np.signbit(self.values))

    def _first(self, mask: NDArray[np.bool_]) -> int | None:
        places = np.flatnonzero(mask)
        return int(places[0]) if places.size else None

    @property
    def nan(self) -> NDArray | None:
        """The NaN as an array stores it, or None."""
        return None if self.nan_code is None else np.array(self.nan_code, self.dtype)

    @cached_property
    def largest_finite(self) -> float:
        """Largest finite value."""
        return float(self._ordered[-1])

    @property
    def largest_code(self) -> int:
        """Code of the largest finite value."""
        return int(self._codes[-1])

    @property
    def extremes(self) -> tuple[float, float]:
        """Least and largest finite value."""
        return float(self._ordered[0]), self.largest_finite

    @cached_property
    def smallest(self) -> float:
        """Least positive value."""
        return float(self._ordered[self._ordered > 0][0])

    @property
    def smallest_normal(self) -> float:
        """Least positive value whose unit digit is its first."""
        return 2.0**self.emin

    @cached_property
    def emax(self) -> int:
        """Exponent of the largest finite value."""
        return int(np.floor(np.log2(self.largest_finite)))

    @cached_property
    def _units(self) -> NDArray[np.int64]:
        """Exponent of the unit digit of every code."""
        finite = np.where(np.isfinite(self.values), np.abs(self.values), 0.0)
        _, above = np.frexp(finite)
        return np.where(finite == 0, self.emin, np.maximum(above - 1, self.emin)).astype(np.int64)

    @cached_property
    def mantissa_bits(self) -> int:
        """Most digits of a value after its unit digit."""
        finite = np.where(np.isfinite(self.values), self.values, 0.0)
        digits = np.ldexp(finite, -self._units)
        count = 0
        while (np.ldexp(digits, count) % 1 != 0).any():
            count += 1
        return count

    @property
    def significand_bits(self) -> int:
        """Width of the significand, its unit digit included."""
        return self.mantissa_bits + 1

    @property
    def lsb(self) -> int:
        """Exponent of the last digit: every finite value is a multiple of 2^lsb."""
        return self.emin - self.mantissa_bits

    @cached_property
    def triples(self) -> Triple:
        """Sign, significand and exponent of every code (non-finite codes have significand 0)."""
        exponent = self._units - self.mantissa_bits
        finite = np.where(np.isfinite(self.values), np.abs(self.values), 0.0)
        significand = np.ldexp(finite, -exponent).astype(np.int64)
        sign = np.signbit(self.values).astype(np.int64)
        return Triple(*map(read_only, (sign, significand, exponent)))

    @property
    def in_range(self) -> NDArray[np.bool_]:
        """Whether operands may hold each code: True for all."""
        return np.ones(2**self.bits, np.bool_)

    def negated(self, codes: NDArray) -> NDArray:
        """Codes of the negated values; those of values without a negative stay."""
        negative = self.encode_unchecked(-self.values)
        opposite = self.values[negative] == -self.values
        every = np.arange(2**self.bits, dtype=self.dtype)
        return np.where(opposite, negative, every)[codes]

    # Rounding -----------------------------------------------------------------------------------

    @cached_property
    def _midpoints(self) -> NDArray[np.float64]:
        return read_only((self._ordered[:-1] + self._ordered[1:]) / 2)

    @cached_property
    def _ties_up(self) -> NDArray[np.bool_]:
        """Whether each midpoint goes to the greater neighbour."""
        low, high = np.abs(self._ordered[:-1]), np.abs(self._ordered[1:])
        if self.ties == "away":
            return read_only(high >= low)
        odd = self._codes % 2
        return read_only(np.where(odd[:-1] == odd[1:], high < low, odd[1:] == 0))

    @cached_property
    def _padded(self) -> NDArray[np.float64]:
        """Midpoints, and one that no value exceeds, so that every place has one above."""
        return read_only(np.append(self._midpoints, np.inf))

    @cached_property
    def _padded_up(self) -> NDArray[np.bool_]:
        return read_only(np.append(self._ties_up, False))

    def encode_unchecked(
        self, values: Array, rounding: str = "nearest_even", random: Array | None = None
    ) -> Array:
        """`encode` without the search for NaN, which would wait for a GPU: NaN gives any code.

        ``nearest_even`` rounds to nearest with `ties`; ``toward_zero`` and ``stochastic`` take the
        neighbours in magnitude, with a fraction in float64.
        """
        choice("rounding", rounding, ROUNDINGS)
        x = cast(values, "float64")
        xp, words = namespace(x), checked_words(random, rounding, x)
        within = xp.clip(xp.where(xp.isnan(x), 0.0, x), *self.extremes)
        if rounding == ROUNDINGS[0]:
            place = count_below(self._midpoints, within)
            tie = look_up(self._padded, place) == within
            place = place + cast(tie & look_up(self._padded_up, place), "int64")
        else:
            place = self._between(within, rounding, words)
        code = look_up(self._codes, place)
        if self._negative_zero is not None:
            zero = look_up(self._ordered, place) == 0
            code = xp.where(zero & xp.signbit(x), self._negative_zero, code)
        for special, own in (
            (x == np.inf, self.inf_code),
            (x == -np.inf, self.negative_inf_code),
            (xp.isnan(x), self.nan_code),
        ):
            if own is not None:
                code = xp.where(special, own, code)
        return as_given(cast(code, self._kept_as))

    def _between(self, x: Array, rounding: str, words: Array | None) -> Array:
        """Places by rounding the magnitudes of `x` between two neighbours."""
        xp = namespace(x)
        above = count_below(self._ordered, x)  # the first value that is not less
        below = xp.where(look_up(self._ordered, above) == x, above, above - 1)
        low, high = look_up(self._ordered, below), look_up(self._ordered, above)
        inner = xp.where(xp.abs(low) <= xp.abs(high), below, above)
        if rounding == "toward_zero":
            return inner
        start = xp.where(inner == below, low, high)
        width = xp.where(high == low, 1.0, high - low)
        fraction = cast(xp.abs(x - start) / width * 2.0**32, "int64")
        outward = fraction + cast(words, "int64") >= 2**32
        return xp.where(outward, below + above - inner, inner)


P3109 = re.compile(r"p3109_k([0-9]{1,2})p([0-9]{1,2})([su])([ef])")
P3109_WIDTHS = 3, 15


def p3109(k: int, p: int, signed: bool = True, extended: bool = True) -> TableFormat:
    """The format of P3109 of width `k` and precision `p`, named p3109_k8p4se and so on.

    extended: with infinities. One NaN and no -0. Raises ValueError for a width, a precision or
    values out of range.
    """
    integer("k of a P3109 format", k, *P3109_WIDTHS)
    flag("signed", signed)
    flag("extended", extended)
    integer(f"p of a P3109 format of width {k}", p, 1, k - signed)
    name = f"p3109_k{k}p{p}{'s' if signed else 'u'}{'e' if extended else 'f'}"
    half = 2 ** (k - signed)  # codes of positive numbers, zero and the greatest special one
    bias = half // 2**p
    codes = np.arange(half)
    field, fraction = codes >> (p - 1), codes & (2 ** (p - 1) - 1)
    significand = np.where(field > 0, fraction + 2 ** (p - 1), fraction)
    values = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - bias - (p - 1))
    if not signed:
        values[-1] = np.nan
    if extended:
        values[-1 if signed else -2] = np.inf
    if signed:
        values = np.concatenate([values, [np.nan], -values[1:]])
    return TableFormat(name, values, emin=1 - bias)


def p3109_named(name: str) -> TableFormat | None:
    """The format of a text like ``p3109_k8p4se``; None for other texts."""
    match = P3109.fullmatch(name)
    if match is None:
        return None
    return p3109(int(match[1]), int(match[2]), match[3] == "s", match[4] == "e")
