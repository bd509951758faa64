"""The bit widths of a dot unit, derived from its configuration (section 5 of the contract)."""

from dataclasses import dataclass
from functools import cached_property

from ...model.accumulators import Aligned, Fused, Preset
from ...model.config import DotConfig
from ...model.formats import ElementFormat
from ...model.pipeline import steps_per_block


def magnitude_bits(largest: int) -> int:
    """Bits of an unsigned integer up to `largest`."""
    return max(1, largest.bit_length())


@dataclass(frozen=True)
class OperandWidths:
    """One operand's decoded elements, wide enough for each of its formats.

    value = significand x 2^(exponent + exponent_min - fraction_bits), `exponent` unsigned: that of
    the significand's unit digit, biased. micro: whether a micro-exponent lowers it by one.
    """

    formats: tuple[ElementFormat, ...]
    micro: bool = False

    @property
    def code_bits(self) -> int:
        return max(f.bits for f in self.formats)

    @property
    def fraction_bits(self) -> int:
        return max(f.mantissa_bits for f in self.formats)

    @property
    def significand_bits(self) -> int:
        return max(f.significand_bits + self.fraction_bits - f.mantissa_bits for f in self.formats)

    @property
    def exponent_min(self) -> int:
        return min(f.emin for f in self.formats) - self.micro

    @property
    def exponent_bits(self) -> int:
        """Of the biased exponent; codes with the specials' exponent included."""
        return magnitude_bits(max(f.emax + 1 - self.exponent_min for f in self.formats))


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
    def product_fraction_bits(self) -> int:
        """Of a product: its unit digit is worth 2^(exponent + exponent_min)."""
        return self.a.fraction_bits + self.b.fraction_bits

    @property
    def exponent_min(self) -> int:
        return self.a.exponent_min + self.b.exponent_min

    @property
    def lsb(self) -> int:
        """Exponent of the last digit of the smallest product."""
        return self.exponent_min - self.product_fraction_bits

    @property
    def exponent_bits(self) -> int:
        """Of a product's biased exponent."""
        return magnitude_bits(2**self.a.exponent_bits - 1 + 2**self.b.exponent_bits - 1)

    @cached_property
    def exponent_span(self) -> int:
        """Distance of the largest finite product's exponent from exponent_min."""
        return max(a.emax + b.emax for a, b in self.config.formats) - self.exponent_min

    @cached_property
    def product_bits(self) -> int:
        """Of the largest product of significands."""
        return magnitude_bits(
            max(self._largest(a, self.a) * self._largest(b, self.b) for a, b in self.config.formats)
        )

    @staticmethod
    def _largest(fmt: ElementFormat, operand: OperandWidths) -> int:
        """The largest significand of `fmt`, at the operand's fraction bits."""
        return int(fmt.triples.significand.max()) << (operand.fraction_bits - fmt.mantissa_bits)

    @property
    def steps(self) -> int:
        return steps_per_block(self.config.accumulator, self.config.lanes)

    @property
    def step_lanes(self) -> int:
        """Lanes of one step."""
        return self.config.lanes // self.steps

    @property
    def fraction_bits(self) -> int:
        """F of an aligning accumulator: fraction bits kept below the largest unit digit."""
        rule = self.config.accumulator
        assert isinstance(rule, Aligned | Fused | Preset)
        return rule.fraction_bits

    @property
    def term_bits(self) -> int:
        """Of a term's magnitude: aligned to F bits, or placed on the exact grid."""
        if isinstance(self.config.accumulator, Aligned | Fused | Preset):
            return max(1, self.fraction_bits + self.product_bits - self.product_fraction_bits)
        return self.product_bits + self.exponent_span

    @property
    def total_bits(self) -> int:
        """Of the signed sum of one step's terms, of c too when it takes part."""
        largest = self.step_lanes * (2**self.term_bits - 1)
        if isinstance(self.config.accumulator, Fused | Preset):
            largest += 2 ** (self.fraction_bits + 1) - 1
        return magnitude_bits(largest) + 1
