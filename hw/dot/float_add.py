"""Sections distance, approach, add, carry, each whole and in two parts: c + S in the window
(float_loop.py).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from ...model.formats import FloatFormat
from ...model.pipeline.widths import Widths
from ..arithmetic.adders import (
    SKIPPED,
    add_in_blocks,
    carries_at_once,
    even_blocks,
    increment_blocks,
    named,
    pass_carries,
    pass_carries_at_once,
    runs_of_groups,
    skips,
)
from ..arithmetic.columns import Bit, Columns
from ..arithmetic.floats import EXPONENT_BITS, RunningLayout
from ..hierarchy import constant, is_plain
from ..pipeline import Section
from .convert import c_value, carried, first_c
from .window import BlocksLayout, ReachLayout, TotalLayout, Window, window_of

CUT_BLOCK = 6  # digits of a block of an addition that is cut before its carries


class Distance(Section):
    """Distance of c below the top of the window in which c and S are added; the top place has the
    biased exponent `top_exponent`.

    Place 0 of the window is the last digit of S, and |S| < 2^n. The window reaches from place
    n + 24 down to place -25; for a c with p digits, p stands for 24. A c above the window is the
    result. A c at place -3 or below is the result if S is 0; otherwise it only tips the rounding.

    before: the caller's c with first, otherwise the running value; its flags. distance: places of
    the leading digit of c below the window's top.
    """

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {
                "running": RunningLayout(widths.running),
                "first": 1,
                **c_value(widths),
                "top_exponent": signed(EXPONENT_BITS),
            },
            {
                "before": RunningLayout(widths.running),
                "distance": self.window.distance_bits,
                "reach": ReachLayout(),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        choose_before(m, self)
        distance = Signal(signed(EXPONENT_BITS))
        below_top = distance_of(self.o.before.c, self.i.top_exponent, self.window)
        m.d.comb += [distance.eq(below_top), self.o.distance.eq(distance)]
        find_reach(m, self.o.reach, distance, self.window)
        return m


def choose_before(m: Module, section: Any) -> None:
    """Write `before`: the caller's c with `first`, otherwise the running value."""
    first, running, before = section.i.first, section.i.running, section.o.before
    m.d.comb += before.c.eq(Mux(first, first_c(section), running.c))
    for name, _ in running.flags.shape():
        m.d.comb += before.flags[name].eq(carried(section, name))


def distance_of(c: Value, top_exponent: Value, window: Window) -> Value:
    """Distance of c below the top place."""
    fmt = window.running
    # The exponent of a subnormal is that of the field 1.
    lowest = c[fmt.mantissa_bits] | ~_normal(c, fmt)
    return top_exponent - Cat(lowest, c[fmt.mantissa_bits + 1 : fmt.bits - 1])


def find_reach(m: Module, reach: data.View, distance: Value, window: Window) -> None:
    """`ReachLayout` of a distance of `EXPONENT_BITS`."""
    levels = window.distance_bits
    lowest = constant(m, "BELOW_WINDOW", window.sum_bits + window.significand_bits + 3, levels)
    below = distance[:levels] >= lowest
    m.d.comb += [
        reach.above.eq(distance[-1]),
        reach.outside.eq(~distance[-1] & distance[levels:-1].any()),
        reach.below.eq(reach.outside | (~distance[-1] & below)),
    ]


def significand_of(c: Value, fmt: FloatFormat) -> Value:
    """Significand of c."""
    return Cat(c[: fmt.mantissa_bits], _normal(c, fmt))


def _normal(c: Value, fmt: FloatFormat) -> Value:
    """Leading digit of a significand in `fmt`."""
    return c[fmt.mantissa_bits : fmt.bits - 1].any()


class ChooseBefore(Section):
    """The caller's c, or the running value.

    before: the caller's c with first, otherwise the running value; its flags.
    """

    def __init__(self, widths: Widths) -> None:
        running = RunningLayout(widths.running)
        super().__init__({"running": running, "first": 1, **c_value(widths)}, {"before": running})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        choose_before(m, self)
        return m


class WholeDistance(Section):
    """Distance of c below the top of the window in which c and S are added.

    Place 0 of the window is the last digit of S, and |S| < 2^n. The window reaches from place
    n + 24 down to place -25; for a c with p digits, p stands for 24. A c above the window is the
    result. A c at place -3 or below is the result if S is 0; otherwise it only tips the rounding.

    whole_distance: places of the leading digit of c below the window's top, negative above it.
    """

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


class Approach(Section):
    """Shifts c to its place in the window, on the grid of S. A c outside the window becomes 0 here.

    aligned_c: |c| in the window, the lowest place at bit 0. c_sticky: c has digits below the
    window. addends: rows of S, inverted if c is negative.
    """

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {
                "before": RunningLayout(widths.running),
                "distance": self.window.distance_bits,
                "reach": ReachLayout(),
                "rows": self.window.rows,
            },
            {"aligned_c": self.window.bits, "c_sticky": 1, "addends": self.window.rows},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        c = self.i.before.c
        significand = significand_of(c, self.window.running)
        levels = range(self.window.distance_bits)
        discarded = approach(m, self, significand, levels)
        m.d.comb += self.o.c_sticky.eq(Cat(discarded).any())
        invert_rows(m, self, c[-1])
        return m


def approach(
    m: Module, section: Any, significand: Value, levels: Iterable[int], gathers: int | None = None
) -> list[Value]:
    """Write `aligned_c`: a significand moved from the window's top to its place by these levels of
    its distance. Return a bit per discarded group of `gathers` digits, or one per level for None.
    """
    bits, reach, distance = section.window.bits, section.i.reach, section.i.distance
    inside = significand & (~(reach.above | reach.outside)).replicate(len(significand))
    inside = named(m, "significand", inside)
    word: Value = Cat(Const(0, bits - len(significand)), inside)
    discarded: list[Value] = [reach.outside & significand.any()]
    for level in levels:
        size = 1 << level
        shifted = Signal(bits, name=f"shifted{level}")
        m.d.comb += shifted.eq(Mux(distance[level], word >> size, word))
        step = gathers or size
        groups = (word[start : min(start + step, size)] for start in range(0, size, step))
        discarded += [distance[level] & group.any() for group in groups]
        word = shifted
    m.d.comb += section.o.aligned_c.eq(word)
    return discarded


def invert_rows(m: Module, section: Any, inverts: Value) -> None:
    """Write `addends`: the rows of a block's sum, inverted if c is negative."""
    for row, inverted in zip(section.i.rows, section.o.addends, strict=True):
        m.d.comb += inverted.eq(row ^ inverts.replicate(section.window.row_bits))


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


class ApproachNear(Section):
    """Moves c by the last digits of its distance, and finds its place in the window.

    near_c: significand of c, moved so far. distance: places of c below the window's top. addends:
    rows of S, inverted if c is negative.
    """

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
    """Moves c by the remaining digits of its distance.

    aligned_c: |c| in the window, the lowest place at bit 0. c_discarded: c has digits below the
    window, a bit per group of them.
    """

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


class Add(Section):
    """|c| + S, or |c| - S for a negative c, in the places of S and two above.

    c and the rows of S become two rows, which are added in blocks. No carry has entered the block
    above yet. -S is ~x + ~y + 2 for the rows x and y.
    """

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        self.sizes = add_blocks(widths)
        super().__init__(
            {
                "addends": self.window.rows,
                "aligned_c": self.window.bits,
                "before": RunningLayout(widths.running),
            },
            {"blocks": BlocksLayout(self.sizes)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flip = self.i.before.c[-1]
        x, y = join_rows(m, self)
        add_rows(m, self, x, [Bit(flip), *y[1:]], flip)
        return m


def join_rows(m: Module, section: Any) -> tuple[list[Bit], list[Bit]]:
    """Rows of a block's sum and digits of c in two rows. The second row has place 0 free."""
    window: Window = section.window
    middle = section.i.aligned_c[window.below : window.below + window.cut]
    columns = Columns(m, "join", window.row_bits)
    for row in section.i.addends:
        columns.add(row)
    columns.add(middle, time=3.0)
    return columns.compress(halves_from=window.row_bits)


def add_rows(m: Module, section: Any, x: list[Bit], y: list[Bit], flip: Value) -> None:
    """Write `blocks` of x + y and `flip`.

    -S = ~x + ~y + 2: one goes to the free place of the carries, one is the carry in.
    """
    blocks = add_in_blocks(m, "add", x, y, section.sizes, carry=flip)
    out = section.o.blocks
    m.d.comb += out.digits.eq(Cat(*(digit for digits, _ in blocks for digit in digits)))
    m.d.comb += out.carries.eq(Cat(*(carry for _, carry in blocks)))


def is_cut(widths: Widths, kind: str) -> bool:
    """True if a register follows the last section of this kind."""
    pipeline = widths.config.pipeline
    last = max(i for i, part in enumerate(pipeline.sections) if part.kind == kind)
    return last in pipeline.registered


def add_blocks(widths: Widths) -> list[int]:
    """Lengths of the blocks of the addition: equal if a register precedes their carries."""
    width = window_of(widths).row_bits
    if is_cut(widths, "add"):
        return [min(CUT_BLOCK, width - place) for place in range(0, width, CUT_BLOCK)]
    *sizes, _ = even_blocks(width)
    return [*sizes, width - sum(sizes)]


class AddToRows(Section):
    """|c| + S, or |c| - S for a negative c, as two rows without the constant that negates S.

    joined: two words whose sum is |c| + S, or |c| - S less that constant. c_sticky: c has digits
    below the window.
    """

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
    """The two rows added in blocks. The last block holds the two digits above S."""

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


class Carry(Section):
    """Digits of c + S in the window: carries pass through the blocks, and above them c goes up or
    down by one.

    The two highest added digits, which are above S, decide: up for 01, down for 10 and 11.
    """

    def __init__(self, widths: Widths) -> None:
        self.at_once = is_cut(widths, "add")
        self.window = window_of(widths)
        self.sizes = add_blocks(widths)
        super().__init__(
            {"blocks": BlocksLayout(self.sizes), "aligned_c": self.window.bits},
            {"sum": TotalLayout(self.window)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        digits = carried_digits(m, self)
        over, under = Signal(), Signal(name="under")
        m.d.comb += [over.eq(digits[-2] & ~digits[-1]), under.eq(digits[-1])]
        put_around(m, self, digits[: self.window.cut], over, under)
        return m


def carried_digits(m: Module, section: Any) -> list[Value]:
    """Digits of `blocks` with the carries."""
    words = words_of(section)
    if section.at_once:
        return pass_carries_at_once(m, "add", words)
    return pass_carries(m, "add", words)[0]


def words_of(section: Any) -> list[tuple[list[Value], Value]]:
    """(digits, carry out) per block of `blocks`."""
    blocks, place, words = section.i.blocks, 0, []
    for size, carry in zip(section.sizes, blocks.carries, strict=True):
        words.append((list(blocks.digits[place : place + size]), carry))
        place += size
    return words


def put_around(m: Module, section: Any, digits: Iterable[Value], over: Value, under: Value) -> None:
    """Write `sum`: the added places, the digits of c below, and those above, up or down by one."""
    if is_plain():
        _put_plain(m, section, digits, over, under)
        return
    ones, zeros = find_runs(m, above_window(section))
    put_sum(m, section, digits, over, under, ones, zeros)


def _put_plain(m: Module, section: Any, digits: Iterable[Value], over: Value, under: Value) -> None:
    """`put_around` by `+` and `-`."""
    above, total = above_window(section), section.o["sum"]
    upper = Signal(signed(len(above) + 2))
    m.d.comb += [
        upper.eq(above + over - under),
        total.digits.eq(
            Cat(section.i.aligned_c[: section.window.below], *digits, upper[: len(above)])
        ),
        total.negative.eq(upper[-1]),
    ]


def above_window(section: Any) -> Value:
    """Digits of c above the added places."""
    return section.i.aligned_c[section.window.below + section.window.cut :]


def find_runs(m: Module, word: Value) -> tuple[list[Value], list[Value]]:
    """(ones, zeros): a bit per place, and one above the word. All digits below are ones,
    or zeros.
    """
    ones: list[Value] = [Const(1, 1)]
    zeros: list[Value] = [Const(1, 1)]
    for place, digit in enumerate(word):
        all_ones, all_zeros = Signal(name=f"ones{place}"), Signal(name=f"zeros{place}")
        m.d.comb += [all_ones.eq(ones[-1] & digit), all_zeros.eq(zeros[-1] & ~digit)]
        ones.append(all_ones)
        zeros.append(all_zeros)
    return ones, zeros


def put_sum(
    m: Module,
    section: Any,
    digits: Iterable[Value],
    over: Value,
    under: Value,
    ones: Sequence[Value],
    zeros: Sequence[Value],
) -> None:
    """Write `sum` with the runs of c's digits above. The runs are early, `over` and
    `under` late.
    """
    total = section.o["sum"]
    upper = [
        digit ^ ((over & one) | (under & zero))
        for digit, one, zero in zip(above_window(section), ones, zeros, strict=False)
    ]
    m.d.comb += [
        total.digits.eq(Cat(section.i.aligned_c[: section.window.below], *digits, *upper)),
        total.negative.eq(under & zeros[-1]),
    ]


class CarriesLayout(data.StructLayout):
    """Carries into the blocks above the lowest, and their effect on the digits of c above the sum.

    over, under: c goes up or down by one there, without a carry into the last block and with one.
    ones, zeros: per place there, all digits up to it are ones, or zeros.
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
