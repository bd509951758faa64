"""Sections distance, approach, add, carry: c + S in the window (float_loop.py)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from ...model.formats import FloatFormat
from ...model.widths import Widths
from ..arithmetic.adders import (
    add_in_blocks,
    even_blocks,
    named,
    pass_carries,
    pass_carries_at_once,
)
from ..arithmetic.columns import Bit, Columns
from ..arithmetic.floats import EXPONENT_BITS, RunningLayout
from ..pipeline import Section
from .narrow import c_value, carried, first_c
from .window import BlocksLayout, ReachLayout, TotalLayout, window_of

CUT_BLOCK = 6  # digits of a block of an addition that is cut before its carries


class Distance(Section):
    """How far c lies below the window's top place, of which top_exponent is the biased exponent."""

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
        window, before, reach = self.window, self.o.before, self.o.reach
        first, running, fmt = self.i.first, self.i.running, window.running
        m.d.comb += before.c.eq(Mux(first, first_c(self), running.c))
        for name, _ in running.flags.shape():
            m.d.comb += before.flags[name].eq(carried(self, name))
        distance = Signal(signed(EXPONENT_BITS))
        levels = window.distance_bits
        below = distance[:levels] >= window.sum_bits + window.significand_bits + 3
        m.d.comb += [
            # The exponent of a subnormal is that of the field 1.
            distance.eq(
                self.i.top_exponent
                - Cat(
                    before.c[fmt.mantissa_bits] | ~_normal(before.c, fmt),
                    before.c[fmt.mantissa_bits + 1 : fmt.bits - 1],
                )
            ),
            self.o.distance.eq(distance),
            reach.above.eq(distance[-1]),
            reach.outside.eq(~distance[-1] & distance[levels:-1].any()),
            reach.below.eq(reach.outside | (~distance[-1] & below)),
        ]
        return m


def _normal(c: Value, fmt: FloatFormat) -> Value:
    """The leading digit of a significand of `fmt`."""
    return c[fmt.mantissa_bits : fmt.bits - 1].any()


class Approach(Section):
    """c moved to the block's grid. c_sticky: whether it has digits below the window. addends: the
    rows of the block's sum, inverted where c is negative."""

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
        bits, reach, distance = self.window.bits, self.i.reach, self.i.distance
        c, fmt = self.i.before.c, self.window.running
        significand = Cat(c[: fmt.mantissa_bits], _normal(c, fmt))
        inside = significand & (~(reach.above | reach.outside)).replicate(len(significand))
        inside = named(m, "significand", inside)
        word: Value = Cat(Const(0, bits - len(significand)), inside)
        discarded: list[Value] = [reach.outside & significand.any()]
        for level in range(len(distance)):
            size = 1 << level
            shifted = Signal(bits, name=f"shifted{level}")
            m.d.comb += shifted.eq(Mux(distance[level], word >> size, word))
            discarded.append(distance[level] & word[:size].any())
            word = shifted
        m.d.comb += [self.o.aligned_c.eq(word), self.o.c_sticky.eq(Cat(discarded).any())]
        for row, inverted in zip(self.i.rows, self.o.addends, strict=True):
            m.d.comb += inverted.eq(row ^ c[-1].replicate(self.window.row_bits))
        return m


class Add(Section):
    """c + S, or c - S where c is negative, in places 0 to n + 2: blocks of digits, each with its
    carry, which the blocks above have not had yet."""

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
        window, out = self.window, self.o.blocks
        flip = self.i.before.c[-1]
        middle = self.i.aligned_c[window.below : window.below + window.cut]
        columns = Columns(m, "join", window.row_bits)
        for row in self.i.addends:
            columns.add(row)
        columns.add(middle, time=3.0)
        # -S = ~x + ~y + 2: one of the two in the free place of the carries, one as carry in.
        x, y = columns.compress(halves_from=window.row_bits)
        y = [Bit(flip), *y[1:]]
        blocks = add_in_blocks(m, "add", x, y, self.sizes, carry=flip)
        m.d.comb += out.digits.eq(Cat(*(digit for digits, _ in blocks for digit in digits)))
        m.d.comb += out.carries.eq(Cat(*(carry for _, carry in blocks)))
        return m


def is_cut(widths: Widths, kind: str) -> bool:
    """Whether there is a register behind the section of this kind."""
    pipeline = widths.config.pipeline
    return [part.kind for part in pipeline.sections].index(kind) in pipeline.registered


def add_blocks(widths: Widths) -> list[int]:
    """Lengths of the blocks of the addition: alike where a register stands before their carries."""
    width = window_of(widths).row_bits
    if is_cut(widths, "add"):
        return [min(CUT_BLOCK, width - place) for place in range(0, width, CUT_BLOCK)]
    *sizes, _ = even_blocks(width)
    return [*sizes, width - sum(sizes)]


class Carry(Section):
    """The digits of c + S in the window: carries through the blocks, and above them one up or
    down."""

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
        window, total, blocks = self.window, self.o.sum, self.i.blocks
        aligned_c = self.i.aligned_c
        below, above = aligned_c[: window.below], aligned_c[window.below + window.cut :]
        place, words = 0, []
        for size, carry in zip(self.sizes, blocks.carries, strict=True):
            words.append((list(blocks.digits[place : place + size]), carry))
            place += size
        if self.at_once:
            digits = pass_carries_at_once(m, "add", words)
        else:
            digits, _ = pass_carries(m, "add", words)
        over, under = Signal(), Signal()
        m.d.comb += [over.eq(digits[-2] & ~digits[-1]), under.eq(digits[-1])]
        upper, borrows = _up_or_down(m, above, over, under)
        m.d.comb += [
            total.digits.eq(Cat(below, *digits[: window.cut], *upper)),
            total.negative.eq(under & borrows),
        ]
        return m


def _up_or_down(m: Module, word: Value, up: Value, down: Value) -> tuple[list[Value], Value]:
    """(word + 1 with `up`, word - 1 with `down`; whether the word is 0).

    The word is early and `up` and `down` are late: what each digit does with them is known before.
    """
    result: list[Value] = []
    ones: Value = Const(1, 1)
    zeros: Value = Const(1, 1)
    for place, digit in enumerate(word):
        result.append(digit ^ ((up & ones) | (down & zeros)))
        all_ones, all_zeros = Signal(name=f"ones{place}"), Signal(name=f"zeros{place}")
        m.d.comb += [all_ones.eq(ones & digit), all_zeros.eq(zeros & ~digit)]
        ones, zeros = all_ones, all_zeros
    return result, zeros
