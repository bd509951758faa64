"""Exact element products by table: one entry per pair of codes (section 3 of the contract)."""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from .formats import ElementFormat, read_only
from .specials import special_class

NO_EXPONENT = -(2**14)  # the unit exponent of a zero product: below every other


@dataclass(frozen=True)
class ProductTable:
    """Products of every code pair of two formats; tables are indexed by `index(a, b)`."""

    a: ElementFormat
    b: ElementFormat

    def index(self, a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """Table index of code pairs, element by element."""
        return (a.astype(np.uint16) << np.uint16(self.b.bits)) | b

    def _pair(self, a: NDArray, b: NDArray) -> tuple[NDArray, NDArray]:
        return np.repeat(a, b.size), np.tile(b, a.size)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Exact product values; NaN for every special term (NaN, Inf, Inf x 0)."""
        a, b = self._pair(self.a.values, self.b.values)
        with np.errstate(invalid="ignore"):
            product = a * b
        product[np.isinf(product)] = np.nan
        return read_only(product)

    @cached_property
    def significands(self) -> NDArray[np.int64]:
        """Signed products of significands, never renormalised; 0 for special terms."""
        sign_a, sig_a, _ = self.a.triples
        sign_b, sig_b, _ = self.b.triples
        a, b = self._pair(np.where(sign_a, -sig_a, sig_a), np.where(sign_b, -sig_b, sig_b))
        return read_only(a * b)

    @cached_property
    def exponents(self) -> NDArray[np.int64]:
        """Exponent E of each product: value = significand x 2^E."""
        a, b = self._pair(self.a.triples.exponent, self.b.triples.exponent)
        return read_only(a + b)

    @property
    def fraction_bits(self) -> int:
        """m_a + m_b: the product's unit digit lies this far above its last digit."""
        return self.a.mantissa_bits + self.b.mantissa_bits

    @cached_property
    def unit_exponents(self) -> NDArray[np.int16]:
        """U of each product; NO_EXPONENT for zero and special products."""
        units = np.where(self.significands == 0, NO_EXPONENT, self.exponents + self.fraction_bits)
        return read_only(units.astype(np.int16))

    @cached_property
    def specials(self) -> NDArray[np.uint8]:
        """The special class of each product, 0 when finite."""
        a, b = self._pair(self.a.values, self.b.values)
        with np.errstate(invalid="ignore"):
            return read_only(special_class((a * b).astype(np.float32)))

    @property
    def lsb(self) -> int:
        """Exponent of the smallest product's last digit: every product is a multiple of 2^lsb."""
        return self.a.emin + self.b.emin - self.fraction_bits

    @property
    def bits(self) -> int:
        """Width of the largest product magnitude as a multiple of 2^lsb."""
        largest = np.nanmax(np.abs(self.values))
        return int(np.ldexp(largest, -self.lsb)).bit_length()


@cache
def product_table(a: ElementFormat, b: ElementFormat) -> ProductTable:
    """The (shared) table of products of formats `a` and `b`."""
    return ProductTable(a, b)
