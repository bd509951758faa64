"""The bit widths of a dot unit, derived from its configuration (section 5 of the contract)."""

from dataclasses import dataclass
from functools import cached_property

from ..model.accumulators import Aligned, Fused, Preset
from ..model.config import DotConfig
from ..model.formats import ElementFormat
from ..model.pipeline import steps_per_block

EXPONENT_BITS = 11  # signed; holds every exponent of every configuration, scales included


def magnitude_bits(largest: int) -> int:
    """Bits of an unsigned integer up to `largest`."""
    return max(1, largest.bit_length())


@dataclass(frozen=True)
class OperandWidths:
    """One operand's decoded elements, wide enough for each of its formats.

    value = significand x 2^(unit + unit_min - fraction), `unit` unsigned.
    """

    formats: tuple[ElementFormat, ...]
    micro: bool = False
    """Whether a micro-exponent lowers the exponent by one."""

    @property
    def bits(self) -> int:
        return max(f.bits for f in self.formats)

    @property
    def fraction(self) -> int:
        return max(f.mantissa_bits for f in self.formats)

    @property
    def significand(self) -> int:
        return max(f.significand_bits + self.fraction - f.mantissa_bits for f in self.formats)

    @property
    def unit_min(self) -> int:
        return min(f.emin for f in self.formats) - self.micro

    @property
    def unit_max(self) -> int:
        return max(f.emax for f in self.formats)

    @property
    def unit(self) -> int:
        """Width of the biased exponent; codes with the specials' exponent included."""
        return magnitude_bits(max(f.emax + 1 - self.unit_min for f in self.formats))


@dataclass(frozen=True)
class Widths:
    """Widths behind the decoders, for every section of the datapath."""

    config: DotConfig

    @cached_property
    def a(self) -> OperandWidths:
        return OperandWidths(tuple(a for a, _ in self.config.formats), self.config.micro)

    @cached_property
    def b(self) -> OperandWidths:
        return OperandWidths(tuple(b for _, b in self.config.formats), self.config.micro)

    @property
    def fraction(self) -> int:
        """Fraction bits of a product: its unit digit is worth 2^(unit + unit_min)."""
        return self.a.fraction + self.b.fraction

    @property
    def unit_min(self) -> int:
        return self.a.unit_min + self.b.unit_min

    @property
    def lsb(self) -> int:
        """Exponent of the last digit of the smallest product."""
        return self.unit_min - self.fraction

    @property
    def unit(self) -> int:
        """Width of a product's biased unit exponent."""
        return magnitude_bits(2**self.a.unit - 1 + 2**self.b.unit - 1)

    @cached_property
    def unit_span(self) -> int:
        """Distance of the largest finite product's unit exponent from unit_min."""
        return max(a.emax + b.emax for a, b in self.config.formats) - self.unit_min

    @cached_property
    def product(self) -> int:
        """Width of the largest product of significands."""
        return magnitude_bits(
            max(self._largest(a, self.a) * self._largest(b, self.b) for a, b in self.config.formats)
        )

    @staticmethod
    def _largest(fmt: ElementFormat, operand: OperandWidths) -> int:
        """The largest significand of `fmt`, at the operand's fraction bits."""
        return int(fmt.triples.significand.max()) << (operand.fraction - fmt.mantissa_bits)

    @property
    def steps(self) -> int:
        return steps_per_block(self.config.accumulator, self.config.lanes)

    @property
    def terms(self) -> int:
        """Lanes of one step."""
        return self.config.lanes // self.steps

    @property
    def kept(self) -> int:
        """F of an aligning accumulator: fraction bits kept below the largest unit digit."""
        rule = self.config.accumulator
        assert isinstance(rule, Aligned | Fused | Preset)
        return rule.fraction_bits

    @property
    def term(self) -> int:
        """Width of a term's magnitude: aligned to F bits, or placed on the exact grid."""
        if isinstance(self.config.accumulator, Aligned | Fused | Preset):
            return max(1, self.kept + self.product - self.fraction)
        return self.product + self.unit_span

    @property
    def total(self) -> int:
        """Width of the signed sum of one step's terms, of c too when it takes part."""
        largest = self.terms * (2**self.term - 1)
        if isinstance(self.config.accumulator, Fused | Preset):
            largest += 2 ** (self.kept + 1) - 1
        return magnitude_bits(largest) + 1
