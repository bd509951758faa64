"""Sections of `fused:F` and of the presets: largest, then join, sum and round for every step of a
block, then promote where a partial sum is kept apart."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data

from ...model.accumulators import Fused, Preset
from ..adder_tree import AdderTree, TermLayout
from ..align import AlignShifter
from ..float_sum import FloatSum
from ..floats import (
    FLOAT32_EMIN,
    FLOAT32_FRACTION,
    RunningLayout,
    merge_special,
    special_of_float32,
    unpack_float32,
)
from ..hierarchy import submodule
from ..lane import ProductLayout, SpecialLayout
from ..largest import LargestExponent
from ..round import FloatRounder
from ..scale import SCALE_SHAPE
from ..shift import ShiftRight
from ..widths import EXPONENT_BITS, Widths
from .base import Section
from .multiply import ProductsLayout


class PeakLayout(data.StructLayout):
    """The largest biased unit exponent of a step's products; `any` is 0 when all are zero."""

    def __init__(self, widths: Widths) -> None:
        super().__init__({"unit": widths.unit, "any": 1})


class StepsLayout(data.StructLayout):
    """The products of the steps that are still to come, `running` the value after those done."""

    def __init__(self, widths: Widths, steps: int) -> None:
        lanes = data.ArrayLayout(ProductLayout(widths), widths.terms * steps)
        super().__init__(
            {
                "lanes": lanes,
                "special": data.ArrayLayout(SpecialLayout(), steps),
                "peaks": data.ArrayLayout(PeakLayout(widths), steps),
                "scale": SCALE_SHAPE,
                "running": RunningLayout(),
            }
        )

    def drop(self, m: Module, o: data.View, i: data.View, terms: int, steps: int) -> None:
        """Connect the fields of `o` (`steps` steps) to those of `i`, which has one step more."""
        for index in range(terms * steps):
            m.d.comb += o.lanes[index].eq(i.lanes[index + terms])
        for index in range(steps):
            m.d.comb += o.special[index].eq(i.special[index + 1])
            m.d.comb += o.peaks[index].eq(i.peaks[index + 1])
        m.d.comb += o.scale.eq(i.scale)


class StepLayout(data.StructLayout):
    """One step under way; `value` is its terms or their total, on the grid 2^(exponent - F)."""

    def __init__(self, widths: Widths, steps_left: int, value: data.ShapeLike) -> None:
        super().__init__(
            {
                "value": value,
                "exponent": signed(EXPONENT_BITS),
                "lost": 1,
                "special": SpecialLayout(),
                "rest": StepsLayout(widths, steps_left),
            }
        )


def _terms_shape(widths: Widths) -> data.ArrayLayout:
    """The aligned products and, last, the aligned running value."""
    width = max(widths.term, widths.kept + 1)
    return data.ArrayLayout(TermLayout(width), widths.terms + 1)


class Largest(Section):
    """The largest unit exponent of each step."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(ProductsLayout(widths), StepsLayout(widths, widths.steps))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        terms = self.widths.terms
        for step in range(self.widths.steps):
            tree = submodule(m, f"tree{step}", LargestExponent(terms, self.widths.unit))
            lanes = [self.i.lanes[index] for index in range(step * terms, (step + 1) * terms)]
            for index, lane in enumerate(lanes):
                m.d.comb += tree.exponent[index].eq(lane.unit)
            m.d.comb += [
                tree.nonzero.eq(Cat(lane.nonzero for lane in lanes)),
                self.o.peaks[step].unit.eq(tree.largest),
                self.o.peaks[step].any.eq(tree.any),
            ]
        self.carry(m, ["lanes", "special", "scale"])
        return m


class Join(Section):
    """Scale and running value join the alignment: emax covers both, and all is cut to its grid."""

    def __init__(self, widths: Widths, step: int) -> None:
        self.widths, self.step = widths, step
        left = widths.steps - step
        super().__init__(
            StepsLayout(widths, left),
            StepLayout(widths, left - 1, _terms_shape(widths)),
            control=step == 0,
            state=RunningLayout() if step == 0 else None,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths, rest = self.widths, self.o.rest
        running = Signal(RunningLayout())
        m.d.comb += running.eq(self._before(m) if self.step == 0 else self.i.running)
        m.d.comb += [rest.running.eq(running), self.o.special.eq(self.i.special[0])]
        left = widths.steps - self.step - 1
        StepsLayout(widths, left).drop(m, rest, self.i, widths.terms, left)

        c = unpack_float32(m, running.c, "c")
        products_lead = Signal()
        peak = Signal(signed(EXPONENT_BITS))
        emax = Signal(signed(EXPONENT_BITS))
        base = Signal(signed(EXPONENT_BITS))
        m.d.comb += [
            peak.eq(self.i.peaks[0].unit + self.i.scale + widths.unit_min),
            # A zero c takes no part; with zero products too, any exponent will do.
            products_lead.eq(self.i.peaks[0].any & ((c.significand == 0) | (peak > c.exponent))),
            emax.eq(Mux(products_lead, peak, c.exponent)),
            base.eq(emax - self.i.scale - widths.unit_min),
            self.o.exponent.eq(emax),
        ]
        lost = []
        for index in range(widths.terms):
            lane, term = self.i.lanes[index], self.o.value[index]
            shift = submodule(m, f"shift{index}", AlignShifter(widths, EXPONENT_BITS))
            m.d.comb += [
                shift.product.eq(lane.product),
                shift.distance.eq(base - lane.unit),
                term.magnitude.eq(shift.magnitude),
                term.sign.eq(lane.sign),
            ]
            lost.append(shift.lost)
        lost.append(self._align_running(m, c, emax))
        m.d.comb += self.o.lost.eq(Cat(lost).any())
        return m

    def _before(self, m: Module) -> data.View:
        """The running value of the previous block, or where the sum starts."""
        control, state = self.control, self.state
        rule = self.widths.config.accumulator
        promoted = isinstance(rule, Preset) and rule.promote is not None
        before = Signal(RunningLayout(), name="previous")
        with m.If(control.starts):
            m.d.comb += before.c.eq(Const(0, 32) if promoted else control.c)
        with m.Else():
            m.d.comb += before.eq(state)
        return before

    def _align_running(self, m: Module, c: data.View, emax: Signal):
        """RZ(c x 2^(F - emax)) as the last term; says whether a one was cut off."""
        kept = self.widths.kept
        above = max(kept - FLOAT32_FRACTION, 0)
        below = max(FLOAT32_FRACTION - kept, 0)
        shift = submodule(m, "shift_c", ShiftRight(FLOAT32_FRACTION + 1 + above, EXPONENT_BITS))
        term = self.o.value[self.widths.terms]
        m.d.comb += [
            shift.value.eq(Cat(Const(0, above), c.significand)),
            shift.amount.eq(emax - c.exponent),
            term.magnitude.eq(shift.result[below:]),
            term.sign.eq(c.sign),
        ]
        return shift.lost | shift.result[:below].any()


class Sum(Section):
    """The adder tree over the step's terms and the running value."""

    def __init__(self, widths: Widths, step: int) -> None:
        self.widths, self.step = widths, step
        left = widths.steps - step - 1
        super().__init__(
            StepLayout(widths, left, _terms_shape(widths)),
            StepLayout(widths, left, signed(widths.total)),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = max(self.widths.term, self.widths.kept + 1)
        tree = submodule(m, "tree", AdderTree(self.widths.terms + 1, width, self.widths.total))
        m.d.comb += [tree.terms.eq(self.i.value), self.o.value.eq(tree.total)]
        self.carry(m, ["exponent", "lost", "special", "rest"])
        return m


class Round(Section):
    """The step's total toward zero to float32, or to the machine's fewer fraction bits."""

    def __init__(self, widths: Widths, step: int) -> None:
        self.widths, self.step = widths, step
        left = self.left
        super().__init__(
            StepLayout(widths, left, signed(widths.total)),
            StepsLayout(widths, left) if left else RunningLayout(),
        )

    @property
    def left(self) -> int:
        """Steps still to come."""
        return self.widths.steps - self.step - 1

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths, rule = self.widths, self.widths.config.accumulator
        bits = rule.result_bits if isinstance(rule, Preset) else FLOAT32_FRACTION
        size, above = widths.total - 1, bits + 1
        width = size + above
        rounder = submodule(m, "rounder", FloatRounder(width, nearest=False, fraction_bits=bits))
        # Behind a zero c the total may lie below float32's smallest exponent: zeros above it make
        # the way down to the last subnormal digit, and whatever is smaller counts as there.
        top, lowest = Signal(signed(EXPONENT_BITS)), FLOAT32_EMIN - above
        total, before = self.i.value, self.i.rest.running
        active, special_bits = merge_special(m, "special", before.c, self.i.special, rule.nan_bits)
        after = self.o.running if self.left else self.o
        m.d.comb += [
            rounder.sign.eq(total < 0),
            rounder.magnitude.eq(Mux(total < 0, -total, total)),
            top.eq(self.i.exponent + (size - 1 - widths.kept)),
            rounder.exponent.eq(Mux(top < lowest, lowest, top) + above),
            after.c.eq(Mux(active, rounder.result, special_bits)),
            after.flags.eq(before.flags),
        ]
        m.d.comb += [
            after.flags.overflow.eq(before.flags.overflow | (active & rounder.overflow)),
            after.flags.underflow.eq(before.flags.underflow | (active & rounder.underflow)),
            after.flags.inexact.eq(
                before.flags.inexact | (active & (rounder.inexact | self.i.lost))
            ),
        ]
        if self.left:
            for name in ("lanes", "special", "peaks", "scale"):
                m.d.comb += self.o[name].eq(self.i.rest[name])
        return m


class Promote(Section):
    """c' = RNE(c + partial) after the blocks that promote; c as it is after the others."""

    def __init__(self, nan_bits: int) -> None:
        self.nan_bits = nan_bits
        super().__init__(RunningLayout(), RunningLayout(), control=True, state=RunningLayout())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        adder = submodule(m, "adder", FloatSum(24, 24))
        rounder = submodule(m, "rounder", FloatRounder(adder.sum_width, nearest=True))
        control, partial = self.control, self.i.c
        c = Signal(32)
        m.d.comb += c.eq(Mux(control.first, control.c, self.state.c))
        special = special_of_float32(m, partial, "partial_special")
        active, special_bits = merge_special(m, "special", c, special, self.nan_bits)
        rounds = control.promotes & active
        promoted = Mux(active, rounder.result, special_bits)
        before, flags = self.state.flags, self.i.flags
        m.d.comb += [
            adder.a.eq(unpack_float32(m, c, "running")),
            adder.b.eq(unpack_float32(m, partial, "partial")),
            rounder.sign.eq(adder.sign),
            rounder.magnitude.eq(adder.magnitude),
            rounder.exponent.eq(adder.exponent),
            self.o.c.eq(Mux(control.promotes, promoted, c)),
        ]
        for name in ("overflow", "underflow", "inexact"):
            sticky = flags[name] | (~control.first & before[name])
            m.d.comb += self.o.flags[name].eq(sticky | (rounds & getattr(rounder, name)))
        return m


def build(widths: Widths) -> list[Section]:
    """The sections of `fused:F` and of the presets between multiply and convert."""
    rule = widths.config.accumulator
    assert isinstance(rule, Fused | Preset)
    sections: list[Section] = [Largest(widths)]
    for step in range(widths.steps):
        sections += [Join(widths, step), Sum(widths, step), Round(widths, step)]
    if isinstance(rule, Preset) and rule.promote is not None:
        sections.append(Promote(rule.nan_bits))
    return sections
