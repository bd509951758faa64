"""Sections of units with integer results: multiply, sum, correct, accumulate, rescale, limit."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data

from ...model.config import DotConfig
from ...model.outputs import MULTIPLY, IntegerOutput
from ...model.requantize import MULTIPLIER_BITS, SUM_BITS
from ..adder_tree import signed_sum
from ..floats import FlagsLayout
from ..hierarchy import submodule
from ..lane import IntegerLane
from ..requantize import RoundingShift
from ..widths import Widths
from .base import Section
from .multiply import BlockLayout

PRODUCT_BITS = SUM_BITS + MULTIPLIER_BITS  # of a sum and a multiplier, signed


@dataclass(frozen=True)
class IntegerWidths:
    """Widths behind the lanes, all signed, and what travels beside the numbers."""

    lane: Widths

    @property
    def config(self) -> DotConfig:
        return self.lane.config

    @property
    def out(self) -> IntegerOutput:
        assert isinstance(self.config.out, IntegerOutput)
        return self.config.out

    @property
    def rescale(self) -> dict[str, int]:
        """Inputs that go with a block to the end."""
        return self.out.parameters

    @property
    def tree(self) -> int:
        """Levels of a tree over the lanes."""
        return (self.config.lanes - 1).bit_length()

    @property
    def product(self) -> int:
        """Of two's-complement elements."""
        return self.config.bits_a + self.config.bits_b

    @property
    def total(self) -> int:
        return self.product + self.tree

    @property
    def sum_a(self) -> int:
        return self.config.bits_a + self.tree

    @property
    def sum_b(self) -> int:
        return self.config.bits_b + self.tree

    @property
    def corrected(self) -> int:
        """Of the corrected sum: |q - z| is less than 2^bits of its operand."""
        return self.total + bool(self.config.zero_sides)

    @property
    def addend(self) -> int:
        return self.corrected + 2 * self.config.scale_bits

    @property
    def corrects(self) -> bool:
        """Whether there is a section `correct`."""
        return bool(self.config.zero_sides or self.config.scale_bits)

    @property
    def beside(self) -> dict[str, Shape | int]:
        """Fields that go with a block until `correct`: zero points and sums of codes."""
        fields: dict[str, Shape | int] = {}
        if "zero_a" in self.config.side_inputs:
            fields |= {"zero_a": signed(self.config.bits_a), "sum_b": signed(self.sum_b)}
        if "zero_b" in self.config.side_inputs:
            fields |= {"zero_b": signed(self.config.bits_b), "sum_a": signed(self.sum_a)}
        return fields


class IntegerTermsLayout(data.StructLayout):
    """The products of a block, its scales and zero points, the sums of the codes they need."""

    def __init__(self, widths: IntegerWidths) -> None:
        super().__init__(
            {
                "terms": data.ArrayLayout(signed(widths.product), widths.config.lanes),
                "scale_a": widths.config.scale_bits,
                "scale_b": widths.config.scale_bits,
                **widths.beside,
                **widths.rescale,
            }
        )


class IntegerTotalLayout(data.StructLayout):
    """The exact sum of products, what zero points take from it, and the scales' product."""

    def __init__(self, widths: IntegerWidths) -> None:
        correction = signed(widths.corrected) if widths.config.zero_sides else 0
        super().__init__(
            {
                "total": signed(widths.total),
                "correction": correction,
                "factor": 2 * widths.config.scale_bits,
                **widths.rescale,
            }
        )


class AddendLayout(data.StructLayout):
    """What a block adds to the sum."""

    def __init__(self, widths: IntegerWidths) -> None:
        super().__init__({"addend": signed(widths.addend), **widths.rescale})


class SumLayout(data.StructLayout):
    """The INT32 sum (`c`), and the flags so far."""

    def __init__(self, widths: IntegerWidths) -> None:
        super().__init__({"c": signed(SUM_BITS), "flags": FlagsLayout(), **widths.rescale})


class RescaledLayout(data.StructLayout):
    """The sum times the multiplier, before the shift."""

    def __init__(self, widths: IntegerWidths) -> None:
        rest = {name: bits for name, bits in widths.rescale.items() if name != "multiplier"}
        super().__init__({"value": signed(PRODUCT_BITS), "flags": FlagsLayout(), **rest})


class LimitedLayout(data.StructLayout):
    """The result's code (`c`), and the flags."""

    def __init__(self, widths: IntegerWidths) -> None:
        super().__init__({"c": widths.out.bits, "flags": FlagsLayout()})


class Multiply(Section):
    """Codes to exact products, and the sums of codes that zero points need."""

    def __init__(self, widths: Widths) -> None:
        self.integers = IntegerWidths(widths)
        super().__init__(BlockLayout(widths), IntegerTermsLayout(self.integers))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.integers.config
        for index in range(config.lanes):
            lane = submodule(m, f"lane{index}", IntegerLane(config.bits_a, config.bits_b))
            m.d.comb += [
                lane.a.eq(self.i.a[index]),
                lane.b.eq(self.i.b[index]),
                self.o.terms[index].eq(lane.o),
            ]
        if "zero_b" in config.side_inputs:
            m.d.comb += self.o.sum_a.eq(signed_sum(m, "sum_a", list(self.i.a)))
        if "zero_a" in config.side_inputs:
            m.d.comb += self.o.sum_b.eq(signed_sum(m, "sum_b", list(self.i.b)))
        self.carry(m, ["scale_a", "scale_b", *config.side_inputs])
        return m


class Sum(Section):
    """The adder tree; beside it the correction and the scales' product.

    sum (a - z_a)(b - z_b) = sum ab - (z_a sum b + z_b sum a - k z_a z_b).
    """

    def __init__(self, widths: Widths) -> None:
        self.integers = IntegerWidths(widths)
        layout = IntegerTotalLayout(self.integers)
        super().__init__(IntegerTermsLayout(self.integers), layout)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths, config = self.integers, self.integers.config
        m.d.comb += self.o.total.eq(signed_sum(m, "sum", list(self.i.terms)))
        if config.scale_bits:
            m.d.comb += self.o.factor.eq(self.i.scale_a * self.i.scale_b)
        terms: list[Value] = []
        if "zero_a" in config.side_inputs:
            terms.append(self.i.zero_a * self.i.sum_b)
        if "zero_b" in config.side_inputs:
            terms.append(self.i.zero_b * self.i.sum_a)
        if len(terms) == 2:
            terms.append(-(self.i.zero_a * self.i.zero_b * config.lanes))
        if terms:
            m.d.comb += self.o.correction.eq(sum(terms[1:], terms[0]))
        self.carry(m, widths.rescale)
        return m


class Correct(Section):
    """(total - correction) x factor."""

    def __init__(self, widths: Widths) -> None:
        self.integers = IntegerWidths(widths)
        super().__init__(IntegerTotalLayout(self.integers), AddendLayout(self.integers))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.integers
        corrected = Signal(signed(widths.corrected))
        zeros = widths.config.zero_sides
        m.d.comb += [
            corrected.eq(self.i.total - self.i.correction if zeros else self.i.total),
            self.o.addend.eq(corrected * self.i.factor if widths.config.scale_bits else corrected),
        ]
        self.carry(m, widths.rescale)
        return m


class Accumulate(Section):
    """sum' = sum + addend, saturated to INT32."""

    def __init__(self, widths: Widths) -> None:
        self.integers = IntegerWidths(widths)
        corrects = self.integers.corrects
        block = (AddendLayout if corrects else IntegerTotalLayout)(self.integers)
        layout = SumLayout(self.integers)
        super().__init__(block, layout, control=True, state=layout)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        addend = self.i.addend if self.integers.corrects else self.i.total
        before = Signal(signed(SUM_BITS))
        total = Signal(signed(max(SUM_BITS, len(Value.cast(addend))) + 1))
        outside = Signal()
        first = self.control.first
        above = total[SUM_BITS - 1 :]
        end = Cat((~total[-1]).replicate(SUM_BITS - 1), total[-1])
        m.d.comb += [
            before.eq(Mux(first, self.control.c.as_signed(), self.state.c)),
            total.eq(before + addend),
            outside.eq(above.any() & ~above.all()),
            self.o.c.eq(Mux(outside, end, total[:SUM_BITS])),
            self.o.flags.saturated.eq(outside | (~first & self.state.flags.saturated)),
        ]
        self.carry(m, self.integers.rescale)
        return m


class Rescale(Section):
    """The exact product of sum and multiplier."""

    def __init__(self, widths: Widths) -> None:
        self.integers = IntegerWidths(widths)
        super().__init__(SumLayout(self.integers), RescaledLayout(self.integers))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.value.eq(self.i.c * self.i.multiplier)
        self.carry(m, ["flags", "shift", "zero_out"])
        return m


class Limit(Section):
    """The rounding shift, the zero point and the limits of the result."""

    def __init__(self, widths: Widths) -> None:
        self.integers = IntegerWidths(widths)
        self.multiplies = self.integers.out.rescale == MULTIPLY
        before = (RescaledLayout if self.multiplies else SumLayout)(self.integers)
        super().__init__(before, LimitedLayout(self.integers))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        out = self.integers.out
        assert out.format is not None
        width = PRODUCT_BITS if self.multiplies else SUM_BITS
        shift = submodule(m, "shift", RoundingShift(width, out.parameters["shift"], out.format))
        flags = self.i.flags
        m.d.comb += [
            shift.value.eq(self.i.value if self.multiplies else self.i.c),
            shift.shift.eq(self.i.shift),
            shift.zero.eq(self.i.zero_out),
            self.o.c.eq(shift.result),
            self.o.flags.eq(flags),
        ]
        m.d.comb += [
            self.o.flags.inexact.eq(shift.inexact),
            self.o.flags.overflow.eq(shift.clipped),
        ]
        return m


def build(widths: Widths) -> list[Section]:
    """The sections of a unit with integer results."""
    integers = IntegerWidths(widths)
    return [
        Multiply(widths),
        Sum(widths),
        *([Correct(widths)] if integers.corrects else []),
        Accumulate(widths),
        *([Rescale(widths)] if integers.out.rescale == MULTIPLY else []),
        *([Limit(widths)] if integers.out.format is not None else []),
    ]
