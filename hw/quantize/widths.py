"""Widths of the quantiser, and what its formats have in common."""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Mux, Value, ValueLike
from amaranth.utils import bits_for

from ...model.formats import E8M0, ElementFormat
from ...model.lfsr import WORD_BITS
from ...model.units.quantize import QuantizeConfig

STICKY_BITS = 2  # a guard bit and a sticky bit


@dataclass(frozen=True)
class LaneWidths:
    """Bits of what a lane of the quantiser computes with.

    A magnitude is rounded on the grid of the format with most mantissa bits: `significand_bits`
    above the point, `discarded_bits` below it. A format with fewer mantissa bits takes the low end
    of them.
    """

    config: QuantizeConfig

    @property
    def magnitude_bits(self) -> int:
        """A value without its sign."""
        return self.config.source.bits - 1

    @property
    def fraction_bits(self) -> int:
        return self.config.source.mantissa_bits

    @property
    def compared_bits(self) -> int:
        """Upper fraction bits that the scale rules look at; a magnitude is compared by no more.

        The rule `ceil` also asks whether there is anything below: its last bit is a sticky one. An
        exponent whose subnormals E8M0 does not clamp (float16) needs all of them.
        """
        if self.bias != E8M0.bias:
            return self.fraction_bits
        rules = set(self.config.scale_rules)
        if rules == {"floor"}:
            return 0
        # m + 1 of the significand, one more for subnormals, which are looked at one place further.
        return min(self.mantissa_bits + 2 + ("ceil" in rules), self.fraction_bits)

    @property
    def bias(self) -> int:
        """Exponent field of the source minus exponent."""
        return self.config.source.bias

    @property
    def significand_bits(self) -> int:
        """A significand on the common grid."""
        return self.mantissa_bits + 1

    @property
    def mantissa_bits(self) -> int:
        return max(fmt.mantissa_bits for fmt in self.config.formats)

    @property
    def discarded_bits(self) -> int:
        """Bits below the point that decide the rounding."""
        if self.config.rounding == "toward_zero":
            return 0
        return WORD_BITS if self.config.is_stochastic else STICKY_BITS

    @property
    def field_bits(self) -> int:
        """An element's exponent above its format's smallest."""
        return bits_for(max(fmt.emax - fmt.emin for fmt in self.config.formats))

    @property
    def left_bits(self) -> int:
        """Bits of the largest left shift: that of a subnormal value into a normal element."""
        source = self.config.source
        # The least exponent of a shared scale, E8M0's or that of the source's least value.
        floor = E8M0.exponent_range[0]
        least = min(max(floor, source.lsb - fmt.emax) + fmt.emin for fmt in self.config.formats)
        return bits_for(min(source.emin - least, source.mantissa_bits))

    @property
    def distance_bits(self) -> int:
        """Width, with sign, of an exponent field less the block's base."""
        return 10


def select(
    formats: tuple[ElementFormat, ...],
    mode: Value,
    value: Callable[[ElementFormat], ValueLike],
) -> ValueLike:
    """`value` of the format that `mode` selects: a chain of two-way choices, equal ones merged."""
    groups: dict[object, list[int]] = {}
    values: dict[object, ValueLike] = {}
    for index, fmt in enumerate(formats):
        made = value(fmt)
        key = made if isinstance(made, int) else f"format {index}"
        groups.setdefault(key, []).append(index)
        values[key] = made
    *others, last = groups
    chosen = values[last]
    for key in others:
        chosen = Mux(mode.matches(*groups[key]), values[key], chosen)
    return chosen
