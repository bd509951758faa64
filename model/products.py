"""Exact products of two elements (section 3 of docs/numerics.md).

A table has the product of every pair of codes of up to `TABLE_BITS` together. Products of wider
codes are computed from both values.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import cached_property
from .formats import ElementFormat, read_only
from .formats.codes import Triple
from .specials import special_class

NO_EXPONENT = -16384  # unit exponent of a zero product, below every other; int16 holds two
TABLE_BITS = 16  # of both codes of a pair together

I64 = NDArray[np.int64]


def largest_magnitude(fmt: ElementFormat) -> int:
    """Largest magnitude of a format, as a multiple of its last digit."""
    return int(np.ldexp(max(-fmt.extremes[0], fmt.extremes[1]), -fmt.lsb))


@cache
def unit_exponents(fmt: ElementFormat) -> NDArray[np.int16]:
    """Unit exponent of every code; NO_EXPONENT for zeros and codes that are not finite."""
    _, significand, exponents = fmt.triples
    units = np.where(significand == 0, NO_EXPONENT, exponents + fmt.mantissa_bits)
    return read_only(units.astype(np.int16))


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class Elements:
    """Codes of elements, with the facts that products need."""

    format: ElementFormat
    codes: NDArray

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Exact values, NaN and infinities included."""
        return self.format.values[self.codes]

    @cached_property
    def triple(self) -> Triple:
        """Sign, significand and exponent of each element."""
        return Triple(*(table[self.codes] for table in self.format.triples))

    @property
    def signed(self) -> I64:
        """Significands with their signs."""
        return np.where(self.triple.sign, -self.triple.significand, self.triple.significand)


@dataclass(frozen=True, eq=False)
class Products:
    """Products of the elements of two arrays of codes, pair by pair."""

    a: Elements
    b: Elements

    @cached_property
    def _raw(self) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            return self.a.values * self.b.values

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Exact product values; NaN for every special term (NaN, Inf, Inf x 0)."""
        return read_only(np.where(np.isinf(self._raw), np.nan, self._raw))

    @cached_property
    def significands(self) -> I64:
        """Signed products of significands, never renormalised; 0 for special terms."""
        return read_only(self.a.signed * self.b.signed)

    @cached_property
    def exponents(self) -> I64:
        """Exponent E of each product: value = significand x 2^E."""
        return read_only(self.a.triple.exponent + self.b.triple.exponent)

    @cached_property
    def unit_exponents(self) -> NDArray[np.int16]:
        """Exponent of each product's unit digit; NO_EXPONENT for zero and special products."""
        a, b = (unit_exponents(side.format)[side.codes] for side in (self.a, self.b))
        none = np.minimum(a, b) == NO_EXPONENT
        return read_only(np.where(none, np.int16(NO_EXPONENT), a + b))

    @cached_property
    def specials(self) -> NDArray[np.uint8]:
        """Special class of each product; 0 for finite ones."""
        special = np.where(np.isfinite(self._raw), 0.0, self._raw)
        return read_only(special_class(special.astype(np.float32)))


@dataclass(frozen=True)
class Pair:
    """Two formats whose elements are multiplied."""

    a: ElementFormat
    b: ElementFormat

    @property
    def lsb(self) -> int:
        """Exponent of the smallest product's last digit: every product is a multiple of 2^lsb."""
        return self.a.lsb + self.b.lsb

    @property
    def bits(self) -> int:
        """Width of the largest product magnitude as a multiple of 2^lsb."""
        return (largest_magnitude(self.a) * largest_magnitude(self.b)).bit_length()

    @property
    def least(self) -> float:
        """Most negative product."""
        (low_a, high_a), (low_b, high_b) = self.a.extremes, self.b.extremes
        return min(low_a * high_b, high_a * low_b)

    @property
    def largest(self) -> float:
        """Largest product."""
        (low_a, high_a), (low_b, high_b) = self.a.extremes, self.b.extremes
        return max(low_a * low_b, high_a * high_b)

    @property
    def has_table(self) -> bool:
        """Whether a table of all pairs of codes is small enough."""
        return self.a.bits + self.b.bits <= TABLE_BITS

    def of(self, a: NDArray, b: NDArray) -> "Products | TableProducts":
        """Products of codes, element by element."""
        if self.has_table:
            index = (a.astype(np.uint16) << np.uint16(self.b.bits)) | b
            return TableProducts(product_table(self.a, self.b), index)
        return Products(Elements(self.a, a), Elements(self.b, b))


@cache
def product_table(a: ElementFormat, b: ElementFormat) -> Products:
    """Products of every code of `a`, in order, with every code of `b`.

    Raises ValueError for formats of more than `TABLE_BITS` bits together.
    """
    if not Pair(a, b).has_table:
        raise ValueError(
            f"formats of a table of products must have at most {TABLE_BITS} bits together, not "
            f"{a} and {b}"
        )
    first, second = (np.arange(2**fmt.bits) for fmt in (a, b))
    return Products(
        Elements(a, np.repeat(first, second.size)), Elements(b, np.tile(second, first.size))
    )


def _looked_up(name: str) -> Any:
    return property(lambda looked: getattr(looked.table, name)[looked.index])


@dataclass(frozen=True, eq=False)
class TableProducts:
    """`Products` from a table of all of them."""

    table: Products
    index: NDArray[np.uint16]

    values = _looked_up("values")
    significands = _looked_up("significands")
    exponents = _looked_up("exponents")
    unit_exponents = _looked_up("unit_exponents")
    specials = _looked_up("specials")
