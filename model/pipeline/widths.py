"""Bit widths of a dot unit, derived from its configuration (section 5 of docs/numerics.md)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from ..formats import E8M0, FLOAT32, ElementFormat, FloatFormat, ScaleFormat
from ..outputs import IntegerOutput

PARTIAL_SUMS = (32, 10, 5)
"""Words of a block's adder tree at the places where registers may stand."""

LEADERS, FEWER_LEADERS = 4, 2
"""Exponents that one section compares; the second number where sections are cut finer."""


class DotDescription(Protocol):
    """Facts that widths need of a `DotConfig`, whose module imports this one.

    Any: fields that the constructor converts, which a type checker takes for descriptors.
    """

    @property
    def formats(self) -> Any: ...
    @property
    def lanes(self) -> int: ...
    @property
    def scale_block(self) -> Any: ...
    @property
    def accumulator(self) -> Any: ...
    @property
    def out(self) -> Any: ...
    @property
    def micro(self) -> bool: ...
    @property
    def scale_format(self) -> ScaleFormat: ...
    @property
    def scale_fraction_bits(self) -> int: ...


def magnitude_bits(largest: int) -> int:
    """Bits of an unsigned integer up to `largest`."""
    return max(1, largest.bit_length())


@dataclass(frozen=True)
class OperandWidths:
    """Widths of one operand's decoded elements, enough for each of its formats.

    value = significand x 2^(exponent + exponent_min - fraction_bits). `exponent` is unsigned: the
    biased exponent of the significand's unit digit. micro: a micro-exponent may lower it by one.
    flushes: subnormal elements are zeros.
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
        """Exponent that the biased exponent 0 stands for.

        For a float this is one below the smallest normal: the biased exponent is the code's field,
        and 1 for a subnormal. A micro-exponent may lower that 1 to 0.
        """
        return min(f.emin - (self.micro or not f.is_integer) for f in self.formats)

    @property
    def exponent_low(self) -> int:
        """The smallest biased exponent."""
        return min(f.emin for f in self.formats) - self.micro - self.exponent_min

    @property
    def exponent_bits(self) -> int:
        """Bits of the biased exponent, the exponent of special codes included."""
        return magnitude_bits(
            max(f.emin - self.exponent_min + max(2**f.exponent_bits - 2, 0) for f in self.formats)
        )


@dataclass(frozen=True)
class Widths:
    """Widths after the decoders, for every section of the datapath."""

    config: DotDescription

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
        """Fraction bits of a product, whose unit digit is worth 2^(exponent + exponent_min)."""
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
        """Bits of a product's biased exponent."""
        return magnitude_bits(2**self.a.exponent_bits - 1 + 2**self.b.exponent_bits - 1)

    @cached_property
    def exponent_span(self) -> int:
        """Distance of the largest finite product's exponent from the smallest."""
        largest = max(a.emax + b.emax for a, b in self.config.formats)
        return largest - self.exponent_min - self.exponent_low

    @cached_property
    def largest_product(self) -> int:
        """Largest product of significands, as an integer."""
        return max(
            self.largest(a, self.a) * self.largest(b, self.b) for a, b in self.config.formats
        )

    @property
    def product_bits(self) -> int:
        """Bits of the largest product of significands."""
        return magnitude_bits(self.largest_product)

    @staticmethod
    def largest(fmt: ElementFormat, operand: OperandWidths) -> int:
        """Largest significand of `fmt`, at the operand's fraction bits."""
        return int(fmt.triples.significand.max()) << (operand.fraction_bits - fmt.mantissa_bits)

    @property
    def running(self) -> FloatFormat:
        return self.config.accumulator.running

    @property
    def steps(self) -> int:
        """Number of times that a beat changes c."""
        return self.config.accumulator.updates(self.config.lanes, self.config.scale_block)

    @property
    def step_lanes(self) -> int:
        """Lanes of one step."""
        return self.config.lanes // self.steps

    @property
    def parts(self) -> list[range]:
        """Lanes that share one largest exponent, in the order of the steps."""
        count, parts = self.step_lanes, self.config.accumulator.parts
        starts = range(0, self.steps * count, count)
        return [
            range(start + part, start + count, parts) for start in starts for part in range(parts)
        ]

    @property
    def terms(self) -> "Widths":
        """Widths of the terms that an accumulator aligns with c: products, or sums of them."""
        return self.config.accumulator.term_widths(self)

    @property
    def order(self) -> list[int]:
        """Places of a beat in the order in which steps take them."""
        block = self.config.scale_block
        order = self.config.accumulator.order(block)
        places = range(block) if order is None else order.tolist()
        return [start + place for start in range(0, self.config.lanes, block) for place in places]

    @property
    def factor_fraction_bits(self) -> int:
        """Fraction bits of g, the product of both scales' significands."""
        return 2 * self.config.scale_fraction_bits

    @property
    def largest_factor(self) -> int:
        """Largest g as an integer; 1 for scales that are powers of two."""
        return (2 ** (self.config.scale_fraction_bits + 1) - 1) ** 2

    @property
    def factor_bits(self) -> int:
        """Bits of g as an integer; 0 for scales that are powers of two."""
        return magnitude_bits(self.largest_factor) if self.factor_fraction_bits else 0

    @property
    def fraction_bits(self) -> int:
        """F of an aligning accumulator: fraction bits kept below the largest unit digit."""
        bits = self.config.accumulator.alignment_bits
        assert bits is not None
        return bits

    @property
    def total_fraction_bits(self) -> int:
        """Fraction bits of a step's sum with c."""
        return self.fraction_bits

    @property
    def largest_term(self) -> int:
        """Largest magnitude of a term, aligned to F bits or placed on the exact grid."""
        if self.config.accumulator.alignment_bits is not None:
            units, digits = self.largest_product << self.fraction_bits, self.product_fraction_bits
            return -(-units >> digits) if self.config.accumulator.rounds_up else units >> digits
        return self.largest_product << self.exponent_span

    @property
    def term_bits(self) -> int:
        """Bits of a term's magnitude."""
        return magnitude_bits(self.largest_term)

    @property
    def total_bits(self) -> int:
        """Bits of the signed sum of one step's terms, and of c where it takes part."""
        largest = self.step_lanes * self.largest_term
        if self.config.accumulator.is_fused:
            largest += 2 ** (self.fraction_bits + 1) - 1
        return magnitude_bits(largest) + 1

    @property
    def sum_bits(self) -> int:
        """Bits of the magnitude of the sum of a block's terms."""
        return self.total_bits - 1

    @property
    def codes_are_integers(self) -> bool:
        """Whether each operand has one integer format, so that products need no exponents."""
        (pair, *others), micro = self.config.formats, self.config.micro
        return not others and not micro and all(fmt.is_integer for fmt in pair)

    @property
    def ends_in_rows(self) -> bool:
        """Whether a block's sum stays two rows, for a loop of one addition.

        The rows are added up for a register, for a sum whose low digits are cut, and for a sum that
        its scales' significands multiply.
        """
        rule = self.config.accumulator
        cuts = rule.alignment_bits is not None and self.sum_is_cut
        integers = isinstance(self.config.out, IntegerOutput)
        return integers or (rule.register is None and not cuts and not self.factor_bits)

    @property
    def has_partial_products(self) -> bool:
        """Whether a block's partial products are summed instead of its products."""
        return self.codes_are_integers and self.config.accumulator.sums_exactly

    @property
    def partial_sums(self) -> tuple[int, ...]:
        """Words that a block's terms become, section by section, before they are added up.

        Few terms are added up at once. Partial products of integer codes never are: a register
        after these words is narrower than one after the terms.
        """
        if self.has_partial_products:
            return PARTIAL_SUMS
        lanes = self.config.lanes
        return tuple(words for words in PARTIAL_SUMS if words < lanes) if lanes > 8 else ()

    @property
    def sum_is_cut(self) -> bool:
        """Whether a block's aligned sum may differ from the float32 number that it is cut to."""
        return self.sum_bits > FLOAT32.significand_bits or self.sum_leaves_float32

    @property
    def products_leave_float32(self) -> bool:
        """Whether products, or sums of them, may overflow a float32 or be subnormal in it."""
        top = self.lsb + self.exponent_span + self.product_bits
        carries = (self.config.lanes - 1).bit_length()
        return self.lsb < FLOAT32.emin or top + carries > FLOAT32.emax

    @property
    def grid(self) -> int:
        """Exponent of an aligned sum's last digit, less the largest biased exponent."""
        return self.exponent_min - self.fraction_bits

    @property
    def sum_leaves_float32(self) -> bool:
        """Whether an aligned sum may overflow a float32, or have digits below a float32's last.

        This needs operands with the exponents of float32.
        """
        low = self.grid + self.exponent_low
        top = low + self.exponent_span + self.sum_bits
        return low < FLOAT32.lsb or top > FLOAT32.emax + 1

    @property
    def block_leaves_float32(self) -> bool:
        """Whether a block's sum may overflow the float32 that it is rounded to before its scales
        multiply it."""
        rule = self.config.accumulator
        if rule.is_fused or rule.sums_exactly:
            return False
        aligns = rule.alignment_bits is not None
        return self.sum_leaves_float32 if aligns else self.products_leave_float32

    @property
    def code_bits(self) -> tuple[int, int]:
        """Bits of the codes of a and of b."""
        return self.a.code_bits, self.b.code_bits


@dataclass(frozen=True)
class FactorWidths(Widths):
    """Widths of products times their scales' significands; exponents stay the products' own."""

    @cached_property
    def largest_product(self) -> int:
        return Widths(self.config).largest_product * self.largest_factor

    @property
    def product_fraction_bits(self) -> int:
        return super().product_fraction_bits + self.factor_fraction_bits


@dataclass(frozen=True)
class FlooredWidths(Widths):
    """Widths of products whose sum and c are cut downwards, on a finer grid than the products'.

    finer_bits: fraction bits of the finer grid.
    """

    finer_bits: int

    @property
    def total_fraction_bits(self) -> int:
        """Fraction bits of the sum with c, on the finer grid."""
        return self.finer_bits

    @property
    def aligned_sum_bits(self) -> int:
        """Bits of the magnitude of the sum of a step's terms, or of one part of them."""
        return magnitude_bits(self.step_lanes * self.largest_term)

    @property
    def more_bits(self) -> int:
        """Digits that the finer grid has below the products' grid."""
        return self.finer_bits - self.fraction_bits

    @property
    def total_bits(self) -> int:
        largest = self.step_lanes * self.largest_term + 2 ** (self.fraction_bits + 1)
        return magnitude_bits(largest << self.more_bits) + 1


@dataclass(frozen=True)
class GroupWidths(Widths):
    """Widths of exact sums of groups times their scales' significands: a "product" is a group.

    The exponent of a group, and of its unit digit, is the sum of both scales' exponents.
    """

    @property
    def group(self) -> int:
        """Elements of a group."""
        return self.config.accumulator.step_terms(self.config.scale_block)

    @property
    def groups(self) -> int:
        """Groups per beat."""
        return self.config.lanes // self.group

    @property
    def step_lanes(self) -> int:
        return self.groups // self.steps

    @property
    def placed_bits(self) -> int:
        """Bits of a product on the grid of all products."""
        return magnitude_bits(self._largest_placed)

    @property
    def group_sum_bits(self) -> int:
        """Bits of the magnitude of a group's sum, in units of the products' last digit."""
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
        """Fraction digits of a sum under scales of 1."""
        return self.factor_fraction_bits - Widths(self.config).lsb

    @property
    def exponent_min(self) -> int:
        """Least sum of both scales' exponents."""
        return 2 * self.config.scale_format.emin

    @property
    def exponent_bits(self) -> int:
        """Bits of the biased sum of both scales' exponents, the exponent of E8M0's NaN included."""
        fmt = self.config.scale_format
        return magnitude_bits(2 * (fmt.emax + (fmt == E8M0) - fmt.emin))
