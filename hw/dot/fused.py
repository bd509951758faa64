"""Sections of `fused:F` and of the presets: largest; join, sum and round for every step of a block;
promote for partial sums that are kept apart.
"""

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import data

from ...model.pipeline.widths import GroupWidths, Widths
from ..arithmetic.adders import AdderTree, TermLayout
from ..arithmetic.floats import (
    EXPONENT_BITS,
    FloatRounder,
    FloatSum,
    RunningLayout,
    merge_special,
    special_of_float,
    unpack_float,
)
from ..arithmetic.scale import SCALE_SHAPE
from ..arithmetic.select import LargestExponent
from ..arithmetic.shift import ShiftRight
from ..hierarchy import submodule
from ..pipeline import Section
from .block import ProductFactor
from .convert import c_value, carried, first_c
from .lane import AlignShifter
from .multiply import of_blocks, of_lane, products_shape, special_shape


class PeakLayout(data.StructLayout):
    """The largest biased exponent of a step's products; `any` is 0 when all are zero."""

    def __init__(self, widths: Widths) -> None:
        super().__init__({"exponent": widths.exponent_bits, "any": 1})


def promotes(widths: Widths) -> bool:
    """True if a partial sum is kept apart from c and added to it from time to time."""
    return widths.config.accumulator.promotes_every is not None


def sum_name(widths: Widths) -> str:
    """Name of the value that the steps sum up: `partial` if kept apart, or `running`."""
    return "partial" if promotes(widths) else "running"


def peaks_shape(widths: Widths) -> data.ArrayLayout:
    """The value `peaks`: one per step, or per part of a step."""
    return data.ArrayLayout(PeakLayout(widths), len(widths.parts))


def terms_shape(widths: Widths) -> data.ArrayLayout:
    """The value `terms`: the aligned products and, last, the aligned running value."""
    bits = max(widths.term_bits, widths.fraction_bits + 1)
    return data.ArrayLayout(TermLayout(bits), widths.step_lanes + 1)


class FusedLargest(Section):
    """The largest exponent of each step, or of each part of a step."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths = widths.terms
        super().__init__({"products": products_shape(widths)}, {"peaks": peaks_shape(widths)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for part, lanes in enumerate(self.widths.parts):
            largest = LargestExponent(len(lanes), self.widths.exponent_bits)
            tree = submodule(m, f"tree{part}", largest)
            products = [self.i.products[lane] for lane in lanes]
            for index, product in enumerate(products):
                m.d.comb += tree.exponent[index].eq(product.exponent)
            m.d.comb += [
                tree.nonzero.eq(Cat(product.nonzero for product in products)),
                self.o.peaks[part].exponent.eq(tree.largest),
                self.o.peaks[part].any.eq(tree.any),
            ]
        return m


class AlignWithAccumulator(Section):
    """Scale and running value join the alignment: emax covers both, and everything is cut to its
    grid.

    The first step takes the value that comes round, or the start of the sum.

    before: the value that the step starts from. exponent: emax.
    """

    verilog_name = "join"

    def __init__(self, widths: Widths, step: int) -> None:
        widths = widths.terms
        self.widths, self.step = widths, step
        start: dict[str, ShapeLike] = {}
        if step == 0:
            start = {"starts": 1, **({} if promotes(widths) else c_value(widths))}
        super().__init__(
            {**self._terms(), sum_name(widths): RunningLayout(widths.running), **start},
            {
                **self._aligned(),
                "exponent": signed(EXPONENT_BITS),
                "sticky": 1,
                "before": RunningLayout(widths.running),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths, before = self.widths, self.o.before
        self._begin(m, before)
        c = unpack_float(m, before.c, "running", widths.running)
        any_product, largest = self._peak()
        products_lead = Signal()
        peak = Signal(signed(EXPONENT_BITS))
        m.d.comb += [
            peak.eq(largest),
            # A zero c takes no part; with zero products too, any exponent will do.
            products_lead.eq(any_product & ((c.significand == 0) | (peak > c.exponent))),
            self.o.exponent.eq(self._at_least(Mux(products_lead, peak, c.exponent))),
        ]
        m.d.comb += self.o.sticky.eq(Cat(self._align(m, c)).any())
        return m

    def _terms(self) -> dict[str, ShapeLike]:
        """Values to align with the running value, and their exponents."""
        peaks = peaks_shape(self.widths)
        return {"products": products_shape(self.widths), "peaks": peaks, **self._scale_value()}

    def _aligned(self) -> dict[str, ShapeLike]:
        """Aligned values."""
        return {"terms": terms_shape(self.widths)}

    def _peak(self) -> tuple[Value, Value]:
        """(1 if a term is not zero, largest exponent of such terms)."""
        peak = self.i.peaks[self.step]
        return peak.any, peak.exponent + self._scale() + self.widths.exponent_min

    def _align(self, m: Module, c: data.View) -> list[Value]:
        """Align all terms to the grid of emax; return a bit per term: a one was cut off."""
        widths, emax = self.widths, self.o.exponent
        base = Signal(signed(EXPONENT_BITS))
        m.d.comb += base.eq(emax - self._scale() - widths.exponent_min)
        sticky = []
        for index in range(widths.step_lanes):
            product = self.i.products[self.step * widths.step_lanes + index]
            term = self.o.terms[index]
            shift = submodule(m, f"shift{index}", AlignShifter(widths, EXPONENT_BITS))
            m.d.comb += [
                shift.significand.eq(product.significand),
                shift.distance.eq(base - product.exponent),
                term.magnitude.eq(shift.word),
                term.sign.eq(product.sign),
            ]
            sticky.append(shift.sticky)
        sticky.append(self._align_running(m, c, emax))
        return sticky

    def _scale_value(self) -> dict[str, ShapeLike]:
        """Exponent of the scales, if terms do not include it."""
        joins = not isinstance(self.widths, GroupWidths)
        return {"scale": of_blocks(SCALE_SHAPE, self.widths)} if joins else {}

    def _scale(self) -> Value:
        """Scale exponent of this step."""
        if "scale" not in self.reads:
            return Const(0, SCALE_SHAPE)
        return of_lane(self.i.scale, self.step * self.widths.step_lanes, self.widths)

    def _at_least(self, exponent: Value) -> Value:
        """`exponent`, no less than the machine's least."""
        least = self.widths.config.accumulator.least_exponent
        return exponent if least is None else Mux(exponent < least, least, exponent)

    def _begin(self, m: Module, before: data.View) -> None:
        """Write `before`: the value of the previous step or block, or the start of the sum."""
        held = self.i[sum_name(self.widths)]
        if self.step:
            m.d.comb += before.eq(held)
            return
        with m.If(self.i.starts):
            if "narrow_c" in self.reads:
                m.d.comb += before.eq(self.i.narrow_c)
            elif "c" in self.reads:
                m.d.comb += before.c.eq(self.i.c)
            else:
                m.d.comb += before.c.eq(Const(0, len(before.c)))
        with m.Else():
            m.d.comb += before.eq(held)

    def _align_running(self, m: Module, c: data.View, emax: Value) -> Value:
        """Write RZ(c x 2^(F - emax)) as the last term; return 1 if a one was cut off."""
        fraction_bits, running = self.widths.fraction_bits, self.widths.running
        above = max(fraction_bits - running.mantissa_bits, 0)
        below = max(running.mantissa_bits - fraction_bits, 0)
        shift = submodule(m, "shift_c", ShiftRight(running.significand_bits + above, EXPONENT_BITS))
        term = self.o.terms[self.widths.step_lanes]
        m.d.comb += [
            shift.value.eq(Cat(Const(0, above), c.significand)),
            shift.amount.eq(emax - c.exponent),
            term.magnitude.eq(shift.result[below:]),
            term.sign.eq(c.sign),
        ]
        return shift.sticky | shift.result[:below].any()


class FusedSum(Section):
    """The adder tree over the step's terms and the running value."""

    def __init__(self, widths: Widths, step: int) -> None:
        widths = widths.terms
        self.widths, self.step = widths, step
        super().__init__({"terms": terms_shape(widths)}, {"total": signed(widths.total_bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        bits = max(widths.term_bits, widths.fraction_bits + 1)
        tree = submodule(m, "tree", AdderTree(widths.step_lanes + 1, bits, widths.total_bits))
        m.d.comb += [tree.terms.eq(self.i.terms), self.o.total.eq(tree.total)]
        return m


class FusedRound(Section):
    """The step's total in the running value's format: toward zero, to the machine's fewer fraction
    bits, or to nearest even.
    """

    def __init__(self, widths: Widths, step: int) -> None:
        widths = widths.terms
        self.widths, self.step = widths, step
        super().__init__(
            {
                "total": signed(widths.total_bits),
                "exponent": signed(EXPONENT_BITS),
                "sticky": 1,
                "special": special_shape(widths),
                "before": RunningLayout(widths.running),
                **self._more(),
            },
            {sum_name(widths): RunningLayout(widths.running)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths, rule = self.widths, self.widths.config.accumulator
        bits, nearest, running = rule.step_fraction_bits, rule.rounds_to_nearest, widths.running
        # After a zero c the total may lie below the format's smallest exponent. Zeros above it
        # shift it down past the last subnormal digit, and past one more digit if half of a digit
        # still counts; smaller totals stop there. A machine whose least exponent is the format's
        # needs none.
        size, above = widths.total_bits - 1, bits + 1 + nearest
        if rule.least_exponent is not None and rule.least_exponent >= running.emin:
            above = 0
        width = size + above
        rounder = submodule(
            m, "rounder", FloatRounder(width, nearest=nearest, fraction_bits=bits, fmt=running)
        )
        top, lowest = Signal(signed(EXPONENT_BITS)), running.emin - above
        total, lost = self._total(m)
        before, after = self.i.before, self.o[sum_name(widths)]
        special = self._special()
        active, special_bits = merge_special(
            m, "special", before.c, special, rule.nan_bits, running
        )
        m.d.comb += [
            rounder.sign.eq(total[-1]),
            rounder.magnitude.eq(Mux(total[-1], -total, total)),
            top.eq(self.i.exponent + (size - 1 - widths.total_fraction_bits)),
            rounder.exponent.eq(Mux(top < lowest, lowest, top) + above),
            after.c.eq(Mux(active, rounder.result, special_bits)),
            after.flags.eq(before.flags),
        ]
        inexact = rounder.inexact | self.i.sticky
        if lost is not None:
            inexact |= lost
        raised = {"overflow": rounder.overflow, "underflow": rounder.underflow, "inexact": inexact}
        for name, flag in self._raised(m, active, raised).items():
            m.d.comb += after.flags[name].eq(before.flags[name] | flag)
        return m

    def _more(self) -> dict[str, ShapeLike]:
        """Further values to read."""
        return {}

    def _total(self, m: Module) -> tuple[Value, Value | None]:
        """(sum to round, 1 if it lost digits; None where it keeps all)."""
        return self.i.total, None

    def _special(self) -> data.View:
        """Special values of the terms."""
        return self.i.special[self.step]

    def _raised(self, m: Module, active: Value, flags: dict[str, Value]) -> dict[str, Value]:
        """Flags of the step, from the rounding's flags. active: nothing is special."""
        return {name: active & flag for name, flag in flags.items()}


class Promote(Section):
    """c' = RNE(c + partial) after blocks that promote; unchanged c after others."""

    def __init__(self, widths: Widths) -> None:
        self.nan_bits = widths.config.accumulator.nan_bits
        self.fmt = widths.running
        super().__init__(
            {
                "partial": RunningLayout(self.fmt),
                "first": 1,
                "promotes": 1,
                **c_value(widths),
                "running": RunningLayout(self.fmt),
            },
            {"running": RunningLayout(self.fmt)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fmt = self.fmt
        adder = submodule(m, "adder", FloatSum(fmt.significand_bits, fmt.significand_bits))
        rounder = submodule(m, "rounder", FloatRounder(adder.sum_bits, nearest=True, fmt=fmt))
        first, promotes_now, partial = self.i.first, self.i.promotes, self.i.partial
        c = Signal(fmt.bits)
        m.d.comb += c.eq(Mux(first, first_c(self), self.i.running.c))
        special = special_of_float(m, partial.c, "partial_special", fmt)
        active, special_bits = merge_special(m, "special", c, special, self.nan_bits, fmt)
        rounds = promotes_now & active
        promoted = Mux(active, rounder.result, special_bits)
        after = self.o.running
        m.d.comb += [
            adder.a.eq(unpack_float(m, c, "running", fmt)),
            adder.b.eq(unpack_float(m, partial.c, "partial", fmt)),
            rounder.sign.eq(adder.sign),
            rounder.magnitude.eq(adder.magnitude),
            rounder.exponent.eq(adder.exponent),
            after.c.eq(Mux(promotes_now, promoted, c)),
        ]
        for name in ("overflow", "underflow", "inexact"):
            sticky = partial.flags[name] | carried(self, name)
            m.d.comb += after.flags[name].eq(sticky | (rounds & getattr(rounder, name)))
        return m


SECTIONS = {
    "factor": ProductFactor,
    "largest": FusedLargest,
    "join": AlignWithAccumulator,
    "sum": FusedSum,
    "round": FusedRound,
    "promote": Promote,
}
