"""Values that the register of `fixed:W:L` can hold in a unit, and the results that follow.

W and L may put the register anywhere: above all that a block can sum, below all that the output can
tell from zero. Values out of its reach are no part of the goals.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...model import DotConfig
from ...model.accumulators import FixedRegister
from ...model.formats import E8M0, FLOAT32, FloatFormat
from ...model.products import Pair
from ...model.steps import MICRO_DIGITS

LARGEST_SCALE = 2 * E8M0.exponent_range[1]
"""Exponent of the largest scale of a block."""
LARGEST_BLOCKS = 2
"""Blocks of the largest dot products that are sent: values that only longer ones reach are no goal.
"""
WITHIN = "within range"
POSITIVE, NEGATIVE = "left, result positive", "left, result negative"


@dataclass(frozen=True)
class Register:
    """The register of a unit with the accumulator `rule`."""

    config: DotConfig
    rule: FixedRegister

    @property
    def top(self) -> int:
        """Exponent of its end: its most negative value is -2^top."""
        return self.rule.width - 1 + self.rule.lsb

    @cached_property
    def grain(self) -> int:
        """Exponent of which block sums are multiples, 2^grain.

        So is c, whose last digit is 2^-149 at least.
        """
        fmt = self.config.scale_format
        least = min(Pair(*pair).lsb for pair in self.config.formats)
        least += 2 * (fmt.emin - fmt.mantissa_bits) - MICRO_DIGITS * self.config.micro
        return min(least, FLOAT32.lsb) if self.config.load_c else least

    @cached_property
    def largest(self) -> tuple[int, int]:
        """The largest sums of blocks and c below and above zero, in units of 2^L."""
        pairs = [Pair(*pair) for pair in self.config.formats]
        ends = -min(pair.least for pair in pairs), max(pair.largest for pair in pairs)
        unit = Fraction(2) ** -self.rule.lsb
        scale = Fraction(self.config.scale_format.largest_finite) ** 2
        c = int(Fraction(FLOAT32.largest_finite) * unit) if self.config.load_c else 0
        blocks = (int(Fraction(end) * self.config.lanes * scale * unit) for end in ends)
        below, above = (LARGEST_BLOCKS * block + c for block in blocks)
        return below, above

    @property
    def stays_zero(self) -> bool:
        """True when every block sum is cut to zero, or is whole turns of a register that wraps."""
        turns = self.rule.overflow == "wrap" and self.grain > self.top
        return turns or not any(self.largest)

    @property
    def exponents(self) -> range:
        """Exponents of the powers of two that it can hold; the last one is negative only.

        Every value is a sum of them. A saturating register also holds its ends.
        """
        least = max(self.grain, self.rule.lsb)
        most = min(self.top, self.rule.lsb + max(self.largest).bit_length() - 1)
        return range(0) if self.stays_zero else range(min(least, self.top), most + 1)

    @property
    def leaves(self) -> tuple[bool, bool]:
        """Two booleans: `LARGEST_BLOCKS` blocks get below the least value, above the largest."""
        end = 2 ** (self.rule.width - 1)
        below, above = self.largest
        return below > end, above >= end

    def can_be_inexact(self, out: FloatFormat) -> bool:
        """True when an addend is cut, or a value is not one of `out`.

        It is too small, too large, or has too many digits.
        """
        if self.rule.lsb > self.grain or self.can_underflow(out) or self.can_overflow(out):
            return True
        at_end = self._saturates and self.rule.width - 1 > out.significand_bits
        return at_end or len(self.exponents) - 1 > out.significand_bits

    @property
    def _saturates(self) -> bool:
        """True when it comes to its positive end, which has all digits."""
        return self.rule.overflow == "saturate" and self.leaves[1]

    def can_overflow(self, out: FloatFormat) -> bool:
        """True when a value is infinite in `out`: a power of two, or the rounded largest sum."""
        limit = Fraction(2) ** out.emax * (2 - Fraction(1, 2**out.significand_bits))
        reaches = max(self.largest) * Fraction(2) ** self.rule.lsb >= limit and not self.stays_zero
        return (self.top > out.emax and reaches) or self._meets(out.emax + 1, self.top)

    def can_underflow(self, out: FloatFormat) -> bool:
        """True when a value has digits below the last of `out`: a power of two, or the positive
        end."""
        has_end = self._saturates and self.rule.lsb < out.lsb and self.top < out.emin
        return has_end or self._meets(self.rule.lsb, out.lsb - 1)

    def can_be_normal(self, out: FloatFormat) -> bool:
        """True when a value is normal in `out`."""
        return self._meets(out.emin, 1 - out.emin)

    def can_be_subnormal(self, out: FloatFormat) -> bool:
        """True when a value is subnormal in `out`."""
        return self._meets(out.lsb, out.emin - 1)

    def _meets(self, low: int, high: int) -> bool:
        """True when it holds a power of two from 2^low to 2^high."""
        exponents = self.exponents
        return bool(exponents) and max(low, exponents[0]) <= min(high, exponents[-1])

    def saturation(self, out: FloatFormat) -> list[str]:
        """Bins of `saturation_hits`: a register that wraps comes back at the other end."""
        least = Fraction(2) ** (out.lsb - 1)  # and all below it: zero in `out`
        wraps = self.rule.overflow == "wrap"
        last = max(self.grain, self.rule.lsb) if wraps else self.rule.lsb
        end = Fraction(2) ** self.top
        below, above = self.leaves
        positive = (below if wraps else above) and end - Fraction(2) ** last > least
        negative = (above if wraps else below) and end > least
        moves = not self.stays_zero
        return [WITHIN, *[POSITIVE] * (moves and positive), *[NEGATIVE] * (moves and negative)]


def saturation_hits(
    negative: NDArray[np.bool_], shown: NDArray[np.bool_], saturated: NDArray[np.bool_]
) -> list[set[object]]:
    """Bins by range of the register, and by the sign of the result where it is `shown`."""
    return [
        set() if left and not seen else {(NEGATIVE if sign else POSITIVE) if left else WITHIN}
        for sign, seen, left in zip(
            negative.tolist(), shown.tolist(), saturated.tolist(), strict=True
        )
    ]
