"""The largest magnitude of a block, and whether it holds NaN or infinities."""

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import data

from ...model.quantize_config import QuantizeConfig
from ..sections.base import Section
from .widths import Widths


def values_layout(config: QuantizeConfig) -> dict[str, data.Layout]:
    """The values of a beat and their random words, where these come in a stream."""
    layout = {"values": data.ArrayLayout(config.source.bits, config.lanes)}
    if config.word_bits:
        layout["random"] = data.ArrayLayout(config.word_bits, config.lanes)
    return layout


class ValuesLayout(data.StructLayout):
    """What enters: see `values_layout`."""

    def __init__(self, config: QuantizeConfig) -> None:
        super().__init__(values_layout(config))


class LargestLayout(data.StructLayout):
    """A beat, `count` largest magnitudes of equal parts of it, and which specials it holds.

    Magnitudes are exponent fields over `Widths.compared` fraction bits, 0 for NaN and infinities.
    """

    def __init__(self, config: QuantizeConfig, count: int) -> None:
        self.count = count
        width = config.source.exponent_bits + Widths(config).compared
        magnitudes = data.ArrayLayout(width, count)
        super().__init__({**values_layout(config), "largest": magnitudes, "nan": 1, "infinite": 1})


class Classify(Section):
    """Masks NaN and infinities: they take no part in the comparison."""

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        super().__init__(ValuesLayout(config), LargestLayout(config, config.lanes))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = Widths(self.config)
        self.carry(m, values_layout(self.config))
        special, fraction = [], []
        for index in range(self.config.lanes):
            value = self.i.values[index]
            field = value[widths.fraction : widths.magnitude]
            special.append(field.all())
            fraction.append(value[: widths.fraction].any())
            magnitude = Cat(self._upper(value[: widths.fraction]), field)
            m.d.comb += self.o.largest[index].eq(Mux(field.all(), 0, magnitude))
        m.d.comb += [
            self.o.nan.eq((Cat(special) & Cat(fraction)).any()),
            self.o.infinite.eq((Cat(special) & ~Cat(fraction)).any()),
        ]
        return m

    def _upper(self, fraction: Value) -> Value:
        """The bits that are compared: cut, which keeps their order, the rest as a sticky bit."""
        cut = len(fraction) - Widths(self.config).compared
        if not cut or "ceil" not in self.config.scale_rules:
            return fraction[cut:]
        return Cat(fraction[: cut + 1].any(), fraction[cut + 1 :])


class LargerOfPairs(Section):
    """One level of the comparator tree: `count` magnitudes to half as many."""

    def __init__(self, config: QuantizeConfig, count: int) -> None:
        self.config, self.count = config, count
        super().__init__(LargestLayout(config, count), LargestLayout(config, count // 2))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.carry(m, [*values_layout(self.config), "nan", "infinite"])
        for index in range(self.count // 2):
            a, b = self.i.largest[2 * index], self.i.largest[2 * index + 1]
            m.d.comb += self.o.largest[index].eq(Mux(a > b, a, b))
        return m
