"""The shared scale of a block, of its largest magnitude."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, ShapeLike, Signal, Value, signed
from amaranth.lib import data

from ...model.formats import E8M0, ElementFormat
from ...model.units.quantize import QuantizeConfig
from ..arithmetic.normalize import Normalizer
from ..hierarchy import submodule
from ..pipeline import Section
from .largest import largest_values
from .widths import LaneWidths, select


def choice_values(config: QuantizeConfig) -> dict[str, ShapeLike]:
    """Which format and which scale rule a block takes, where there is a choice; its outer scale."""
    outer = {"outer": config.outer_bits} if config.divides else {}
    return {"mode": config.mode_bits, "rule": config.rule_bits, **outer}


def base_shape(config: QuantizeConfig) -> Shape:
    """The value `base`."""
    return signed(LaneWidths(config).distance_bits)


class SharedScale(Section):
    """The rule's exponent, clamped to E8M0: no logarithm, only the exponent field and a carry.

    base: what to subtract from a value's exponent field to have its distance above the element
    format's smallest exponent, under a micro-exponent of one. poisoned: the block's codes are zero.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        super().__init__(
            {**largest_values(config, 1), **choice_values(config)},
            {"scale": E8M0.bits, "base": base_shape(config), "poisoned": 1},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, widths = self.config, LaneWidths(self.config)
        mode = self.i.mode
        exponent, top, fraction = leading(m, config, self.i.largest[0])
        carry = Signal()
        code = Signal(signed(widths.distance_bits))
        rules = [self._carry(rule, top, fraction) for rule in config.scale_rules]
        chosen = rules[-1]
        for index, rule in enumerate(rules[:-1]):
            chosen = Mux(self.i.rule == index, rule, chosen)
        emax = select(config.formats, mode, lambda fmt: fmt.emax)
        largest = E8M0.nan_code - 1
        m.d.comb += [
            carry.eq(chosen),
            code.eq(exponent - emax + carry),
        ]
        clamped = Signal(E8M0.bits)
        zero = ~Value.cast(self.i.largest[0]).any()
        m.d.comb += clamped.eq(Mux((code < 0) | zero, 0, Mux(code > largest, largest, code)))
        # The exponent field of a value at the element format's smallest exponent.
        offset = widths.bias - E8M0.bias - config.micro
        m.d.comb += [
            self.o.base.eq(clamped + select(config.formats, mode, lambda fmt: fmt.emin + offset)),
            self.o.poisoned.eq(poisoned(config, self.i, mode)),
            self.o.scale.eq(Mux(self.o.poisoned, E8M0.nan_code, clamped)),
        ]
        return m

    def _carry(self, rule: str, top: Value, fraction: Value) -> Value:
        """Whether the rule's exponent is one more than that of the largest magnitude."""
        if rule == "floor":
            return Const(0, 1)
        width = len(fraction)
        mode = self.i.mode

        def even(fmt: ElementFormat) -> Value:
            """It rounds up to the next power of two: m + 1 ones."""
            return fraction[max(width - fmt.mantissa_bits - 1, 0) :].all()

        def ceil(fmt: ElementFormat) -> Value:
            """It exceeds the largest finite element at this exponent."""
            ones = fmt.largest_code % 2**fmt.mantissa_bits
            return fraction > (ones << width - fmt.mantissa_bits)

        return top & select(self.config.formats, mode, even if rule == "even" else ceil)


def leading(m: Module, config: QuantizeConfig, largest: Value) -> tuple[Value, Value, Value]:
    """(E8M0 code of the exponent, leading bit, fraction) of a block's largest magnitude.

    The leading bit is 0 only where the code is clamped to 0 whatever the fraction, or for zero.
    """
    widths = LaneWidths(config)
    field, fraction = largest[widths.compared_bits :], largest[: widths.compared_bits]
    normal = field.any()
    exponent = Signal(signed(widths.distance_bits), name="exponent")
    if widths.bias == E8M0.bias:
        # A subnormal is below 2^-126: one place further its exponent is -127, E8M0's least.
        m.d.comb += exponent.eq(field)
        if not widths.compared_bits:
            return exponent, normal, fraction
        top = normal | fraction[-1]
        return exponent, top, Mux(normal, fraction, Cat(Const(0, 1), fraction[:-1]))
    normalizer = submodule(m, "normalizer", Normalizer(widths.fraction_bits + 1))
    m.d.comb += [
        normalizer.value.eq(Cat(fraction, normal)),
        exponent.eq(Mux(normal, field, 1) - normalizer.amount + (E8M0.bias - widths.bias)),
    ]
    return exponent, normalizer.result[-1], normalizer.result[:-1]


def poisoned(config: QuantizeConfig, largest: data.View, mode: Value) -> Value:
    """Whether a value of the block, of its `largest_values`, is one that poisons it."""
    if config.nonfinite == "poison":
        return largest["nan"] | largest["infinite"]
    without_nan = select(config.formats, mode, lambda fmt: int(fmt.nan_code is None))
    return largest["nan"] & without_nan
