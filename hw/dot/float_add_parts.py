"""Parts of the sections distance, approach, add, carry (float_add.py), two each."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from ...model.pipeline.widths import Widths
from ..arithmetic.adders import (
    SKIPPED,
    carries_at_once,
    increment_blocks,
    named,
    runs_of_groups,
    skips,
)
from ..arithmetic.columns import Bit
from ..arithmetic.floats import EXPONENT_BITS, RunningLayout
from ..pipeline import Section
from .convert import c_value
from .float_add import (
    CUT_BLOCK,
    above_window,
    add_rows,
    approach,
    choose_before,
    distance_of,
    find_reach,
    invert_rows,
    join_rows,
    put_sum,
    significand_of,
    words_of,
)
from .window import BlocksLayout, ReachLayout, TotalLayout, Window, window_of

NEAR_LEVELS = 3
"""Levels of the shift of c in the first part of `approach`; no digit leaves the window there."""


def near_bits(window: Window) -> int:
    """Width of a significand with room for `NEAR_LEVELS`."""
    return window.significand_bits + (1 << NEAR_LEVELS) - 1


GATHERED = 16
"""Digits per bit of `discarded`, which the second part of `approach` writes."""


def far_levels(window: Window) -> range:
    """Levels of the shift in the second part of `approach`."""
    return range(NEAR_LEVELS, window.distance_bits)


def discarded_bits(window: Window) -> int:
    """Width of `discarded`. Its first bit stands for a c outside the window."""
    return 1 + sum(-(-(1 << level) // GATHERED) for level in far_levels(window))


class ChooseBefore(Section):
    """The caller's c, or the running value."""

    def __init__(self, widths: Widths) -> None:
        running = RunningLayout(widths.running)
        super().__init__({"running": running, "first": 1, **c_value(widths)}, {"before": running})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        choose_before(m, self)
        return m


class WholeDistance(Section):
    """Distance of c below the window's top place, or above it."""

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        exponent = signed(EXPONENT_BITS)
        super().__init__(
            {"before": RunningLayout(widths.running), "top_exponent": exponent},
            {"whole_distance": exponent},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        distance = distance_of(self.i.before.c, self.i.top_exponent, self.window)
        m.d.comb += self.o.whole_distance.eq(distance)
        return m


class ApproachNear(Section):
    """Moves c by the last digits of its distance, and finds its place in the window."""

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {
                "before": RunningLayout(widths.running),
                "whole_distance": signed(EXPONENT_BITS),
                "rows": self.window.rows,
            },
            {
                "near_c": near_bits(self.window),
                "distance": self.window.distance_bits,
                "reach": ReachLayout(),
                "addends": self.window.rows,
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        c, distance = self.i.before.c, self.i.whole_distance
        significand = significand_of(c, self.window.running)
        word: Value = Cat(Const(0, len(self.o.near_c) - len(significand)), significand)
        for level in range(NEAR_LEVELS):
            shifted = Signal(len(word), name=f"shifted{level}")
            m.d.comb += shifted.eq(Mux(distance[level], word >> (1 << level), word))
            word = shifted
        m.d.comb += [self.o.near_c.eq(word), self.o.distance.eq(distance)]
        find_reach(m, self.o.reach, distance, self.window)
        invert_rows(m, self, c[-1])
        return m


class ApproachFar(Section):
    """Moves c by the remaining digits of its distance."""

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {
                "near_c": near_bits(self.window),
                "distance": self.window.distance_bits,
                "reach": ReachLayout(),
            },
            {"aligned_c": self.window.bits, "c_discarded": discarded_bits(self.window)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        discarded = approach(m, self, self.i.near_c, far_levels(self.window), GATHERED)
        m.d.comb += self.o.c_discarded.eq(Cat(*discarded))
        return m


class AddToRows(Section):
    """c + S, or c - S, as two rows without the constant that negates S."""

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {
                "addends": self.window.rows,
                "aligned_c": self.window.bits,
                "c_discarded": discarded_bits(self.window),
            },
            {"joined": self.window.rows, "c_sticky": 1},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.c_sticky.eq(self.i.c_discarded.any())
        for word, row in zip(self.o.joined, join_rows(m, self), strict=True):
            m.d.comb += word.eq(Cat(*(bit.value for bit in row)))
        return m


def block_sizes(widths: Widths) -> list[int]:
    """Lengths of the blocks of the addition. The last block holds the two digits above the sum."""
    width = window_of(widths).row_bits
    sizes = [CUT_BLOCK] * (width // CUT_BLOCK)
    left = width - sum(sizes)
    return [*sizes, left] if left > 1 or not sizes else [*sizes[:-1], sizes[-1] + left]


def above_bits(window: Window) -> int:
    """Number of digits of c above the added places."""
    return window.bits - window.below - window.cut


class RunsLayout(data.StructLayout):
    """A bit per group of these digits: all digits below are ones, or zeros."""

    def __init__(self, window: Window) -> None:
        groups = len(range(SKIPPED, above_bits(window), SKIPPED))
        super().__init__({"ones": groups, "zeros": groups})


class AddInBlocks(Section):
    """The two rows added in blocks."""

    def __init__(self, widths: Widths) -> None:
        self.window, self.sizes = window_of(widths), block_sizes(widths)
        super().__init__(
            {
                "joined": self.window.rows,
                "before": RunningLayout(widths.running),
                "aligned_c": self.window.bits,
            },
            {"blocks": BlocksLayout(self.sizes), "runs": RunsLayout(self.window)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flip = self.i.before.c[-1]
        x, y = ([Bit(digit) for digit in row] for row in self.i.joined)
        add_rows(m, self, x, [Bit(flip), *y[1:]], flip)
        above, runs = above_window(self), self.o.runs
        m.d.comb += [
            runs.ones.eq(Cat(*skips(m, "ones", list(above)))),
            runs.zeros.eq(Cat(*skips(m, "zeros", [~digit for digit in above]))),
        ]
        return m


class CarriesLayout(data.StructLayout):
    """Carries into the blocks above the lowest, and their effect on the digits of c above the sum.

    over, under: c goes up or down by one there, without a carry into the last block and with one.
    ones, zeros: see `find_runs`, without the lowest place.
    """

    def __init__(self, window: Window, blocks: int) -> None:
        above = above_bits(window)
        super().__init__({"into": blocks - 1, "over": 2, "under": 2, "ones": above, "zeros": above})


class PassCarries(Section):
    """Carries through the blocks."""

    def __init__(self, widths: Widths) -> None:
        self.window, self.sizes = window_of(widths), block_sizes(widths)
        super().__init__(
            {
                "blocks": BlocksLayout(self.sizes),
                "aligned_c": self.window.bits,
                "runs": RunsLayout(self.window),
            },
            {"carries": CarriesLayout(self.window, len(self.sizes))},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words, out = words_of(self), self.o.carries
        digits = [block for block, _ in words]
        carries = carries_at_once(m, "add", digits, [carry for _, carry in words])
        *below, next_to_top, top = digits[-1]
        with_carry = [next_to_top ^ _all(below), top ^ (_all(below) & next_to_top)]
        above, runs = above_window(self), self.i.runs
        ones = runs_of_groups(m, "ones", list(above), list(runs.ones))
        zeros = runs_of_groups(m, "zeros", [~digit for digit in above], list(runs.zeros))
        m.d.comb += [
            out.into.eq(Cat(*carries[:-1])),
            out.over.eq(Cat(next_to_top & ~top, with_carry[0] & ~with_carry[1])),
            out.under.eq(Cat(top, with_carry[1])),
            out.ones.eq(Cat(*ones)),
            out.zeros.eq(Cat(*zeros)),
        ]
        return m


def _all(digits: list[Value]) -> Value:
    return Cat(*digits).all() if digits else Const(1, 1)


class PutCarries(Section):
    """Digits of c + S, from the blocks and their carries."""

    def __init__(self, widths: Widths) -> None:
        self.window, self.sizes = window_of(widths), block_sizes(widths)
        super().__init__(
            {
                "blocks": BlocksLayout(self.sizes),
                "aligned_c": self.window.bits,
                "carries": CarriesLayout(self.window, len(self.sizes)),
            },
            {"sum": TotalLayout(self.window)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        carries, digits = self.i.carries, [block for block, _ in words_of(self)]
        total = digits[0] + increment_blocks(m, "add", digits, list(carries.into))
        into_last = carries.into[-1] if len(digits) > 1 else Const(0, 1)
        over, under = (
            named(m, name, Mux(into_last, both[1], both[0]))
            for name, both in (("over", carries.over), ("under", carries.under))
        )
        first = Const(1, 1)
        ones, zeros = [first, *carries.ones], [first, *carries.zeros]
        put_sum(m, self, total[: self.window.cut], over, under, ones, zeros)
        return m
