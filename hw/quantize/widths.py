"""Widths of the quantiser, and selection among its formats."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from amaranth.hdl import Value, ValueLike
from amaranth.utils import bits_for

from ...model.formats import E8M0, ElementFormat, FloatFormat, Specials
from ...model.lfsr import WORD_BITS
from ...model.units.quantize import QuantizeConfig
from ..arithmetic.select import select_by_mode


def largest_error(config: QuantizeConfig, fmt: ElementFormat) -> int:
    """Bound of the difference between a value and its element in `fmt`, both cut to the steps of
    `select` digits (section 6 of docs/numerics.md).

    The largest magnitude of a block lies between 2^e and 2^(e + 1): 2^digits to 2^(digits + 1)
    steps.
    """
    assert config.select is not None
    one = 2**config.select
    # Excess over the largest element if the scale does not carry, both cut.
    saturated = 2 * one - 1 - int(fmt.largest_finite / 2.0**fmt.emax * one)
    # Places that e may have among the element's exponents.
    exponents = [fmt.emax]
    if config.scale_rules != ("floor",):  # the scale is twice as large
        exponents.append(fmt.emax - 1)
    least = config.source.lsb - E8M0.emin
    if least < fmt.emax:  # no scale is as small as the rule's
        exponents.append(max(least, 0))
    spacing = max(2.0 ** (max(e, fmt.emin) - fmt.mantissa_bits - e) for e in exponents)
    part = 0.5 if config.rounding == "nearest_even" else 1.0
    return max(saturated, ceil(part * spacing * one))


STICKY_BITS = 2  # a guard bit and a sticky bit


@dataclass(frozen=True)
class LaneWidths:
    """Widths in a lane of the quantiser.

    A magnitude is rounded on the grid of the format with most mantissa bits: `significand_bits`
    above the point, `discarded_bits` below it. A format with fewer mantissa bits uses the low end
    of them.
    """

    config: QuantizeConfig

    @property
    def magnitude_bits(self) -> int:
        """Width of a value without its sign."""
        return self.config.source.bits - 1

    @property
    def fraction_bits(self) -> int:
        return self.config.source.mantissa_bits

    @property
    def compared_bits(self) -> int:
        """Number of upper fraction bits that the scale rules compare.

        The last bit is sticky for the rule `ceil`, which also asks for digits below. A source whose
        subnormals E8M0 does not clamp (float16) needs all fraction bits.
        """
        if self.bias != E8M0.bias or self.config.divides:
            return self.fraction_bits
        rules = set(self.config.scale_rules)
        if rules == {"floor"}:
            return 0
        if rules <= {"floor", "twice"}:
            return 1  # the digit that tells a subnormal's exponent of -127
        # m + 1 of the significand, one more for subnormals, which are looked at one place further.
        return min(self.mantissa_bits + 2 + ("ceil" in rules), self.fraction_bits)

    @property
    def bias(self) -> int:
        """Exponent field of the source minus exponent."""
        return self.config.source.bias

    @property
    def significand_bits(self) -> int:
        """Width of a significand on the common grid."""
        return self.mantissa_bits + 1

    @property
    def mantissa_bits(self) -> int:
        return max(fmt.mantissa_bits for fmt in self.config.formats)

    @property
    def discarded_bits(self) -> int:
        """Number of bits below the point that decide the rounding."""
        if self.config.rounding == "toward_zero":
            return 0
        return WORD_BITS if self.config.is_stochastic else STICKY_BITS

    @property
    def field_bits(self) -> int:
        """Width of an element's exponent above its format's smallest."""
        above = self.config.divides or self.config.micro  # one more, which saturates or moves down
        return bits_for(max(fmt.emax - fmt.emin for fmt in self.config.formats) + above)

    @property
    def quotient(self) -> FloatFormat:
        """Float of a value over its scales, with the digits that decide its element.

        Its exponents reach from a quarter of the least element to one above the largest.
        """
        formats, digits = self.config.formats, self.config.quotient_digits
        low = min(fmt.emin - fmt.mantissa_bits for fmt in formats) - STICKY_BITS
        high = max(fmt.emax for fmt in formats) + 1
        bits = next(n for n in range(2, 11) if 2 ** (n - 1) - 1 >= max(high, 1 - low))
        sticky = self.config.rounding == "nearest_even"
        return FloatFormat("quotient", bits, digits - 1 + sticky, Specials.IEEE)

    @property
    def aligned(self) -> FloatFormat:
        """Float that is moved onto the grid of its element."""
        return self.quotient if self.config.divides else self.config.source

    @property
    def left_bits(self) -> int:
        """Width of the largest left shift: a subnormal value into a normal element."""
        if self.config.divides:
            return 0  # quotients are normal
        source = self.config.source
        # The least exponent of a shared scale, E8M0's or that of the source's least value.
        floor = E8M0.exponent_range[0]
        least = min(max(floor, source.lsb - fmt.emax) + fmt.emin for fmt in self.config.formats)
        return bits_for(min(source.emin - least + self.config.micro, source.mantissa_bits))

    @property
    def distance_bits(self) -> int:
        """Width, with sign, of an exponent field less the block's base."""
        return 10


@dataclass(frozen=True)
class ErrorWidths:
    """Widths of the errors by which a unit chooses a format (`select` digits, section 6 of
    docs/numerics.md).

    Errors are whole numbers of steps 2^(e - digits); e is the exponent of the largest value.
    """

    config: QuantizeConfig

    @property
    def digits(self) -> int:
        """Number of digits below 2^e."""
        assert self.config.select is not None
        return self.config.select

    @property
    def given_bits(self) -> int:
        """Width of a value's magnitude, below 2^(e + 1)."""
        return self.digits + 1

    @property
    def subnormal_places(self) -> int:
        """Places above a value's significand, for blocks whose largest value is subnormal; 0 unless
        e may be below -127.
        """
        source = self.config.source
        return 0 if source.bias == E8M0.bias else source.mantissa_bits - 1

    @property
    def given_width(self) -> int:
        """Width of a value's significand with its cut digits."""
        return self.given_bits + self.subnormal_places

    @property
    def made_bits(self) -> int:
        """Width of an element's magnitude under its scale, up to 2^(e + 1)."""
        return self.digits + 2

    def above_bits(self, fmt: ElementFormat) -> int:
        """Width of the distance of a scale's exponent below e + 1."""
        return bits_for(fmt.emax + 1)

    def spare_places(self, fmt: ElementFormat) -> int:
        """Places above an element's significand.

        If no scale is as small as the rule's, its unit digit may be worth more than 2^(e + 1), and
        be zero.
        """
        return max(0, fmt.emin - 1)

    def made_width(self, fmt: ElementFormat) -> int:
        """Width of an element's significand with its cut digits."""
        return self.made_bits + self.spare_places(fmt)

    def amount_bits(self, fmt: ElementFormat) -> int:
        """Width of the right shift of a significand."""
        return bits_for(fmt.emax + 1 + self.spare_places(fmt) - fmt.emin)

    def error_bits(self, fmt: ElementFormat) -> int:
        """Width of a difference."""
        return bits_for(largest_error(self.config, fmt))

    def sum_bits(self, fmt: ElementFormat, count: int) -> int:
        """Width of the sum of the squares of `count` differences."""
        return bits_for(count * largest_error(self.config, fmt) ** 2)


def select(
    formats: tuple[ElementFormat, ...],
    mode: Value,
    value: Callable[[ElementFormat], ValueLike],
) -> ValueLike:
    """`value` of the format that `mode` selects. Equal integers share a branch."""
    values = [value(fmt) for fmt in formats]
    keys = [made if isinstance(made, int) else f"format {i}" for i, made in enumerate(values)]
    return select_by_mode(mode, keys, dict(zip(keys, values, strict=True)).__getitem__)
