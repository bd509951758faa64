"""The largest magnitude of a block, and whether it holds NaN or infinities."""

from amaranth.hdl import Cat, Module, Mux, ShapeLike, Value
from amaranth.lib import data

from ...model.units.quantize import QuantizeConfig
from ..pipeline import Section
from .widths import LaneWidths


def beat_values(config: QuantizeConfig) -> dict[str, ShapeLike]:
    """The values of a beat and their random words, where these come in a stream."""
    values: dict[str, ShapeLike] = {
        "values": data.ArrayLayout(config.source.bits, config.lanes),
    }
    if config.word_bits:
        values["random"] = data.ArrayLayout(config.word_bits, config.lanes)
    return values


def largest_values(config: QuantizeConfig, count: int) -> dict[str, ShapeLike]:
    """`count` largest magnitudes of equal parts of a beat, and which specials it holds.

    Magnitudes are exponent fields over `LaneWidths.compared_bits` fraction bits, 0 for NaN and
    infinities.
    """
    width = config.source.exponent_bits + LaneWidths(config).compared_bits
    return {"largest": data.ArrayLayout(width, count), "nan": 1, "infinite": 1}


def _largest(config: QuantizeConfig, count: int) -> dict[str, ShapeLike]:
    return {"largest": largest_values(config, count)["largest"]}


class Classify(Section):
    """Masks NaN and infinities: they take no part in the comparison."""

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        values = {"values": beat_values(config)["values"]}
        super().__init__(values, largest_values(config, config.lanes))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = LaneWidths(self.config)
        special, fraction = [], []
        for index in range(self.config.lanes):
            value = self.i.values[index]
            field = value[widths.fraction_bits : widths.magnitude_bits]
            special.append(field.all())
            fraction.append(value[: widths.fraction_bits].any())
            magnitude = Cat(self._upper(value[: widths.fraction_bits]), field)
            m.d.comb += self.o.largest[index].eq(Mux(field.all(), 0, magnitude))
        m.d.comb += [
            self.o.nan.eq((Cat(special) & Cat(fraction)).any()),
            self.o.infinite.eq((Cat(special) & ~Cat(fraction)).any()),
        ]
        return m

    def _upper(self, fraction: Value) -> Value:
        """The bits that are compared: cut, which keeps their order, the rest as a sticky bit."""
        cut = len(fraction) - LaneWidths(self.config).compared_bits
        if not cut or "ceil" not in self.config.scale_rules:
            return fraction[cut:]
        return Cat(fraction[: cut + 1].any(), fraction[cut + 1 :])


class LargerOfPairs(Section):
    """Level `number` of the comparator tree: magnitudes to half as many."""

    def __init__(self, config: QuantizeConfig, number: int) -> None:
        self.config, self.count = config, config.lanes >> (number - 1)
        super().__init__(*(_largest(config, count) for count in (self.count, self.count // 2)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index in range(self.count // 2):
            a, b = self.i.largest[2 * index], self.i.largest[2 * index + 1]
            m.d.comb += self.o.largest[index].eq(Mux(a > b, a, b))
        return m
