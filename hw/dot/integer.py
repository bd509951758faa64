"""Sections of units with INT32 sums: multiply, sum, correct, accumulate, rescale, limit."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import data

from ...model.formats import FLOAT32, FloatFormat, IntegerFormat
from ...model.outputs import MULTIPLY, SCALE, IntegerOutput
from ...model.pipeline.widths import Widths
from ...model.requantize import SUM_BITS
from ...model.units.dot import DotConfig
from ..arithmetic.adders import rows_of, signed_sum, total_of
from ..arithmetic.columns import SUM_DELAY, Columns
from ..arithmetic.floats import FlagsLayout
from ..arithmetic.shift import RoundingShift
from ..hierarchy import submodule
from ..pipeline import Section
from .block import add_inputs, compress, sum_inputs
from .convert import Convert
from .multiply import PartialProducts
from .scaled_sum import RESULT, ROUNDED, RescaleFloat, RoundProduct, SumToFloat


@dataclass(frozen=True)
class IntegerWidths:
    """Widths after the lanes, all signed, and shapes of the values between sections."""

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
    def total(self) -> int:
        return self.config.bits_a + self.config.bits_b + self.tree

    @property
    def sum_a(self) -> int:
        return self.config.bits_a + self.tree

    @property
    def sum_b(self) -> int:
        return self.config.bits_b + self.tree

    @property
    def corrected(self) -> int:
        """Width of the corrected sum: |q - z| is less than 2^bits of its operand."""
        return self.total + bool(self.config.zero_sides)

    @property
    def addend(self) -> int:
        return self.corrected + 2 * self.config.scale_bits

    @property
    def corrects(self) -> bool:
        """True if there is a section `correct`."""
        return bool(self.config.zero_sides or self.config.scale_bits)

    @property
    def row_bits(self) -> int:
        """Width of the words to sum: the correction's or the running value's."""
        return self.corrected if self.corrects else SUM_BITS + 1

    @property
    def rows(self) -> data.ArrayLayout:
        """The value `rows`: two words whose sum is the sum of the products."""
        return data.ArrayLayout(self.row_bits, 2)

    @property
    def running(self) -> data.StructLayout:
        """The value `running`: the INT32 sum (`c`), and the flags so far."""
        return data.StructLayout({"c": signed(SUM_BITS), "flags": FlagsLayout()})

    @property
    def correction(self) -> dict[str, ShapeLike]:
        """Share of zero points in a sum of products, as wide as the corrected sum."""
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


class Multiply(PartialProducts):
    """Codes to partial products, and the sums of codes that zero points need.

    sum_a: sum of the codes of a. sum_b: sum of the codes of b.
    """

    def __init__(self, widths: Widths) -> None:
        self.integers = IntegerWidths(widths)
        sums = {name: s for name, s in self.integers.zero_points.items() if name.startswith("sum")}
        super().__init__(widths, self.integers.row_bits, scales=False, extra=sums)

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        if "sum_a" in self.writes:
            m.d.comb += self.o.sum_a.eq(signed_sum(m, "sum_a", list(self.i.a)))
        if "sum_b" in self.writes:
            m.d.comb += self.o.sum_b.eq(signed_sum(m, "sum_b", list(self.i.b)))
        return m


class IntegerSum(Section):
    """End of the tree: two rows; correction and product of the scales in parallel.

    sum (a - z_a)(b - z_b) = sum ab - (z_a sum b + z_b sum a - k z_a z_b).

    correction: z_a sum b + z_b sum a - k z_a z_b. factor: product of the scales.
    """

    def __init__(self, widths: Widths) -> None:
        self.integers = integers = IntegerWidths(widths)
        bits = integers.config.scale_bits
        scales = dict.fromkeys(("scale_a", "scale_b"), bits) if integers.factor else {}
        super().__init__(
            {
                **sum_inputs(widths, integers.row_bits, widths.partial_sums[-1]),
                **integers.zero_points,
                **scales,
            },
            {"rows": integers.rows, **integers.correction, **integers.factor},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.integers.config
        columns = Columns(m, "sum", self.integers.row_bits)
        add_inputs(columns, self)
        for row, word in zip(self.o.rows, rows_of(columns), strict=True):
            m.d.comb += row.eq(word)
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
    """addend = (sum - correction) x factor.

    addend: (sum - correction) x factor.
    """

    def __init__(self, widths: Widths) -> None:
        self.integers = integers = IntegerWidths(widths)
        super().__init__(
            {"rows": integers.rows, **integers.correction, **integers.factor},
            {"addend": signed(integers.addend)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        integers = self.integers
        columns = Columns(m, "correct", integers.corrected)
        for row in self.i.rows:
            columns.add(row)
        if integers.correction:
            columns.add(~self.i.correction)
            columns.add_constant(1)
        corrected = Signal(signed(integers.corrected))
        m.d.comb += [
            corrected.eq(total_of(columns)),
            self.o.addend.eq(corrected * self.i.factor if integers.factor else corrected),
        ]
        return m


class IntegerAccumulate(Section):
    """sum' = sum + block, saturated to INT32.

    running: the running sum and the flags so far.
    """

    def __init__(self, widths: Widths) -> None:
        self.integers = integers = IntegerWidths(widths)
        addend = {"addend": signed(integers.addend)}
        block = addend if integers.corrects else {"rows": integers.rows}
        running = integers.running
        super().__init__({**block, "first": 1, "c": 32, "running": running}, {"running": running})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        before = Signal(signed(SUM_BITS))
        first, held = self.i.first, self.i.running
        m.d.comb += before.eq(Mux(first, self.i.c.as_signed(), held.c))
        total = self._total(m, before)
        outside = Signal()
        above = total[SUM_BITS - 1 :]
        end = Cat((~total[-1]).replicate(SUM_BITS - 1), total[-1])
        m.d.comb += [
            outside.eq(above.any() & ~above.all()),
            self.o.running.c.eq(Mux(outside, end, total[:SUM_BITS])),
            self.o.running.flags.saturated.eq(outside | (~first & held.flags.saturated)),
        ]
        return m

    def _total(self, m: Module, before: Value) -> Value:
        """Exact sum."""
        if self.integers.corrects:
            addend = self.i.addend
            total = Signal(signed(max(SUM_BITS, len(Value.cast(addend))) + 1))
            m.d.comb += total.eq(before + addend)
            return total
        columns = Columns(m, "accumulate", self.integers.row_bits)
        for row in self.i.rows:
            columns.add(row)
        columns.add(Cat(before, before[-1]), time=SUM_DELAY)
        return total_of(columns)


def product_bits(out: IntegerOutput) -> int:
    """Width of a sum times a multiplier, signed."""
    return SUM_BITS + out.multiplier_bits


class Rescale(Section):
    """Exact product of sum and multiplier.

    rescaled: sum x multiplier.
    """

    def __init__(self, widths: Widths) -> None:
        self.integers = integers = IntegerWidths(widths)
        multiplier = {"multiplier": integers.out.parameters["multiplier"]}
        super().__init__(
            {"running": integers.running, **multiplier},
            {"rescaled": signed(product_bits(integers.out))},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.rescaled.eq(self.i.running.c * self.i.multiplier)
        return m


class Limit(Section):
    """Rounding shift, zero point and limits of the result."""

    def __init__(self, widths: Widths) -> None:
        self.integers = integers = IntegerWidths(widths)
        self.multiplies = integers.out.rescale == MULTIPLY
        parameters = integers.out.parameters
        bits = product_bits(integers.out)
        rescaled = {"rescaled": signed(bits)} if self.multiplies else {}
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
        assert isinstance(out.format, IntegerFormat)
        width = product_bits(out) if self.multiplies else SUM_BITS
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


def _rescale(widths: Widths) -> Section:
    return RescaleFloat() if IntegerWidths(widths).out.rescale == SCALE else Rescale(widths)


def _convert(widths: Widths) -> Section:
    out = IntegerWidths(widths).out.format
    assert isinstance(out, FloatFormat)
    return Convert(out, source=ROUNDED)


def _round(widths: Widths) -> Section:
    return RoundProduct(RESULT if IntegerWidths(widths).out.format == FLOAT32 else ROUNDED)


SECTIONS = {
    "multiply": Multiply,
    "compress": lambda widths, number: compress(widths, number, IntegerWidths(widths).row_bits),
    "sum": IntegerSum,
    "correct": Correct,
    "accumulate": IntegerAccumulate,
    "rescale": _rescale,
    "limit": Limit,
    "float": lambda widths: SumToFloat(IntegerWidths(widths).running),
    "round": _round,
    "convert": _convert,
}
