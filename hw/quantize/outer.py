"""The E4M3 scale of a block under an outer scale, and the divisor of its elements.

The scale is an element of E4M3 itself: RNE of amax / (P x T), with P the outer scale and T the
largest element. So it comes from the same quotients, aligner and encoder as elements do; the
elements are then divided by P x s. Both products are exact in a few bits.
"""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data

from ...model.formats import E4M3, FLOAT32
from ...model.units.quantize import QuantizeConfig
from ..hierarchy import submodule
from ..pipeline import Section
from .align import ElementAligner, quotient_base
from .divide import Divide, FloatLayout, Quotients, normalized
from .encode import ElementEncoder
from .largest import largest_values
from .scale import poisoned
from .widths import LaneWidths, select

DIVISOR_BITS = FLOAT32.significand_bits + E4M3.significand_bits
"""Of the product of both scales' significands."""


def scale_config(config: QuantizeConfig) -> QuantizeConfig:
    """A unit whose element is the scale."""
    return QuantizeConfig(E4M3, config.block, config.source, scales=config.scales)


def limit_bits(config: QuantizeConfig) -> int:
    """Of the product of the outer scale's and the largest element's significands."""
    return FLOAT32.significand_bits + LaneWidths(config).significand_bits


def _product(m: Module, a: Value, b: Value, exponent: Value, out: data.View) -> None:
    """`out` is the product of two significands with their top digits set, in [1, 4), normalised.

    exponent: of the product of two powers of two.
    """
    product = Signal(len(a) + len(b), name="exact_product")
    carry = product[-1]
    m.d.comb += [
        product.eq(a * b),
        out["significand"].eq(Mux(carry, product, product << 1)),
        out["exponent"].eq(exponent + carry),
    ]


class Limit(Section):
    """P x T: the magnitude that the scale 1 has room for; the outer scale P, normalised.

    poisoned: the block's codes are zero, for a value in it, or an outer scale that is no positive
    finite number.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        largest = largest_values(config, 1)
        super().__init__(
            {**largest, "mode": config.mode_bits, "outer": FLOAT32.bits},
            {
                "amax": data.ArrayLayout(config.source.bits, 1),
                "limit": FloatLayout(limit_bits(config)),
                "factor": FloatLayout(FLOAT32.significand_bits),
                "poisoned": 1,
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, outer = self.config, self.i.outer
        mode = self.i.mode if config.mode_bits else Const(0, 0)
        bits = LaneWidths(config).significand_bits
        significand, exponent = normalized(m, FLOAT32, outer, "outer_normalizer")
        largest = Signal(bits)
        emax = select(config.formats, mode, lambda fmt: fmt.emax)
        top = 2 ** (bits - 1)
        m.d.comb += [
            self.o.amax[0].eq(self.i.largest[0]),
            self.o.factor.significand.eq(significand),
            self.o.factor.exponent.eq(exponent),
            largest.eq(
                select(config.formats, mode, lambda f: int(f.largest_finite / 2.0**f.emax * top))
            ),
        ]
        _product(m, significand, largest, exponent + emax, self.o.limit)
        magnitude = outer[:-1]
        finite = ~outer[FLOAT32.mantissa_bits : -1].all()
        good = finite & magnitude.any() & ~outer[-1]
        m.d.comb += self.o.poisoned.eq(poisoned(config, self.i, mode) | ~good)
        return m


def _scale_quotient(config: QuantizeConfig) -> Quotients:
    return Quotients(scale_config(config), 1, limit_bits(config), "amax", "limit", "ratio")


def _element_quotients(config: QuantizeConfig) -> Quotients:
    return Quotients(config, config.lanes, DIVISOR_BITS, "values", "scaling", "values")


class ScaleDigit(Divide):
    """Digit `number` of amax / (P x T)."""

    def __init__(self, config: QuantizeConfig, number: int) -> None:
        super().__init__(_scale_quotient(config), number)


class ElementDigit(Divide):
    """Digit `number` of every value / (P x s)."""

    def __init__(self, config: QuantizeConfig, number: int) -> None:
        super().__init__(_element_quotients(config), number)


class ScaleAligner(ElementAligner):
    """The aligner of a scale."""


class ScaleEncoder(ElementEncoder):
    """The encoder of a scale."""


class OuterProduct(Section):
    """The scale s: amax / (P x T) rounded to E4M3, at least its smallest; and P x s."""

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        quotient = _scale_quotient(config)
        super().__init__(
            {
                **quotient.state(quotient.config.quotient_digits),
                "factor": FloatLayout(FLOAT32.significand_bits),
                "poisoned": 1,
            },
            {"scale": config.scale_bits, "scaling": FloatLayout(DIVISOR_BITS)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = scale_config(self.config)
        aligner = submodule(m, "aligner", ScaleAligner(config))
        encoder = submodule(m, "encoder", ScaleEncoder(config))
        code = Signal(E4M3.bits)
        m.d.comb += [
            aligner.value.eq(self.i.ratio[0]),
            aligner.base.eq(quotient_base(config, aligner.mode)),
            encoder.i.eq(aligner.o),
            code.eq(Mux(encoder.code.any(), encoder.code, 1)),
            self.o.scale.eq(Mux(self.i.poisoned, E4M3.nan_code, code)),
        ]
        significand, exponent = normalized(m, E4M3, code, "normalizer")
        factor = self.i.factor
        _product(m, factor.significand, significand, factor.exponent + exponent, self.o.scaling)
        return m
