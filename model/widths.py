"""The bit widths of a dot unit, derived from its configuration (section 5 of the contract)."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from .formats import FLOAT32, ElementFormat, FloatFormat
from .outputs import IntegerOutput

if TYPE_CHECKING:
    from .units.dot import DotConfig

PARTIAL_SUMS = (32, 10, 5)
"""Words of a block's tree where registers may stand."""

LEADERS, FEWER_LEADERS = 4, 2
"""Exponents of which a section finds the largest, and of which where sections are cut finer."""


def magnitude_bits(largest: int) -> int:
    """Bits of an unsigned integer up to `largest`."""
    return max(1, largest.bit_length())


@dataclass(frozen=True)
class OperandWidths:
    """One operand's decoded elements, wide enough for each of its formats.

    value = significand x 2^(exponent + exponent_min - fraction_bits), `exponent` unsigned: that of
    the significand's unit digit, biased. micro: whether a micro-exponent lowers it by one. flushes:
    whether subnormal elements are zeros.
    """

    formats: tuple[ElementFormat, ...]
    micro: bool = False
    flushes: bool = False

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
        """Of a float it is one below that of the smallest normal: a biased exponent is its field,
        but 1 for a subnormal; a micro-exponent may make that a 0."""
        return min(f.emin - (self.micro or not f.is_integer) for f in self.formats)

    @property
    def exponent_low(self) -> int:
        """The smallest biased exponent."""
        return min(f.emin for f in self.formats) - self.micro - self.exponent_min

    @property
    def exponent_bits(self) -> int:
        """Of the biased exponent; codes with the specials' exponent included."""
        return magnitude_bits(
            max(f.emin - self.exponent_min + max(2**f.exponent_bits - 2, 0) for f in self.formats)
        )


@dataclass(frozen=True)
class Widths:
    """Widths behind the decoders, for every section of the datapath."""

    config: "DotConfig"

    @cached_property
    def a(self) -> OperandWidths:
        return self._operand(0)

    @cached_property
    def b(self) -> OperandWidths:
        return self._operand(1)

    def _operand(self, side: int) -> OperandWidths:
        config = self.config
        formats = tuple(pair[side] for pair in config.formats)
        return OperandWidths(formats, config.micro, config.accumulator.flushes)

    @property
    def product_fraction_bits(self) -> int:
        """Of a product: its unit digit is worth 2^(exponent + exponent_min)."""
        return self.a.fraction_bits + self.b.fraction_bits

    @property
    def exponent_min(self) -> int:
        return self.a.exponent_min + self.b.exponent_min

    @property
    def product_lsb(self) -> int:
        """Exponent of the last digit of a product whose biased exponent is 0."""
        return self.exponent_min - self.product_fraction_bits

    @property
    def exponent_low(self) -> int:
        """The smallest biased exponent of a product."""
        return self.a.exponent_low + self.b.exponent_low

    @property
    def lsb(self) -> int:
        """Exponent of the last digit of the smallest product."""
        return self.product_lsb + self.exponent_low

    @property
    def exponent_bits(self) -> int:
        """Of a product's biased exponent."""
        return magnitude_bits(2**self.a.exponent_bits - 1 + 2**self.b.exponent_bits - 1)

    @cached_property
    def exponent_span(self) -> int:
        """Distance of the largest finite product's exponent from the smallest."""
        largest = max(a.emax + b.emax for a, b in self.config.formats)
        return largest - self.exponent_min - self.exponent_low

    @cached_property
    def largest_product(self) -> int:
        """The largest product of significands, as an integer."""
        return max(
            self.largest(a, self.a) * self.largest(b, self.b) for a, b in self.config.formats
        )

    @property
    def product_bits(self) -> int:
        """Of the largest product of significands."""
        return magnitude_bits(self.largest_product)

    @staticmethod
    def largest(fmt: ElementFormat, operand: OperandWidths) -> int:
        """The largest significand of `fmt`, at the operand's fraction bits."""
        return int(fmt.triples.significand.max()) << (operand.fraction_bits - fmt.mantissa_bits)

    @property
    def running(self) -> FloatFormat:
        """The format of the running value."""
        return self.config.accumulator.running

    @property
    def steps(self) -> int:
        """Times that a beat changes c."""
        return self.config.accumulator.updates(self.config.lanes, self.config.scale_block)

    @property
    def step_lanes(self) -> int:
        """Lanes of one step."""
        return self.config.lanes // self.steps

    @property
    def parts(self) -> list[range]:
        """The lanes whose products have one largest exponent, step by step."""
        count, parts = self.step_lanes, self.config.accumulator.parts
        starts = range(0, self.steps * count, count)
        return [
            range(start + part, start + count, parts) for start in starts for part in range(parts)
        ]

    @property
    def terms(self) -> "Widths":
        """Of what an accumulator aligns with c: products, or what becomes of them."""
        return self.config.accumulator.term_widths(self)

    @property
    def order(self) -> list[int]:
        """The places of a beat in the order in which steps take them."""
        block = self.config.scale_block
        order = self.config.accumulator.order(block)
        places = range(block) if order is None else order.tolist()
        return [start + place for start in range(0, self.config.lanes, block) for place in places]

    @property
    def factor_fraction_bits(self) -> int:
        """Of the product of both scales' significands g."""
        return 2 * self.config.scale_fraction_bits

    @property
    def largest_factor(self) -> int:
        """The largest g as an integer; 1 of powers of two."""
        return (2 ** (self.config.scale_fraction_bits + 1) - 1) ** 2

    @property
    def factor_bits(self) -> int:
        """Of g as an integer; 0 where scales are powers of two."""
        return magnitude_bits(self.largest_factor) if self.factor_fraction_bits else 0

    @property
    def fraction_bits(self) -> int:
        """F of an aligning accumulator: fraction bits kept below the largest unit digit."""
        bits = self.config.accumulator.alignment_bits
        assert bits is not None
        return bits

    @property
    def total_fraction_bits(self) -> int:
        """Those of a step's sum with c."""
        return self.fraction_bits

    @property
    def largest_term(self) -> int:
        """The largest magnitude of a term: aligned to F bits, or placed on the exact grid."""
        if self.config.accumulator.alignment_bits is not None:
            return (self.largest_product << self.fraction_bits) >> self.product_fraction_bits
        return self.largest_product << self.exponent_span

    @property
    def term_bits(self) -> int:
        """Of the magnitude of a term."""
        return magnitude_bits(self.largest_term)

    @property
    def total_bits(self) -> int:
        """Of the signed sum of one step's terms, of c too when it takes part."""
        largest = self.step_lanes * self.largest_term
        if self.config.accumulator.is_fused:
            largest += 2 ** (self.fraction_bits + 1) - 1
        return magnitude_bits(largest) + 1

    @property
    def sum_bits(self) -> int:
        """Of the magnitude of the sum of a block's terms."""
        return self.total_bits - 1

    @property
    def codes_are_integers(self) -> bool:
        """Whether both operands have one integer format each: their products need no exponents."""
        (pair, *others), micro = self.config.formats, self.config.micro
        return not others and not micro and all(fmt.is_integer for fmt in pair)

    @property
    def ends_in_rows(self) -> bool:
        """Whether the sum of a block is left as two rows, for a loop of one addition; it is added
        up for a register, and where digits of it are cut or its scales' significands multiply it.
        """
        rule = self.config.accumulator
        cuts = rule.alignment_bits is not None and self.sum_is_cut
        integers = isinstance(self.config.out, IntegerOutput)
        return integers or (rule.register is None and not cuts and not self.factor_bits)

    @property
    def has_partial_products(self) -> bool:
        """Whether a block's partial products are summed, and not its products."""
        return self.codes_are_integers and self.config.accumulator.sums_exactly

    @property
    def partial_sums(self) -> tuple[int, ...]:
        """Words to which a block's terms are brought, one section after the other, before they are
        added up; none for few terms.

        Partial products of integer codes always are; a register behind words is narrower than one
        behind terms.
        """
        if self.has_partial_products:
            return PARTIAL_SUMS
        lanes = self.config.lanes
        return tuple(words for words in PARTIAL_SUMS if words < lanes) if lanes > 8 else ()

    @property
    def sum_is_cut(self) -> bool:
        """Whether a block's aligned sum may be none of the float32 numbers that it is cut to."""
        return self.sum_bits > FLOAT32.significand_bits or self.sum_leaves_float32

    @property
    def products_leave_float32(self) -> bool:
        """Whether products, or sums of them, may overflow a float32 or be subnormal in it."""
        top = self.lsb + self.exponent_span + self.product_bits
        carries = (self.config.lanes - 1).bit_length()
        return self.lsb < FLOAT32.emin or top + carries > FLOAT32.emax

    @property
    def grid(self) -> int:
        """Exponent of the last digit of an aligned sum, less the largest biased exponent."""
        return self.exponent_min - self.fraction_bits

    @property
    def sum_leaves_float32(self) -> bool:
        """Whether an aligned sum may be too large for a float32, or have digits below all of them:
        of operands that have its exponents."""
        low = self.grid + self.exponent_low
        top = low + self.exponent_span + self.sum_bits
        return low < FLOAT32.lsb or top > FLOAT32.emax + 1

    @property
    def block_leaves_float32(self) -> bool:
        """Whether a block's sum, of a rule that rounds it to float32 before its scales multiply it,
        may be no finite one."""
        rule = self.config.accumulator
        if rule.is_fused or rule.sums_exactly:
            return False
        aligns = rule.alignment_bits is not None
        return self.sum_leaves_float32 if aligns else self.products_leave_float32

    @property
    def code_bits(self) -> tuple[int, int]:
        """Of the codes of a and b."""
        return self.a.code_bits, self.b.code_bits
