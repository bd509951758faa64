"""Sections of units with integer results: multiply, sum, correct, accumulate, rescale, limit."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import data

from ...model.config import DotConfig
from ...model.outputs import MULTIPLY, IntegerOutput
from ...model.requantize import MULTIPLIER_BITS, SUM_BITS
from ..arithmetic.adder_tree import signed_sum
from ..arithmetic.floats import FlagsLayout
from ..arithmetic.requantize import RoundingShift
from ..hierarchy import submodule
from ..pipeline import Section
from .lane import IntegerLane
from .multiply import block_values
from .widths import Widths

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
    def terms(self) -> data.ArrayLayout:
        """The value `terms`: the products of a block."""
        return data.ArrayLayout(signed(self.product), self.config.lanes)

    @property
    def running(self) -> data.StructLayout:
        """The value `running`: the INT32 sum (`c`), and the flags so far."""
        return data.StructLayout({"c": signed(SUM_BITS), "flags": FlagsLayout()})

    @property
    def correction(self) -> dict[str, ShapeLike]:
        """What zero points take from a sum of products: as wide as the corrected sum."""
        return {"correction": signed(self.corrected)} if self.config.zero_sides else {}

    @property
    def factor(self) -> dict[str, ShapeLike]:
        """The product of integer scales."""
        return {"factor": 2 * self.config.scale_bits} if self.config.scale_bits else {}

    @property
    def zero_points(self) -> dict[str, ShapeLike]:
        """Zero points, and the sums of the other operand's codes that they multiply."""
        values: dict[str, ShapeLike] = {}
        if "zero_a" in self.config.side_inputs:
            values |= {"zero_a": signed(self.config.bits_a), "sum_b": signed(self.sum_b)}
        if "zero_b" in self.config.side_inputs:
            values |= {"zero_b": signed(self.config.bits_b), "sum_a": signed(self.sum_a)}
        return values


class LimitedLayout(data.StructLayout):
    """The result's code (`c`), and the flags."""

    def __init__(self, bits: int) -> None:
        super().__init__({"c": bits, "flags": FlagsLayout()})


class Multiply(Section):
    """Codes to exact products, and the sums of codes that zero points need."""

    def __init__(self, widths: Widths) -> None:
        self.integers = IntegerWidths(widths)
        sums = {name: s for name, s in self.integers.zero_points.items() if name.startswith("sum")}
        codes = {name: block_values(widths)[name] for name in ("a", "b")}
        super().__init__(codes, {"terms": self.integers.terms, **sums})

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
        return m


class Sum(Section):
    """The adder tree; beside it the correction and the scales' product.

    sum (a - z_a)(b - z_b) = sum ab - (z_a sum b + z_b sum a - k z_a z_b).
    """

    def __init__(self, widths: Widths) -> None:
        self.integers = integers = IntegerWidths(widths)
        scales = (
            {}
            if not integers.factor
            else dict.fromkeys(("scale_a", "scale_b"), integers.config.scale_bits)
        )
        super().__init__(
            {"terms": integers.terms, **integers.zero_points, **scales},
            {"total": signed(integers.total), **integers.correction, **integers.factor},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.integers.config
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
        return m


class Correct(Section):
    """addend = (total - correction) x factor."""

    def __init__(self, widths: Widths) -> None:
        self.integers = integers = IntegerWidths(widths)
        super().__init__(
            {"total": signed(integers.total), **integers.correction, **integers.factor},
            {"addend": signed(integers.addend)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        integers = self.integers
        corrected = Signal(signed(integers.corrected))
        m.d.comb += [
            corrected.eq(self.i.total - self.i.correction if integers.correction else self.i.total),
            self.o.addend.eq(corrected * self.i.factor if integers.factor else corrected),
        ]
        return m


class Accumulate(Section):
    """sum' = sum + addend, saturated to INT32."""

    def __init__(self, widths: Widths) -> None:
        self.integers = integers = IntegerWidths(widths)
        addend = {"addend": signed(integers.addend)}
        block = addend if integers.corrects else {"total": signed(integers.total)}
        running = integers.running
        super().__init__({**block, "first": 1, "c": 32, "running": running}, {"running": running})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        addend = self.i.addend if self.integers.corrects else self.i.total
        before = Signal(signed(SUM_BITS))
        total = Signal(signed(max(SUM_BITS, len(Value.cast(addend))) + 1))
        outside = Signal()
        first, held = self.i.first, self.i.running
        above = total[SUM_BITS - 1 :]
        end = Cat((~total[-1]).replicate(SUM_BITS - 1), total[-1])
        m.d.comb += [
            before.eq(Mux(first, self.i.c.as_signed(), held.c)),
            total.eq(before + addend),
            outside.eq(above.any() & ~above.all()),
            self.o.running.c.eq(Mux(outside, end, total[:SUM_BITS])),
            self.o.running.flags.saturated.eq(outside | (~first & held.flags.saturated)),
        ]
        return m


class Rescale(Section):
    """The exact product of sum and multiplier."""

    def __init__(self, widths: Widths) -> None:
        self.integers = integers = IntegerWidths(widths)
        multiplier = {"multiplier": integers.out.parameters["multiplier"]}
        super().__init__(
            {"running": integers.running, **multiplier}, {"rescaled": signed(PRODUCT_BITS)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.rescaled.eq(self.i.running.c * self.i.multiplier)
        return m


class Limit(Section):
    """The rounding shift, the zero point and the limits of the result."""

    def __init__(self, widths: Widths) -> None:
        self.integers = integers = IntegerWidths(widths)
        self.multiplies = integers.out.rescale == MULTIPLY
        parameters = integers.out.parameters
        rescaled = {"rescaled": signed(PRODUCT_BITS)} if self.multiplies else {}
        super().__init__(
            {
                "running": integers.running,
                **rescaled,
                **{name: parameters[name] for name in ("shift", "zero_out")},
            },
            {"result": LimitedLayout(integers.out.bits)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        out, result = self.integers.out, self.o.result
        assert out.format is not None
        width = PRODUCT_BITS if self.multiplies else SUM_BITS
        rounder = submodule(m, "rounder", RoundingShift(width, out.parameters["shift"], out.format))
        m.d.comb += [
            rounder.value.eq(self.i.rescaled if self.multiplies else self.i.running.c),
            rounder.shift.eq(self.i.shift),
            rounder.zero.eq(self.i.zero_out),
            result.c.eq(rounder.result),
            result.flags.eq(self.i.running.flags),
        ]
        m.d.comb += [
            result.flags.inexact.eq(rounder.inexact),
            result.flags.overflow.eq(rounder.clipped),
        ]
        return m


SECTIONS = {
    "multiply": Multiply,
    "sum": Sum,
    "correct": Correct,
    "accumulate": Accumulate,
    "rescale": Rescale,
    "limit": Limit,
}
