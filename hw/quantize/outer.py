"""The E4M3 scale of a block under an outer scale, and elements divided by both scales.

The scale is an element of E4M3: RNE of amax / (P x T), with the outer scale P and the largest
element T. The same quotients, aligner and encoder make scale and elements. Elements are divided by
P x s; both products are exact in a few bits.

Restoring division finds a quotient's significand digit by digit: each digit is one comparison with
the divisor. There is a digit per digit of the element, one more that decides the rounding, and one
bit that tells whether a remainder is left. Nothing is rounded here: the one rounding of the element
(align.py, encode.py) is that of the exact quotient. Exponents outside the element's range are
limited: above its largest the element saturates, below half its smallest it becomes zero.
"""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import E4M3, FLOAT32, FloatFormat
from ...model.units.quantize import QuantizeConfig
from ..arithmetic.shift import Normalizer
from ..hierarchy import submodule
from ..pipeline import Section
from .align import ElementAligner, quotient_base
from .encode import ElementEncoder
from .scale import largest_values, poisoned
from .widths import LaneWidths, select

EXPONENT_BITS = 11
"""Width, signed, for any difference of the exponents of two floats and a scale."""


class FloatLayout(data.StructLayout):
    """significand x 2^(exponent - bits + 1); the top digit is 1, except for zero."""

    def __init__(self, bits: int) -> None:
        super().__init__({"significand": bits, "exponent": signed(EXPONENT_BITS)})


def normalized(m: Module, fmt: FloatFormat, value: Value, name: str) -> tuple[Value, Value]:
    """(significand, exponent of its top digit) of a float's magnitude, subnormals included."""
    field = value[fmt.mantissa_bits : fmt.bits - 1]
    normalizer = submodule(m, name, Normalizer(fmt.significand_bits))
    exponent = Signal(signed(EXPONENT_BITS), name=f"{name}_exponent")
    m.d.comb += [
        normalizer.value.eq(Cat(value[: fmt.mantissa_bits], field.any())),
        exponent.eq(Mux(field.any(), field, 1) - normalizer.amount - fmt.bias),
    ]
    return normalizer.result, exponent


class QuotientLayout(data.StructLayout):
    """A quotient after some digits: `digits` so far, the first of them one, and the remainder.

    field: the exponent field in the quotient's format; 0 for zero, ones for NaN and infinities.
    remainder: below the divisor, in units of the last digit.
    """

    def __init__(self, field_bits: int, digits: int, divisor_bits: int) -> None:
        super().__init__(
            {
                "digits": digits,
                "remainder": divisor_bits,
                "field": field_bits,
                "sign": 1,
                "nan": 1,
            }
        )


class FirstDigit(wiring.Component):
    """A value over a divisor, to the first digit of `result`, which is one; combinational.

    Ports:

    - `value` in, bits of the source: a float
    - `divisor` in, `FloatLayout`: positive, normalised
    - `mode` in, `config.mode_bits`: number of the element format that the quotient is rounded to
    - `o` out, `QuotientLayout`
    """

    def __init__(self, config: QuantizeConfig, divisor_bits: int, result: str) -> None:
        self.config, self.divisor_bits, self.result = config, divisor_bits, result
        self.quotient = LaneWidths(config).quotient
        super().__init__(
            {
                "value": In(config.source.bits),
                "divisor": In(FloatLayout(divisor_bits)),
                "mode": In(config.mode_bits),
                "o": Out(QuotientLayout(self.quotient.exponent_bits, 1, divisor_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        source, quotient = self.config.source, self.quotient
        significand, exponent = normalized(m, source, self.value, "normalizer")
        dividend = Signal(self.divisor_bits)
        difference = Signal(signed(self.divisor_bits + 1))
        doubled = Signal(self.divisor_bits + 1)
        whole = Signal()
        m.d.comb += [
            dividend.eq(significand << self.divisor_bits - source.significand_bits),
            difference.eq(dividend - self.divisor.significand),
            # The first digit of a value below the divisor is that of its double.
            doubled.eq((dividend << 1) - self.divisor.significand),
            whole.eq(~difference[-1]),
            self.o.digits.eq(1),
            self.o.remainder.eq(Mux(whole, difference, doubled)),
        ]
        field = Signal(signed(EXPONENT_BITS + 1))
        most = select(self.config.formats, self.mode, lambda fmt: fmt.emax + 1 + quotient.bias)
        limited = Mux(field < 1, 1, Mux(field > most, most, field))
        ones = self.value[source.mantissa_bits : source.bits - 1].all()
        m.d.comb += [
            field.eq(exponent - self.divisor.exponent - 1 + whole + quotient.bias),
            self.o.field.eq(Mux(ones, -1, Mux(significand.any(), limited, 0))),
            self.o.sign.eq(self.value[-1]),
            self.o.nan.eq(self.value[: source.mantissa_bits].any()),
        ]
        return m


class NextDigit(wiring.Component):
    """Digit `number` of a quotient; combinational.

    Ports:

    - `i` in, `QuotientLayout`: with the earlier digits
    - `divisor` in, `divisor_bits`: significand
    - `o` out, `QuotientLayout`: with one more digit
    """

    def __init__(self, field_bits: int, divisor_bits: int, number: int) -> None:
        self.field_bits, self.divisor_bits, self.number = field_bits, divisor_bits, number
        before, after = (
            QuotientLayout(field_bits, digits, divisor_bits) for digits in (number - 1, number)
        )
        super().__init__({"i": In(before), "divisor": In(divisor_bits), "o": Out(after)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        doubled = Signal(self.divisor_bits + 1)
        difference = Signal(signed(self.divisor_bits + 2))
        digit = Signal()
        m.d.comb += [
            doubled.eq(self.i.remainder << 1),
            difference.eq(doubled - self.divisor),
            digit.eq(~difference[-1]),
            self.o.digits.eq(Cat(digit, self.i.digits)),
            self.o.remainder.eq(Mux(digit, difference, doubled)),
            *(self.o[name].eq(self.i[name]) for name in ("field", "sign", "nan")),
        ]
        return m


def as_float(config: QuantizeConfig, quotient: data.View) -> Value:
    """Bits of a quotient with all its digits; for RNE the last digit is sticky."""
    names = ("digits", "remainder", "field", "sign", "nan")
    digits, remainder, field, sign, nan = (Value.cast(quotient[name]) for name in names)
    below: Value = digits[:-1]
    if config.rounding == "nearest_even":
        below = Cat(remainder.any(), below)
    special = nan.replicate(len(below))
    fraction = Mux(field.all(), special, Mux(field.any(), below, 0))
    return Cat(fraction, field, sign)


@dataclass(frozen=True)
class Quotients:
    """`count` values over one divisor, as sections.

    config: unit whose elements the quotients are rounded to. numerators, divisor, result: names of
    the values for floats of its source, their divisor, and bits of the quotients.
    """

    config: QuantizeConfig
    count: int
    divisor_bits: int
    numerators: str
    divisor: str
    result: str

    def state(self, digits: int) -> dict[str, data.ArrayLayout]:
        """Values after digit `digits`: for the next digit, or the finished quotients after the
        last.
        """
        quotient = LaneWidths(self.config).quotient
        if digits == self.config.quotient_digits:
            return {self.result: data.ArrayLayout(quotient.bits, self.count)}
        layout = QuotientLayout(quotient.exponent_bits, digits, self.divisor_bits)
        return {f"{self.result}_quotients": data.ArrayLayout(layout, self.count)}


class Divide(Section):
    """One more digit of quotients."""

    def __init__(self, quotients: Quotients, number: int) -> None:
        self.quotients, self.number = quotients, number
        config, divisor_bits = quotients.config, quotients.divisor_bits
        reads = {quotients.divisor: FloatLayout(divisor_bits)}
        if number == 1:
            values = data.ArrayLayout(config.source.bits, quotients.count)
            reads |= {quotients.numerators: values, "mode": config.mode_bits}
        else:
            reads |= quotients.state(number - 1)
        super().__init__(reads, quotients.state(number))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        quotients, number = self.quotients, self.number
        config, divisor = quotients.config, self.i[quotients.divisor]
        (written,) = quotients.state(number)
        for index in range(quotients.count):
            if number == 1:
                first = FirstDigit(config, quotients.divisor_bits, quotients.result)
                lane = submodule(m, f"lane{index}", first)
                m.d.comb += [
                    lane.value.eq(self.i[quotients.numerators][index]),
                    lane.divisor.eq(divisor),
                ]
                if config.mode_bits:
                    m.d.comb += lane.mode.eq(self.i.mode)
            else:
                (read,) = quotients.state(number - 1)
                field_bits = LaneWidths(config).quotient.exponent_bits
                digit = NextDigit(field_bits, quotients.divisor_bits, number)
                lane = submodule(m, f"lane{index}", digit)
                m.d.comb += [
                    lane.i.eq(self.i[read][index]),
                    lane.divisor.eq(divisor.significand),
                ]
            last = number == config.quotient_digits
            m.d.comb += self.o[written][index].eq(as_float(config, lane.o) if last else lane.o)
        return m


DIVISOR_BITS = FLOAT32.significand_bits + E4M3.significand_bits
"""Width of the product of both scales' significands."""


def scale_config(config: QuantizeConfig) -> QuantizeConfig:
    """Unit whose element is the scale."""
    return QuantizeConfig(E4M3, config.block, config.source, scales=config.scales)


def limit_bits(config: QuantizeConfig) -> int:
    """Width of the product of the outer scale's and the largest element's significands."""
    return FLOAT32.significand_bits + LaneWidths(config).significand_bits


def _product(m: Module, a: Value, b: Value, exponent: Value, out: data.View) -> None:
    """Write to `out` the product of two significands with their top digits set, in [1, 4),
    normalised.

    exponent: exponent of the product of the two powers of two.
    """
    product = Signal(len(a) + len(b), name="exact_product")
    carry = product[-1]
    m.d.comb += [
        product.eq(a * b),
        out["significand"].eq(Mux(carry, product, product << 1)),
        out["exponent"].eq(exponent + carry),
    ]


class Limit(Section):
    """P x T, the largest magnitude under the scale 1; the outer scale P, normalised.

    limit: P x T. factor: P. amax: the largest magnitude. poisoned: the block's codes are zero,
    because of a value in it, or because the outer scale is not a positive finite number.
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
    """One more digit of amax / (P x T)."""

    def __init__(self, config: QuantizeConfig, number: int) -> None:
        super().__init__(_scale_quotient(config), number)


class ElementDigit(Divide):
    """One more digit of every value / (P x s)."""

    def __init__(self, config: QuantizeConfig, number: int) -> None:
        super().__init__(_element_quotients(config), number)


class ScaleAligner(ElementAligner):
    """Aligner of a scale."""


class ScaleEncoder(ElementEncoder):
    """Encoder of a scale."""


class OuterProduct(Section):
    """The scale s, amax / (P x T) rounded to E4M3, at least its smallest; P x s.

    scale: code of s. scaling: P x s.
    """

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
