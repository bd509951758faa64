"""Quotients, digit by digit: floats of as many digits as decide how their elements are rounded.

A quotient's significand is found by restoring division: each digit is one comparison with the
divisor. There are as many digits as its element has, one more that decides the rounding, and the
remainder, of which only matters whether there is any. So nothing is rounded here, and the one
rounding of the element (align.py, encode.py) is that of the exact quotient. Exponents beyond those
that an element tells apart are limited: above its largest it saturates, below half its smallest it
is rounded to zero.
"""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import FloatFormat
from ...model.units.quantize import QuantizeConfig
from ..arithmetic.normalize import Normalizer
from ..hierarchy import submodule
from ..pipeline import Section
from .widths import LaneWidths, select

EXPONENT_BITS = 11
"""With sign: of any difference of the exponents of two floats and a scale."""


class FloatLayout(data.StructLayout):
    """significand x 2^(exponent - bits + 1), its top digit 1 unless it is zero."""

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
    """A quotient on its way: `digits` so far, the first of them one, and what remains.

    field: the exponent field of the quotient's format; 0 for zero, ones for what is not finite.
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
    - `mode` in, `config.mode_bits`: the element format that the quotient is rounded to
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
            # Of a value below the divisor the first digit is that of its double.
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

    - `i` in, `QuotientLayout`: with the digits before
    - `divisor` in, `divisor_bits`: significand
    - `o` out, `QuotientLayout`: with one more
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
    """The bits of a quotient with all its digits, of which the last is sticky to nearest even."""
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

    config: the unit whose elements the quotients are rounded to. numerators, divisor, result: names
    of values: floats of its source, their divisor, and bits of the quotients.
    """

    config: QuantizeConfig
    count: int
    divisor_bits: int
    numerators: str
    divisor: str
    result: str

    def state(self, digits: int) -> dict[str, data.ArrayLayout]:
        """What goes on from digit `digits` to the next one, or comes out behind the last."""
        quotient = LaneWidths(self.config).quotient
        if digits == self.config.quotient_digits:
            return {self.result: data.ArrayLayout(quotient.bits, self.count)}
        layout = QuotientLayout(quotient.exponent_bits, digits, self.divisor_bits)
        return {f"{self.result}_quotients": data.ArrayLayout(layout, self.count)}


class Divide(Section):
    """Digit `number` of quotients."""

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
