"""The format of a block: errors of each, their squares and sums, and the least."""

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import E8M0, ElementFormat, IntegerFormat
from ...model.units.quantize import QuantizeConfig
from ..arithmetic.shift import ShiftRight
from ..arithmetic.square import Square
from ..hierarchy import submodule
from ..pipeline import Section
from .each import alike, at_top, given_shape, numbered, skip_bits
from .encode import codes_shape
from .errors import largest_error
from .widths import ErrorWidths


class ElementError(wiring.Component):
    """How far an element is from its value, in steps that both are cut to; combinational.

    Ports:

    - `code` in, the element's
    - `above` in, `ErrorWidths.above_bits`: of the block's scale
    - `given` in, `ErrorWidths.given_bits`: the magnitude of the value
    - `skip` in, 1 bit: there is no error; where NaN and infinities pass
    - `error` out, `ErrorWidths.error_bits`
    """

    def __init__(self, config: QuantizeConfig, fmt: ElementFormat) -> None:
        self.config, self.fmt, self.of = config, fmt, fmt.name
        widths = ErrorWidths(config)
        super().__init__(
            {
                "code": In(fmt.bits),
                "above": In(widths.above_bits(fmt)),
                "given": In(widths.given_bits),
                "skip": In(int(skip_bits(config) > 0)),
                "error": Out(widths.error_bits(fmt)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fmt, widths = self.fmt, ErrorWidths(self.config)
        if isinstance(fmt, IntegerFormat):
            digits, field, normal = self.code[:-1], Const(0, 1), Const(0, 0)
            if not fmt.sign_magnitude:
                digits = Mux(self.code[-1], -self.code, self.code)[: fmt.bits - 1]
        else:
            digits, field = self.code[: fmt.mantissa_bits], self.code[fmt.mantissa_bits : -1]
            normal = field.any()
        width = widths.made_width(fmt)
        amount = Signal(widths.amount_bits(fmt))
        shift = submodule(m, "shift", ShiftRight(width, len(amount)))
        made, exceeds = Signal(widths.made_bits), Signal()
        difference = Signal(widths.error_bits(fmt))
        m.d.comb += [
            amount.eq(self.above + (widths.spare_places(fmt) - fmt.emin) - (field - normal)),
            shift.value.eq(at_top(Cat(digits, normal), width)),
            shift.amount.eq(amount),
            made.eq(shift.result),
            exceeds.eq(made > self.given),
            difference.eq(Mux(exceeds, made - self.given, self.given - made)),
            self.error.eq(Mux(self.skip, 0, difference) if skip_bits(self.config) else difference),
        ]
        return m


class FormatErrors(Section):
    """An error for each lane and format."""

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        widths = ErrorWidths(config)
        above = {i: widths.above_bits(fmt) for i, fmt in enumerate(config.formats)}
        super().__init__(
            {
                **alike(config, "codes", codes_shape(config)),
                **numbered(config, "above", above),
                "given": given_shape(config),
                "skip": skip_bits(config),
            },
            errors(config),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        for number, fmt in enumerate(config.formats):
            for index in range(config.lanes):
                lane = submodule(m, f"format{number}_lane{index}", ElementError(config, fmt))
                m.d.comb += [
                    lane.code.eq(self.i[f"codes{number}"][index]),
                    lane.above.eq(self.i[f"above{number}"]),
                    lane.given.eq(self.i.given[index]),
                    self.o[f"errors{number}"][index].eq(lane.error),
                ]
                if skip_bits(config):
                    m.d.comb += lane.skip.eq(self.i.skip[index])
        return m


def errors(config: QuantizeConfig) -> dict[str, ShapeLike]:
    """The values `errors0`, ...: those of a format in each lane."""
    widths = ErrorWidths(config)
    shapes = {
        i: data.ArrayLayout(widths.error_bits(fmt), config.lanes)
        for i, fmt in enumerate(config.formats)
    }
    return numbered(config, "errors", shapes)


def sums(config: QuantizeConfig, count: int) -> dict[str, ShapeLike]:
    """The values `sums0`, ...: squares of a format's errors, added up in `count` equal parts."""
    widths = ErrorWidths(config)
    shapes = {
        i: data.ArrayLayout(widths.sum_bits(fmt, config.lanes // count), count)
        for i, fmt in enumerate(config.formats)
    }
    return numbered(config, "sums", shapes)


class Squares(Section):
    """The square of each error."""

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        super().__init__(errors(config), sums(config, config.lanes))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for number, fmt in enumerate(self.config.formats):
            largest = largest_error(self.config, fmt)
            for index in range(self.config.lanes):
                lane = submodule(m, f"format{number}_lane{index}", Square(largest))
                m.d.comb += [
                    lane.value.eq(self.i[f"errors{number}"][index]),
                    self.o[f"sums{number}"][index].eq(lane.square),
                ]
        return m


class SumOfPairs(Section):
    """Level `number` of the adder tree of each format: sums to half as many."""

    def __init__(self, config: QuantizeConfig, number: int) -> None:
        self.config, self.count = config, config.lanes >> number
        super().__init__(sums(config, 2 * self.count), sums(config, self.count))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in self.reads:
            for index in range(self.count):
                a, b = self.i[name][2 * index], self.i[name][2 * index + 1]
                m.d.comb += self.o[name][index].eq(a + b)
        return m


class ChooseFormat(Section):
    """The format of the least sum, the first of equals: its number, codes and scale."""

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        super().__init__(
            {
                **sums(config, 1),
                **alike(config, "codes", codes_shape(config)),
                **alike(config, "scale", E8M0.bits),
            },
            {"mode": config.selector_bits, "codes": codes_shape(config), "scale": E8M0.bits},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        least, chosen = self.i.sums0[0], {"codes": self.i.codes0, "scale": self.i.scale0}
        chosen = {"mode": Const(0, self.config.selector_bits), **chosen}
        for number in range(1, len(self.config.formats)):
            less = Signal(name=f"less{number}")
            error = self.i[f"sums{number}"][0]
            m.d.comb += less.eq(error < least)
            own = {"codes": self.i[f"codes{number}"], "scale": self.i[f"scale{number}"]}
            own["mode"] = number
            chosen = {name: Mux(less, own[name], value) for name, value in chosen.items()}
            least = Mux(less, error, least)
        m.d.comb += [self.o[name].eq(value) for name, value in chosen.items()]
        return m
