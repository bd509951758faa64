"""Targets of stimulus: one mode of one unit, the products that its formats express, and places."""

from dataclasses import dataclass
from functools import cache, cached_property
from math import frexp

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import DotConfig, ElementFormat, dot
from ...model.accumulators import any_operands
from ...model.formats import FLOAT32
from ...model.products import Pair, Products, largest_magnitude, product_table
from ..bench.operands import Codes, class_codes, draw
from .item import Batch, micro_of, operands

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Code pairs of two formats, to be drawn by sign and binary exponent of their product."""

    table: Products

    @cached_property
    def exponents(self) -> NDArray[np.int64]:
        """floor(log2(|product|)) of every pair; meaningless for zero and special products."""
        return np.frexp(self.table.values)[1].astype(np.int64) - 1

    @cached_property
    def _usable(self) -> NDArray[np.bool_]:
        return (self.table.significands != 0) & np.isfinite(self.table.values)

    @cached_property
    def limits(self) -> tuple[int, int]:
        """The least and the largest exponent of a product."""
        usable = self.exponents[self._usable]
        return int(usable.min()), int(usable.max())

    @cache  # noqa: B019  # pairs live as long as the formats
    def _groups(self, negative: bool, power: bool) -> tuple[NDArray, Ints, Ints]:
        """Pairs ordered by exponent, and first and count for each exponent from the least on."""
        fraction = np.frexp(np.abs(self.table.values))[0]
        usable = self._usable & ((self.table.values < 0) == negative)
        if power:
            usable &= fraction == 0.5
        index = np.flatnonzero(usable)
        index = index[np.argsort(self.exponents[index], kind="stable")]
        low, high = self.limits
        wanted = np.arange(low, high + 1)
        present = np.unique(self.exponents[index])
        nearest = present[np.abs(present[None, :] - wanted[:, None]).argmin(axis=1)]
        first = np.searchsorted(self.exponents[index], nearest)
        count = np.searchsorted(self.exponents[index], nearest, side="right") - first
        return index, first, count

    def draw(
        self, rng: Generator, exponent: Ints, negative: NDArray[np.bool_], power: bool = False
    ) -> tuple[Codes, Codes]:
        """Codes (a, b) of products of these exponents, or of the nearest there are, and signs.

        `power` wants products that are powers of two.
        """
        low, high = self.limits
        at = np.clip(exponent, low, high) - low
        picks = np.zeros(at.shape, np.int64)
        for sign in (False, True):
            index, first, count = self._groups(sign, power)
            where = negative == sign
            offset = (rng.random(int(where.sum())) * count[at[where]]).astype(np.int64)
            picks[where] = index[first[at[where]] + offset]
        return self._codes(picks)

    @cached_property
    def _last(self) -> Ints:
        """Place in its significand of the last digit of every product; 0 of zeros."""
        significand = np.abs(self.table.significands.astype(np.int64))
        return np.frexp(np.maximum(significand & -significand, 1))[1].astype(np.int64) - 1

    @cache  # noqa: B019  # pairs live as long as the formats
    def _endings(self, last: int, negative: bool) -> tuple[NDArray, NDArray[np.float64]]:
        """Pairs whose products have their last digits nearest to this exponent.

        Also cumulative shares: as much for each place in the significand.
        """
        usable = self._usable & ((self.table.values < 0) == negative)
        index = np.flatnonzero(usable)
        away = np.abs(self.table.exponents[index] + self._last[index] - last)
        index = index[away == away.min()]
        _, place, count = np.unique(self._last[index], return_inverse=True, return_counts=True)
        return index, np.cumsum(1 / count[place]) / len(count)

    def ending(
        self, rng: Generator, last: Ints, negative: NDArray[np.bool_]
    ) -> tuple[Codes, Codes]:
        """Codes (a, b) of products of these signs with their last digits at these exponents, or the
        nearest.

        The digit is at any place in the significand, each as often.
        """
        picks = np.zeros(last.shape, np.int64)
        for exponent, sign in set(zip(last.tolist(), negative.tolist(), strict=True)):
            where = (last == exponent) & (negative == sign)
            index, shares = self._endings(exponent, sign)
            places = np.searchsorted(shares, rng.random(int(where.sum())))
            picks[where] = index[np.minimum(places, len(index) - 1)]
        return self._codes(picks)

    def _codes(self, picks: Ints) -> tuple[Codes, Codes]:
        """Codes (a, b) of pairs by their numbers."""
        bits = self.table.b.format.bits
        return (picks >> bits).astype(np.uint8), (picks & (2**bits - 1)).astype(np.uint8)

    def largest(self, negative: bool) -> tuple[int, int]:
        """Codes of a pair with the largest product of this sign."""
        values = self.table.values
        index = np.nanargmin(values) if negative else np.nanargmax(values)
        return divmod(int(index), 2**self.table.b.format.bits)

    def find(self, value: float) -> tuple[int, int] | None:
        """Codes of a pair with this product."""
        places = np.flatnonzero(self.table.values == value)
        return None if places.size == 0 else divmod(int(places[0]), 2**self.table.b.format.bits)


@dataclass(frozen=True)
class WidePairs:
    """Pairs of formats that have too many for a table.

    One of the two elements is a power of two, or is made one where two others would carry.
    """

    formats: Pair

    @cached_property
    def limits(self) -> tuple[int, int]:
        """The least and the largest exponent of a product."""
        a, b = self.formats.a, self.formats.b
        largest = largest_magnitude(a) * largest_magnitude(b)
        return self.formats.lsb, self.formats.lsb + largest.bit_length() - 1

    def draw(
        self, rng: Generator, exponent: Ints, negative: NDArray[np.bool_], power: bool = False
    ) -> tuple[Codes, Codes]:
        """Codes (a, b) of products of these exponents, or of the nearest there are, and signs.

        `power` wants products that are powers of two.
        """
        a, b = self.formats.a, self.formats.b
        wanted = np.clip(exponent, a.lsb + b.lsb, a.emax + b.emax)
        of_a = rng.integers(
            np.maximum(wanted - b.emax, a.lsb), np.minimum(wanted - b.lsb, a.emax) + 1
        )
        exponents = {"a": of_a, "b": wanted - of_a}
        values = {}
        plain = np.ones(wanted.shape, np.bool_) if power else rng.random(wanted.shape) < 0.5
        for name, fmt in (("a", a), ("b", b)):
            fraction = rng.integers(0, 1 << fmt.mantissa_bits, wanted.shape) / 2**fmt.mantissa_bits
            # Toward zero: digits of a subnormal that it has not.
            value = np.ldexp(np.where(plain, 1.0, 1 + fraction), exponents[name])
            values[name] = fmt.values[fmt.encode(value, "toward_zero")]
            plain = np.ones_like(plain) if power else ~plain
        top = np.ldexp(1.0, wanted + 1)
        carries = values["a"] * values["b"] >= top
        values["b"] = np.where(carries, np.ldexp(1.0, exponents["b"]), values["b"])
        sign = _signs_of(rng, negative)
        return a.encode(values["a"] * sign[0]), b.encode(values["b"] * sign[1])

    def ending(
        self, rng: Generator, last: Ints, negative: NDArray[np.bool_]
    ) -> tuple[Codes, Codes]:
        """Codes (a, b) of products of one digit alone, at these exponents or the nearest."""
        return self.draw(rng, last, negative, power=True)

    def largest(self, negative: bool) -> tuple[int, int]:
        """Codes of a pair with the largest product of this sign."""
        (low_a, high_a), (low_b, high_b) = self.formats.a.extremes, self.formats.b.extremes
        choices = [(x, y) for x in (low_a, high_a) for y in (low_b, high_b)]
        a, b = sorted(choices, key=lambda pair: pair[0] * pair[1])[0 if negative else -1]
        return self._code(self.formats.a, a), self._code(self.formats.b, b)

    @staticmethod
    def _code(fmt: ElementFormat, value: float) -> int:
        return int(np.flatnonzero(fmt.values == value)[0])

    def find(self, value: float) -> tuple[int, int] | None:
        """Codes of a pair with this product, one of them a power of two."""
        fraction, exponent = frexp(value)
        a, b = self.formats.a, self.formats.b
        of_a = min(max(exponent, a.lsb), a.emax)
        left, right = a.encode(np.ldexp(1.0, of_a)), b.encode(np.ldexp(fraction, exponent - of_a))
        is_exact = a.values[left] * b.values[right] == value
        return (int(left), int(right)) if is_exact else None


def _signs_of(rng: Generator, negative: NDArray[np.bool_]) -> tuple[NDArray, NDArray]:
    """Signs of two factors of a product of this sign."""
    first = rng.random(negative.shape) < 0.5
    return np.where(first, -1.0, 1.0), np.where(first ^ negative, -1.0, 1.0)


@cache
def pairs_of(a: ElementFormat, b: ElementFormat) -> Pairs | WidePairs:
    """The (shared) pairs of formats `a` and `b`."""
    formats = Pair(a, b)
    return Pairs(product_table(a, b)) if formats.has_table else WidePairs(formats)


@dataclass(frozen=True)
class Target:
    """One mode of one unit."""

    config: DotConfig
    mode: int

    @property
    def format_a(self) -> ElementFormat:
        """Element format of a in this mode."""
        return self.config.formats[self.mode][0]

    @property
    def format_b(self) -> ElementFormat:
        """Element format of b in this mode."""
        return self.config.formats[self.mode][1]

    @property
    def lanes(self) -> int:
        """Elements of a block."""
        return self.config.lanes

    @property
    def pairs(self) -> Pairs | WidePairs:
        """The products that the formats can express."""
        return pairs_of(self.format_a, self.format_b)

    @property
    def grid_bits(self) -> int:
        """Fraction bits below the largest term that the unit keeps (float32's where it rounds)."""
        bits = self.config.accumulator.alignment_bits
        return FLOAT32.significand_bits if bits is None else bits

    @property
    def last_digit(self) -> int:
        """Exponent of the last digit of products."""
        return self.format_a.lsb + self.format_b.lsb - 2 * self.config.micro

    def zeros(self, n: int, blocks: int) -> tuple[Codes, Codes]:
        """Codes (n, blocks, lanes) of zeros of either sign, for a and b."""
        shape = (n, blocks, self.lanes)
        return np.zeros(shape, self.format_a.dtype), np.zeros(shape, self.format_b.dtype)

    def signed_zeros(self, rng: Generator, n: int, blocks: int) -> tuple[Codes, Codes]:
        """Codes of zeros with random signs."""
        shape = (n, blocks, self.lanes)
        zero_a, zero_b = class_codes(self.format_a)["zero"], class_codes(self.format_b)["zero"]
        return draw(rng, zero_a, shape), draw(rng, zero_b, shape)

    def batch(
        self,
        a: Codes,
        b: Codes,
        scales: tuple[Codes, Codes],
        c: NDArray[np.uint32] | None = None,
        sequence: str = "",
        micro: NDArray[np.uint64] | None = None,
    ) -> Batch:
        """A batch for this mode; c is +0 when not given and in a unit that takes none.

        micro: micro-exponents (n, blocks) of both operands, left out of a unit without.
        """
        if c is None or not self.config.load_c:
            c = np.zeros(len(a), np.uint32)
        side = {}
        if micro is not None and self.config.micro:
            side = {"micro_a": micro, "micro_b": micro}
        return Batch(self.mode, a, b, *scales, c, sequence, side)


LEAST = 6  # exponents of the smallest products


def signs(rng: Generator, n: int) -> NDArray[np.bool_]:
    """Random booleans, True where negative."""
    return rng.random(n) < 0.5


def lanes(rng: Generator, target: Target, n: int, count: int) -> Ints:
    """`count` different lanes for each of n rows."""
    return rng.random((n, target.lanes)).argsort(axis=1)[:, :count]


def put(
    target: Target,
    rng: Generator,
    a: Codes,
    b: Codes,
    block: int,
    lane: Ints | int,
    exponent: Ints,
    negative: NDArray[np.bool_],
    power: bool = False,
) -> None:
    """Place one product of each row's exponent and sign into block `block`, lane `lane`."""
    rows = np.arange(len(a))
    code_a, code_b = target.pairs.draw(rng, exponent, negative, power)
    a[rows, block, lane] = code_a
    b[rows, block, lane] = code_b


def fractions(rng: Generator, n: int) -> Ints:
    """Fraction fields of c at which carries, ties and borrows happen, and of one digit alone."""
    fixed = np.array([0, 1, 2, 0x7FFFFF, 0x7FFFFE, 0x400000, 0x3FFFFF, 0x555555, 0x1FFF, 0x2000])
    one = 1 << rng.integers(0, FLOAT32.mantissa_bits, n)
    kinds = [fixed[rng.integers(0, len(fixed), n)], one, one - 1, rng.integers(0, 2**23, n)]
    return np.choose(rng.choice(len(kinds), n, p=[0.4, 0.2, 0.1, 0.3]), kinds)


def lost_digit(target: Target, rng: Generator, n: int) -> tuple[Ints, Ints]:
    """Digits that the second of two is below the first, and below a grid that keeps the first.

    A running value has both.
    """
    gap = rng.integers(1, target.config.accumulator.running.mantissa_bits + 1, n)
    return gap, rng.integers(1, gap + 1)


GUARD = FLOAT32.significand_bits - 3
"""Digits of c that dot units keep below the last digit of products."""
AROUND = (-1, 7)
"""Range of more such digits, for units whose products end elsewhere."""


def last_kept(target: Target, rng: Generator, product: Ints) -> Ints:
    """Places of the last digit of c that is kept beside a product, from the product's exponent on.

    It is the last of products, the last that the unit's alignment keeps, or GUARD below the first,
    and in as many rows further below, within AROUND.
    """
    n = len(product)
    last = target.last_digit - product
    around = last - GUARD - rng.integers(*AROUND, n)
    kinds = [last, np.full(n, -target.grid_bits), last - GUARD, around]
    return np.choose(rng.choice(len(kinds), n, p=[0.2, 0.2, 0.3, 0.3]), kinds)


def nearly_negated(
    target: Target, rng: Generator, batch: Batch, *, last: bool = False
) -> NDArray[np.uint32]:
    """The negated results of blocks, a few units away.

    Units are those of the last place, or unless `last` in every second row of each place in turn.
    """
    values = _without_c(target.config, batch)
    mantissa_bits = target.config.accumulator.running.mantissa_bits
    return negated_nearby(rng, values, mantissa_bits, last=last)


def negated_nearby(
    rng: Generator, values: NDArray[np.float32], mantissa_bits: int, *, last: bool = False
) -> NDArray[np.uint32]:
    """float32 bits of negated values, a few units away, as `nearly_negated` says.

    mantissa_bits: of running values.
    """
    bits, row = values.view(np.uint32).astype(np.int64), np.arange(len(values))
    unit = 1 << (FLOAT32.mantissa_bits - mantissa_bits)
    place = np.where((row % 2 == 0) | last, 0, row // 2 % FLOAT32.mantissa_bits)
    away = rng.choice([-2, -1, 1, 2] if last else [-2, -1, 0, 1, 2], len(row)) * unit << place
    moved = np.clip((bits & 0x7FFFFFFF) + away, 0, 0x7FFFFFFF)
    return ((~bits & 0x80000000) | moved).astype(np.uint32)


@any_operands()
def _without_c(config: DotConfig, batch: Batch) -> NDArray[np.float32]:
    """The results of the rule from 0, as float32."""
    a, b = operands(config, batch)
    micro = micro_of(config, batch)
    return dot(a, b, config.accumulator, micro=micro, scale_format=config.scale_format)
