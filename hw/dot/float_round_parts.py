"""Parts of the sections count, normalize (two each) and round (three) in float_round.py."""

from amaranth.hdl import Cat, Const, Module, signed
from amaranth.lib import data

from ...model.pipeline.widths import Widths
from ..arithmetic.adders import SKIPPED, increment_groups, skips
from ..arithmetic.floats import EXPONENT_BITS, RunningLayout
from ..arithmetic.shift import leading_zeros
from ..pipeline import Section
from .float_round import (
    case_inputs,
    case_names,
    changes_of,
    find_cases,
    find_rounding,
    kept_bits,
    move_up,
    put_digits,
    put_result,
    result_inputs,
    stop_of,
    unrounded,
)
from .window import SignificandLayout, TotalLayout, Window, range_value, window_of

LOW_LEVELS = 4
"""Levels of the shift in the second part of `normalize`."""


def low_bits(window: Window) -> int:
    """Width of a word whose digits `LOW_LEVELS` can move into significand and guard."""
    return min(window.bits, kept_bits(window) + (1 << LOW_LEVELS) - 1)


class HighLayout(data.StructLayout):
    """The total shifted so far, the ones discarded, and its exponent; `empty` if the count met no
    mark.
    """

    def __init__(self, window: Window) -> None:
        super().__init__(
            {
                "digits": low_bits(window),
                "discarded": 1 + window.count_bits - LOW_LEVELS,
                "exponent": signed(EXPONENT_BITS),
                "empty": 1,
            }
        )


class CountMarks(Section):
    """Ones at the places where the count may end; the highest ends it."""

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {"sum": TotalLayout(self.window), "top_exponent": signed(EXPONENT_BITS)},
            {"marks": self.window.bits, "beyond_c": 1},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        changes = changes_of(self.i["sum"])
        m.d.comb += [
            self.o.marks.eq(changes | stop_of(m, self.i.top_exponent, self.window)),
            self.o.beyond_c.eq(changes[self.window.below - 1 :].any()),
        ]
        return m


class CountAbove(Section):
    """Number of places above the highest mark."""

    def __init__(self, widths: Widths) -> None:
        window = window_of(widths)
        super().__init__({"marks": window.bits}, {"count": window.count_bits})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o["count"].eq(leading_zeros(m, self.i.marks))
        return m


class NormalizeHigh(Section):
    """Shifts the total by the first digits of the count."""

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {
                "sum": TotalLayout(self.window),
                "count": self.window.count_bits,
                "c_sticky": 1,
                "top_exponent": signed(EXPONENT_BITS),
            },
            {"high": HighLayout(self.window)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = self.i["count"]
        levels = range(LOW_LEVELS, len(count))
        word, discarded = move_up(m, self.i["sum"].digits, count, levels, self.window)
        out = self.o.high
        m.d.comb += [
            out.digits.eq(word),
            out.discarded.eq(Cat(self.i.c_sticky, *discarded)),
            out.exponent.eq(self.i.top_exponent - count),
            out.empty.eq(count == self.window.bits),
        ]
        return m


class NormalizeLow(Section):
    """Shifts the total by the last digits of the count. Digits of a negative total are not inverted
    yet.
    """

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {
                "high": HighLayout(self.window),
                "count": self.window.count_bits,
                "sum": TotalLayout(self.window),
            },
            {"shifted": SignificandLayout(self.window)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        levels = range(LOW_LEVELS)
        high, negative, out = self.i.high, self.i["sum"].negative, self.o.shifted
        word, discarded = move_up(m, high.digits, self.i["count"], levels, self.window)
        put_digits(m, out, word, [high.discarded, *discarded], Const(0, 1))
        m.d.comb += [
            out.exponent.eq(high.exponent),
            out.negative.eq(negative),
            out.zero.eq(~negative & high.empty),
        ]
        return m


def cases_shape(widths: Widths) -> data.StructLayout:
    """The value `cases`."""
    return data.StructLayout(dict.fromkeys(case_names(widths), 1))


def rounded_bits(widths: Widths) -> int:
    """Width of fraction and field."""
    return widths.running.bits - 1


def skip_bits(widths: Widths) -> int:
    """Width of `skips` for fraction and field."""
    return len(range(SKIPPED, rounded_bits(widths), SKIPPED))


class RoundCases(Section):
    """Inverts the digits of a negative total, selects the result, and decides the rounding."""

    def __init__(self, widths: Widths) -> None:
        self.widths, self.fmt = widths, widths.running
        total = SignificandLayout(window_of(widths))
        super().__init__(
            {"shifted": total, **case_inputs(widths), **range_value(widths)},
            {"normalized": total, "cases": cases_shape(widths), "skips": skip_bits(widths)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        x, shifted = self.o.normalized, self.i.shifted
        m.d.comb += [
            x.eq(shifted),
            x.significand.eq(shifted.significand ^ shifted.negative.replicate(len(x.significand))),
            x.guard.eq(shifted.guard ^ shifted.negative),
        ]
        cases = find_rounding(m, x, self.fmt)
        cases |= find_cases(m, self, x, cases)
        m.d.comb += [self.o.cases[name].eq(cases[name]) for name in case_names(self.widths)]
        digits = unrounded(x, cases, self.fmt)
        m.d.comb += self.o.skips.eq(Cat(*skips(m, "round", digits)))
        return m


class RoundUp(Section):
    """Rounds the total."""

    def __init__(self, widths: Widths) -> None:
        self.widths, self.fmt = widths, widths.running
        super().__init__(
            {
                "normalized": SignificandLayout(window_of(widths)),
                "cases": cases_shape(widths),
                "skips": skip_bits(widths),
            },
            {"rounded": rounded_bits(widths)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cases = {name: self.i.cases[name] for name in case_names(self.widths)}
        digits = unrounded(self.i.normalized, cases, self.fmt)
        rounded = increment_groups(m, "round", digits, cases["up"], self.i.skips)
        m.d.comb += self.o.rounded.eq(Cat(*rounded))
        return m


class RoundResult(Section):
    """The selected result, with its flags."""

    def __init__(self, widths: Widths) -> None:
        self.widths, self.fmt = widths, widths.running
        super().__init__(
            {
                **result_inputs(widths),
                "rounded": rounded_bits(widths),
                "cases": cases_shape(widths),
            },
            {"running": RunningLayout(self.fmt)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cases = {name: self.i.cases[name] for name in case_names(self.widths)}
        put_result(m, self, self.i.rounded, cases)
        return m
