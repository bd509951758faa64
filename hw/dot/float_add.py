"""Sections distance, approach, add, carry: c + S in the window (float_loop.py)."""

from collections.abc import Iterable, Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from ...model.formats import FloatFormat
from ...model.pipeline.widths import Widths
from ..arithmetic.adders import (
    add_in_blocks,
    even_blocks,
    named,
    pass_carries,
    pass_carries_at_once,
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


class Approach(Section):
    """Shifts c to its place in the window, on the grid of S.

    c_sticky: c has digits below the window. addends: rows of the block's sum, inverted if c is
    negative.
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


class Add(Section):
    """|c| + S, or |c| - S for a negative c, in the places of S and two above.

    The result is blocks of digits with their carries; no carry has entered the block above yet.
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


class Carry(Section):
    """Digits of c + S in the window: carries pass through the blocks, and above them c goes up or
    down by one.
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
        over, under = Signal(), Signal()
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
