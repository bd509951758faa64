"""A unit that chooses a block's format: what it makes per format, and the least error.

Values of one format carry its number: `scale0`, `elements0` and `codes0` belong to the first.
"""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import E8M0, ElementFormat, IntegerFormat
from ...model.lfsr import WORD_BITS
from ...model.units.quantize import QuantizeConfig
from ..arithmetic.multiply import Square
from ..arithmetic.shift import ShiftRight
from ..hierarchy import submodule
from ..pipeline import Section
from .align import AlignElements, elements_shape
from .encode import EncodeElements, codes_shape
from .scale import SharedScale, base_shape, largest_values, leading
from .widths import ErrorWidths, LaneWidths, largest_error


def numbered(
    config: QuantizeConfig, name: str, shapes: Mapping[int, ShapeLike]
) -> dict[str, ShapeLike]:
    """A value per format, numbered by format."""
    return {f"{name}{index}": shapes[index] for index in range(len(config.formats))}


def alike(config: QuantizeConfig, name: str, shape: ShapeLike) -> dict[str, ShapeLike]:
    """A value per format, all with one shape."""
    return numbered(config, name, dict.fromkeys(range(len(config.formats)), shape))


def given_shape(config: QuantizeConfig) -> data.ArrayLayout:
    """The value `given`: the cut magnitude per lane."""
    return data.ArrayLayout(ErrorWidths(config).given_bits, config.lanes)


class ScaleEach(Section):
    """Scale of each format, and values that errors are measured by.

    exponent: the E8M0 code of 2^e; e is the exponent of the largest magnitude, at least -127.
    above: distance of the exponent of a format's scale below e + 1. poisoned: for every format.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        above = [ErrorWidths(config).above_bits(fmt) for fmt in config.formats]
        super().__init__(
            {**largest_values(config, 1), "rule": config.rule_bits},
            {
                **alike(config, "scale", E8M0.bits),
                **alike(config, "base", base_shape(config)),
                **numbered(config, "above", dict(enumerate(above))),
                "exponent": E8M0.bits,
                "poisoned": 1,
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        exponent, *_ = leading(m, config, self.i.largest[0])
        parts = []
        for index in range(len(config.formats)):
            part = submodule(m, f"format{index}", SharedScale(config.with_mode))
            m.d.comb += [
                *(part.i[name].eq(self.i[name]) for name in self.reads),
                part.i.mode.eq(index),
                self.o[f"base{index}"].eq(part.o.base),
                self.o[f"above{index}"].eq(exponent + 1 - part.o.scale),
            ]
            parts.append(part)
        m.d.comb += [
            self.o.exponent.eq(exponent),
            self.o.poisoned.eq(Cat(part.o.poisoned for part in parts).any()),
        ]
        for index, part in enumerate(parts):
            scale = Mux(self.o.poisoned, E8M0.nan_code, part.o.scale)
            m.d.comb += self.o[f"scale{index}"].eq(scale)
        return m


class CutMagnitude(wiring.Component):
    """A value in steps of the block's errors, cut toward zero; combinational.

    Ports:

    - `value` in, bits of the source: a float
    - `exponent` in, 8 bits: the E8M0 code of the block's exponent
    - `poisoned` in, 1 bit: the block's values count as zero
    - `special` out, 1 bit: NaN or an infinity
    - `magnitude` out, `ErrorWidths.given_bits`: 0 with `special`
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "value": In(config.source.bits),
                "exponent": In(E8M0.bits),
                "poisoned": In(1),
                "special": Out(1),
                "magnitude": Out(ErrorWidths(config).given_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lane, widths = LaneWidths(self.config), ErrorWidths(self.config)
        fraction = self.value[: lane.fraction_bits]
        field = self.value[lane.fraction_bits : -1]
        normal = field.any()
        # A subnormal value is one place up, so that its exponent field of 0 counts as it stands.
        significand = Mux(normal, Cat(fraction, normal), Cat(Const(0, 1), fraction))
        # The E8M0 code of the exponent of a value whose field is 0, less the places that are kept
        # for a block whose largest value is subnormal.
        lowest = E8M0.bias - lane.bias - widths.subnormal_places
        amount = Signal(signed(lane.distance_bits))
        shift = submodule(m, "shift", ShiftRight(widths.given_width, len(amount) - 1))
        m.d.comb += [
            self.special.eq(field.all()),
            amount.eq(self.exponent - field - lowest),
            shift.value.eq(at_top(significand, widths.given_width)),
            shift.amount.eq(amount[:-1]),
            self.magnitude.eq(Mux(self.special | self.poisoned, 0, shift.result)),
        ]
        return m


def at_top(significand: Value, width: int) -> Value:
    """A significand at the upper end of a word of this width, its excess digits cut."""
    below = width - len(significand)
    return significand[-below:] if below < 0 else Cat(Const(0, below), significand)


class AlignEach(Section):
    """Every value on the grid of each format, and cut to the steps of errors.

    skip: a lane has no error, because it holds a NaN or an infinity that passes.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        values = data.ArrayLayout(config.source.bits, config.lanes)
        elements = [elements_shape(one) for one in config.alternatives]
        super().__init__(
            {
                "values": values,
                **alike(config, "base", base_shape(config)),
                "exponent": E8M0.bits,
                "poisoned": 1,
            },
            {
                **numbered(config, "elements", dict(enumerate(elements))),
                "given": given_shape(config),
                "skip": skip_bits(config),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        for index, one in enumerate(config.alternatives):
            part = submodule(m, f"format{index}", AlignElements(one, one.formats_text))
            m.d.comb += [
                part.i["values"].eq(self.i["values"]),
                part.i.base.eq(self.i[f"base{index}"]),
                self.o[f"elements{index}"].eq(part.o.elements),
            ]
        special = []
        for index in range(config.lanes):
            lane = submodule(m, f"given{index}", CutMagnitude(config))
            m.d.comb += [
                lane.value.eq(self.i["values"][index]),
                lane.exponent.eq(self.i.exponent),
                lane.poisoned.eq(self.i.poisoned),
                self.o.given[index].eq(lane.magnitude),
            ]
            special.append(lane.special)
        if skip_bits(config):
            m.d.comb += self.o.skip.eq(Cat(special))
        return m


def skip_bits(config: QuantizeConfig) -> int:
    """Width of `skip`: one bit per lane if NaN and infinities pass."""
    return config.lanes if config.nonfinite == "element" else 0


class EncodeEach(Section):
    """Codes of each format, rounded by the same random words if there are any."""

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        word_bits = WORD_BITS if config.is_stochastic else 0
        elements = [elements_shape(one) for one in config.alternatives]
        super().__init__(
            {
                **numbered(config, "elements", dict(enumerate(elements))),
                "random": data.ArrayLayout(word_bits, config.lanes),
                "poisoned": 1,
            },
            alike(config, "codes", codes_shape(config)),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index, one in enumerate(self.config.alternatives):
            part = submodule(m, f"format{index}", EncodeElements(one, one.formats_text))
            m.d.comb += [
                part.i.elements.eq(self.i[f"elements{index}"]),
                part.i.poisoned.eq(self.i.poisoned),
                self.o[f"codes{index}"].eq(part.o.codes),
            ]
            if self.config.is_stochastic:
                m.d.comb += part.i.random.eq(self.i.random)
        return m


class ElementError(wiring.Component):
    """Distance of an element from its value, both cut to steps; combinational.

    Ports:

    - `code` in, bits of the format: the element
    - `above` in, `ErrorWidths.above_bits`: distance of the exponent of the scale below e + 1
    - `given` in, `ErrorWidths.given_bits`: the magnitude of the value
    - `skip` in, 1 bit: the error is zero; no such port unless NaN and infinities pass
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
        made, exceeds = Signal(widths.made_bits), Signal(name="exceeds")
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
    """An error per lane and format."""

    verilog_name = "errors"

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
    """Values `errors0`, ...: errors of a format in each lane."""
    widths = ErrorWidths(config)
    shapes = {
        i: data.ArrayLayout(widths.error_bits(fmt), config.lanes)
        for i, fmt in enumerate(config.formats)
    }
    return numbered(config, "errors", shapes)


def sums(config: QuantizeConfig, count: int) -> dict[str, ShapeLike]:
    """Values `sums0`, ...: squares of a format's errors, added up in `count` equal parts."""
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
    """A level of the adder tree of each format: sums to half as many sums."""

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
    """Format of the least sum, the first among equals: its number, codes and scale.

    mode: number of the format. codes: lane 0 lowest. scale: code of the scale.
    """

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
