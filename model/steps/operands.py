"""Steps of products of two operands: values and scales of any scheme."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import cached_property
from ..products import NO_EXPONENT
from ..rounding import F64
from ..schemes.operand import BlockScale, Layout, Operand
from ..specials import NAN, special_class
from ..trace import Recorder
from ..wide import CARRIER_BITS, exact_sum_fits

I64 = NDArray[np.int64]
FACTOR_BITS = 32  # at most, of a block's scale significands together: terms stay exact float64


@dataclass(frozen=True)
class OperandStep:
    """Columns `start` to `stop` of n pairs of rows; see `Step`."""

    steps: "OperandSteps"
    start: int
    stop: int
    is_last: bool

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.stop - self.start

    @cached_property
    def _products(self) -> F64:
        a, b = self.steps.a.values, self.steps.b.values
        columns = slice(self.start, self.stop)
        with np.errstate(invalid="ignore"):
            return a[self.steps.rows_a, columns] * b[self.steps.rows_b, columns]

    @cached_property
    def _finite(self) -> NDArray[np.bool_]:
        return np.isfinite(self._products)

    @cached_property
    def products(self) -> F64:
        """Products (n, t), special terms as 0."""
        return self._products if self._finite.all() else np.where(self._finite, self._products, 0.0)

    @property
    def values(self) -> F64:
        """Products (n, t), special terms as NaN and infinities; NaN under a scale of NaN."""
        significand = self._scales[0]
        if significand is None:
            return self._products
        return np.where(np.isnan(significand)[:, None], np.nan, self._products)

    @cached_property
    def _scales(self) -> tuple[F64 | None, I64]:
        """Significand and exponent of the product of both operands' scales."""
        significand, exponent = None, np.zeros(self.steps.n, np.int64)
        for scale, rows in self.steps.scales:
            at = rows, self.start // scale.length
            exponent = exponent + scale.exponents[at]
            factor = scale.significands[at]
            if not scale.is_power or np.isnan(factor).any():
                significand = factor if significand is None else significand * factor
        return significand, exponent

    @property
    def scale(self) -> I64:
        """Sum of the exponents of both scales' unit digits, (n,)."""
        return self._scales[1]

    @cached_property
    def factor(self) -> F64 | None:
        """Product of both scales' significands (n,), 0 for NaN; None where all are 1."""
        significand = self._scales[0]
        return None if significand is None else np.nan_to_num(significand, nan=0.0)

    @property
    def terms(self) -> F64:
        """Products x factor, (n, t)."""
        return self.products if self.factor is None else self.products * self.factor[:, None]

    @property
    def bits(self) -> int:
        """Width of the largest term as a multiple of 2^lsb."""
        return self.steps.bits

    @property
    def lsb(self) -> int:
        """Exponent of the last digit: every term is a multiple of 2^lsb."""
        return self.steps.lsb

    @property
    def term_bits(self) -> int:
        """Bound of terms: each is at most 2^term_bits times its unit digit.

        A product is at most 4 unit digits; a scale's significand is below 2.
        """
        return 2 + len(self.steps.significands)

    @cached_property
    def largest_unit(self) -> I64:
        """Largest unit exponent of the products (n,); NO_EXPONENT when all are zero."""
        return self.largest_units(slice(None))

    def largest_units(self, places: slice) -> I64:
        columns = slice(self.start, self.stop)
        a = self.steps.a.units[self.steps.rows_a, columns]
        b = self.steps.b.units[self.steps.rows_b, columns]
        units = np.where(
            self.products == 0, np.int16(NO_EXPONENT), a + b
        )  # int16 holds two NO_EXPONENT
        return units[:, places].max(axis=-1, initial=NO_EXPONENT).astype(np.int64)

    @cached_property
    def special(self) -> NDArray[np.uint8]:
        """Class of the special terms of each dot product (n,); 0 where all are finite."""
        significand = self._scales[0]
        nan = np.zeros(self.steps.n, np.bool_) if significand is None else np.isnan(significand)
        classes = np.where(nan, np.uint8(NAN), np.uint8(0))
        if not self._finite.all():
            specials = np.where(self._finite, 0.0, self._products).astype(np.float32)
            classes |= np.bitwise_or.reduce(special_class(specials), axis=-1)
        return classes


@dataclass(frozen=True)
class Terms:
    """Products of two operands over the columns of one region. cuts: (start, stop) of each step."""

    a: Operand
    b: Operand
    cuts: tuple[tuple[int, int], ...]

    @cached_property
    def significands(self) -> tuple[int, ...]:
        """Fraction bits of the scales that are not powers of two."""
        return significands(self.a, self.b)

    @cached_property
    def bits(self) -> int:
        """Width of the largest term as a multiple of 2^lsb."""
        return term_bits(self.a, self.b)

    @cached_property
    def lsb(self) -> int:
        """Exponent of the last digit: every term is a multiple of 2^lsb."""
        return self.a.lsb + self.b.lsb - sum(self.significands)

    @property
    def longest(self) -> int:
        """Terms of the longest step; 1 without steps."""
        return max((stop - start for start, stop in self.cuts), default=1)


@dataclass(frozen=True)
class OperandSteps(Terms):
    """Products of the rows `rows_a` of a and `rows_b` of b."""

    rows_a: I64
    rows_b: I64

    @property
    def n(self) -> int:
        """Number of dot products."""
        return len(self.rows_a)

    @cached_property
    def scales(self) -> tuple[tuple[BlockScale, I64], ...]:
        """Block scales of both operands, each with the rows that products need."""
        sides = ((self.a, self.rows_a), (self.b, self.rows_b))
        return tuple((scale, rows) for side, rows in sides for scale in side.blocks)

    @cached_property
    def exact_sums_fit(self) -> bool:
        """Whether the exact sum of any step is one float64."""
        return exact_sum_fits(self.bits, self.longest)

    def walk(self, record: Recorder) -> Iterator[OperandStep]:
        for start, stop in self.cuts:
            yield OperandStep(self, start, stop, stop == self.cuts[-1][1])


def significands(a: Layout, b: Layout) -> tuple[int, ...]:
    """Fraction bits of the blocks' scales that are not powers of two."""
    return tuple(s.fraction_bits for side in (a, b) for s in side.blocks if not s.is_power)


def term_bits(a: Layout, b: Layout) -> int:
    """Bits of the largest term."""
    scales = significands(a, b)
    return (a.largest * b.largest).bit_length() + sum(scales) + len(scales)


def check_exact(a: Layout, b: Layout) -> None:
    """ValueError where float64 cannot hold a term exactly."""
    scales = significands(a, b)
    bits = sum(scales) + len(scales)
    most = min(FACTOR_BITS, CARRIER_BITS - a.significand_bits - b.significand_bits)
    if bits > most:
        raise ValueError(
            f"scales of blocks of a and b must have at most {most} significand bits together, "
            f"not {bits}"
        )
