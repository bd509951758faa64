"""Widths of the terms that meet c in an alignment, where these are not the products themselves."""

from dataclasses import dataclass
from functools import cached_property

from .formats import E8M0
from .widths import Widths, magnitude_bits


@dataclass(frozen=True)
class FactorWidths(Widths):
    """Of products times the significands of their scales; exponents are those of the products."""

    @cached_property
    def largest_product(self) -> int:
        return Widths(self.config).largest_product * self.largest_factor

    @property
    def product_fraction_bits(self) -> int:
        return super().product_fraction_bits + self.factor_fraction_bits


@dataclass(frozen=True)
class FlooredWidths(Widths):
    """Of products whose sum is cut downwards beside c, on a finer grid than that of the products.

    finer_bits: fraction bits of that grid.
    """

    finer_bits: int

    @property
    def total_fraction_bits(self) -> int:
        """Of the sum with c: those of the finer grid."""
        return self.finer_bits

    @property
    def aligned_sum_bits(self) -> int:
        """Of the magnitude of the sum of a step's terms, or of a part of them."""
        return magnitude_bits(self.step_lanes * self.largest_term)

    @property
    def more_bits(self) -> int:
        """Digits of the finer grid below that of the products."""
        return self.finer_bits - self.fraction_bits

    @property
    def total_bits(self) -> int:
        """Of the signed sum of a step's terms and c."""
        largest = self.step_lanes * self.largest_term + 2 ** (self.fraction_bits + 1)
        return magnitude_bits(largest << self.more_bits) + 1


@dataclass(frozen=True)
class GroupWidths(Widths):
    """Of exact sums of groups, times the significands of their scales: a "product" is a group.

    Its exponent, and that of its unit digit, is that of both scales.
    """

    @property
    def group(self) -> int:
        """Elements of a group."""
        return self.config.accumulator.step_terms(self.config.scale_block)

    @property
    def groups(self) -> int:
        """Of a beat."""
        return self.config.lanes // self.group

    @property
    def step_lanes(self) -> int:
        """Groups of one step."""
        return self.groups // self.steps

    @property
    def placed_bits(self) -> int:
        """Of a product on the grid of all products."""
        return magnitude_bits(self._largest_placed)

    @property
    def group_sum_bits(self) -> int:
        """Of the magnitude of the sum of a group, in units of the products' last digit."""
        return magnitude_bits(self.group * self._largest_placed)

    @property
    def _largest_placed(self) -> int:
        plain = Widths(self.config)
        return plain.largest_product << plain.exponent_span

    @cached_property
    def largest_product(self) -> int:
        return self.group * self._largest_placed * self.largest_factor

    @property
    def product_fraction_bits(self) -> int:
        """Digits below 2^0 of a sum under scales of 1."""
        return self.factor_fraction_bits - Widths(self.config).lsb

    @property
    def exponent_min(self) -> int:
        """The least exponent of both scales together."""
        return 2 * self.config.scale_format.emin

    @property
    def exponent_bits(self) -> int:
        """Of the exponent of both scales, biased; E8M0's NaN, one further, included."""
        fmt = self.config.scale_format
        return magnitude_bits(2 * (fmt.emax + (fmt == E8M0) - fmt.emin))
