"""The loop of the accumulators that add a block's sum, an integer on a grid, to a float32 c with
one rounding: sections approach, add, normalize, round.

The block's sum S lies on the grid of its last digit, |S| < 2^n. c comes to that grid, so that one
addition, one leading-zero count and one rounding remain. It is looked at through a window:

::

    place      n + 24          n + 1    0         -25
               |  upper digits  |  S     |  below  |  sticky
    c          1 ........................1                       anywhere; 24 digits

- A c whose leading digit is above the window is the result: |S| is then at most a quarter of its
  last place, or half of the last place below a power of two, which is a tie that c's even
  significand wins.
- A c whose leading digit is below place -3 is the result where S is zero, and else only tips the
  rounding: its digits below -25 are or-ed together.
- c counts as positive: where it is negative, S changes sign, and the result with it.

Only places 0 to n + 1 are added digit by digit; above them c goes up or down by one, below them it
is alone. A negative total is never negated: its digits are inverted where they are counted and
kept, and the one that makes a two's complement of them joins the rounding.
"""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from ...model.formats import FLOAT32
from ...model.widths import Widths
from ..arithmetic.adders import carry_increment, even_blocks, increment
from ..arithmetic.columns import Bit, Columns
from ..arithmetic.floats import (
    EXPONENT_BITS,
    FLOAT32_FRACTION,
    RunningLayout,
    special_of_float32,
)
from ..arithmetic.normalize import leading_zeros
from ..pipeline import Section
from .multiply import special_shape

SIGNIFICAND = FLOAT32.significand_bits
BELOW = 25  # places of the window below the grid


class Window:
    """The places of the window of a unit; `sum_bits` of |S|."""

    def __init__(self, sum_bits: int) -> None:
        self.sum_bits = sum_bits

    @property
    def row_bits(self) -> int:
        """Of the rows that are added: S, c below place n + 1, and a sign."""
        return self.sum_bits + 3

    @property
    def cut(self) -> int:
        """The first place above the addition."""
        return self.sum_bits + 1

    @property
    def top(self) -> int:
        """The highest place."""
        return self.sum_bits + SIGNIFICAND

    @property
    def bits(self) -> int:
        """Of the whole window."""
        return self.top + 1 + BELOW

    @property
    def count_bits(self) -> int:
        """Of the number of leading zeros."""
        return self.bits.bit_length()

    @property
    def rows(self) -> data.ArrayLayout:
        """The value `rows`: two words whose sum is S."""
        return data.ArrayLayout(self.row_bits, 2)


class ReachLayout(data.StructLayout):
    """Where c lies: `above` the window, or `below` place -3; `sticky`, whether it has digits below
    the window."""

    def __init__(self) -> None:
        super().__init__({"above": 1, "below": 1, "sticky": 1})


class TotalLayout(data.StructLayout):
    """The digits of c + S in the window, two's complement with the sign `negative`."""

    def __init__(self, window: Window) -> None:
        super().__init__({"digits": window.bits, "negative": 1})


class SignificandLayout(data.StructLayout):
    """A total normalised: kept (24 bits), guard and sticky of what is discarded, of its magnitude
    less one digit where it is negative; exponent: the biased field, 1 at least. zero: it is 0."""

    def __init__(self) -> None:
        super().__init__(
            {
                "kept": SIGNIFICAND,
                "guard": 1,
                "sticky": 1,
                "exponent": signed(EXPONENT_BITS),
                "negative": 1,
                "zero": 1,
            }
        )


class Approach(Section):
    """c moved to the block's grid. top_exponent: the biased exponent of the window's top place."""

    def __init__(self, widths: Widths, window: Window) -> None:
        self.window = window
        super().__init__(
            {
                "running": RunningLayout(),
                "first": 1,
                "c": 32,
                "top_exponent": signed(EXPONENT_BITS),
            },
            {"before": RunningLayout(), "aligned_c": window.bits, "reach": ReachLayout()},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        window, before, reach = self.window, self.o.before, self.o.reach
        first, running = self.i.first, self.i.running
        m.d.comb += before.c.eq(Mux(first, self.i.c, running.c))
        for name, _ in running.flags.shape():
            m.d.comb += before.flags[name].eq(~first & running.flags[name])
        fraction = before.c[:FLOAT32_FRACTION]
        field = before.c[FLOAT32_FRACTION:31]
        normal = field.any()
        distance = Signal(signed(EXPONENT_BITS))
        # The exponent of a subnormal is that of the field 1.
        m.d.comb += distance.eq(self.i.top_exponent - Cat(field[0] | ~normal, field[1:]))
        levels = (window.bits - 1).bit_length()
        beyond = Signal()
        m.d.comb += [
            reach.above.eq(distance[-1]),
            beyond.eq(~distance[-1] & distance[levels:-1].any()),
            reach.below.eq(beyond | (~distance[-1] & (distance[:levels] >= window.sum_bits + 27))),
        ]
        inside = ~(distance[-1] | beyond)
        significand = Cat(fraction, normal) & inside.replicate(SIGNIFICAND)
        word: Value = Cat(Const(0, window.bits - SIGNIFICAND), significand)
        lost: list[Value] = [beyond & Cat(fraction, normal).any()]
        for level in range(levels):
            size = 1 << level
            shifted = Signal(window.bits, name=f"shifted{level}")
            m.d.comb += shifted.eq(Mux(distance[level], word >> size, word))
            lost.append(distance[level] & word[:size].any())
            word = shifted
        m.d.comb += [self.o.aligned_c.eq(word), reach.sticky.eq(Cat(lost).any())]
        return m


class Add(Section):
    """c + S, or c - S where c is negative: its digits in the window."""

    def __init__(self, widths: Widths, window: Window) -> None:
        self.window = window
        super().__init__(
            {"rows": window.rows, "aligned_c": window.bits, "before": RunningLayout()},
            {"sum": TotalLayout(window)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        window = self.window
        flip = self.i.before.c[31]
        below, above = self.i.aligned_c[:BELOW], self.i.aligned_c[BELOW + window.cut :]
        middle = self.i.aligned_c[BELOW : BELOW + window.cut]
        columns = Columns(m, "join", window.row_bits)
        for row in self.i.rows:
            columns.add(row ^ flip.replicate(window.row_bits))
        columns.add(middle, time=3.0)
        # -S = ~x + ~y + 2: one of the two in the free place of the carries, one as carry in.
        x, y = columns.compress(halves_from=window.row_bits)
        y = [Bit(flip), *y[1:]]
        sizes = even_blocks(window.row_bits)
        digits, _ = carry_increment(m, "add", x, y, sizes, carry=flip)
        over, under = Signal(), Signal()
        m.d.comb += [over.eq(digits[-2] & ~digits[-1]), under.eq(digits[-1])]
        upper, borrows = _up_or_down(m, above, over, under)
        total = self.o.sum
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


class Normalize(Section):
    """The leading one to the top; a stop at the exponent of the subnormals ends the count there."""

    def __init__(self, widths: Widths, window: Window) -> None:
        self.window = window
        super().__init__(
            {
                "sum": TotalLayout(window),
                "reach": ReachLayout(),
                "top_exponent": signed(EXPONENT_BITS),
            },
            {"normalized": SignificandLayout(), "beyond_c": 1},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        window, out = self.window, self.o.normalized
        digits, negative = self.i["sum"].digits, self.i["sum"].negative
        # The leading digit that is not as the sign is the highest that differs from the one above.
        changes = Signal(window.bits)
        m.d.comb += changes.eq(digits ^ Cat(digits[1:], negative))
        count = leading_zeros(m, changes | self._stop(m))
        word: Value = digits
        lost: list[Value] = [self.i.reach.sticky]
        for level in reversed(range(len(count))):
            size = 1 << level
            # What smaller shifts cannot bring into the significand and the guard is discarded.
            width = min(len(word), SIGNIFICAND + 1 + size - 1)
            moved = Mux(count[level], (word << size)[: len(word)], word)
            shifted = Signal(len(word), name=f"shifted{level}")
            m.d.comb += shifted.eq(moved)
            lost.append(shifted[: len(word) - width].any())
            word = shifted[len(word) - width :]
        kept = word ^ negative.replicate(SIGNIFICAND + 1)
        m.d.comb += [
            out.kept.eq(kept[1:]),
            out.guard.eq(kept[0]),
            out.sticky.eq(Cat(lost).any()),
            out.exponent.eq(self.i.top_exponent - count),
            out.negative.eq(negative),
            out.zero.eq(~negative & (count == window.bits)),
            self.o.beyond_c.eq(changes[BELOW - 1 :].any()),
        ]
        return m

    def _stop(self, m: Module) -> Value:
        """A one at the place of the exponent 1, where that lies in the window."""
        exponent, bits = self.i.top_exponent, self.window.bits
        half = (bits.bit_length() + 1) // 2
        low, high = exponent[:half], exponent[half : 2 * half]
        inside = ~exponent[2 * half :].any()
        lows = [_matches(m, f"low{k}", low, k) for k in range(1 << half)]
        highs = [_matches(m, f"high{k}", high, k) & inside for k in range(1 << half)]
        # With the biased exponent e at the top place, that of e - 1 places below is 1.
        places = [lows[e & ((1 << half) - 1)] & highs[e >> half] for e in range(1, bits + 1)]
        return Cat(*reversed(places))


def _matches(m: Module, name: str, word: Value, value: int) -> Value:
    match = Signal(name=name)
    m.d.comb += match.eq(word == value)
    return match


class Round(Section):
    """RNE to float32. Specials, and a c that is the result, come last through one and-or."""

    def __init__(self, widths: Widths) -> None:
        self.nan_bits = widths.config.accumulator.nan_bits
        super().__init__(
            {
                "normalized": SignificandLayout(),
                "beyond_c": 1,
                "reach": ReachLayout(),
                "before": RunningLayout(),
                "special": special_shape(widths),
                **({"sticky": 1} if _aligns(widths) else {}),
            },
            {"running": RunningLayout()},
        )
        self.aligns = _aligns(widths)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        x, before = self.i.normalized, self.i.before
        c, exponent = before.c, x.exponent
        odd = x.kept[0]
        up = Mux(x.negative, x.guard | (~x.sticky & odd), x.guard & (x.sticky | odd))
        inexact = Mux(x.negative, ~x.guard | x.sticky, x.guard | x.sticky)
        least = exponent == 1
        field = Cat(exponent[0] & (x.kept[-1] | ~least), exponent[1:8])
        too_large = exponent[8:].any() | exponent[:8].all()
        packed, _ = increment(m, "round", [*x.kept[:-1], *field], up)
        rounded, overflows = Signal(31), Signal()
        sign = c[31] ^ x.negative
        stays = self.i.reach.above | (self.i.reach.below & ~self.i.beyond_c)
        result_field = rounded[FLOAT32_FRACTION:]
        finite = Signal()
        m.d.comb += [
            rounded.eq(Cat(*packed)),
            overflows.eq(finite & ~stays & ~x.zero & (too_large | result_field.all())),
        ]
        nan, infinite, infinite_sign = self._special(m, c)
        m.d.comb += finite.eq(~(nan | infinite))
        computes = finite & ~stays & ~x.zero & ~too_large
        keeps = finite & stays
        ones = ~finite | (~stays & ~x.zero & too_large)
        nan_fraction = Const(self.nan_bits % 2**FLOAT32_FRACTION, FLOAT32_FRACTION)
        magnitude = (
            (rounded & computes.replicate(31))
            | (c[:31] & keeps.replicate(31))
            | Cat(nan_fraction & nan.replicate(FLOAT32_FRACTION), ones.replicate(8))
        )
        negative = (
            # What is computed is 0 only where nothing is kept and nothing rounded up.
            (sign & computes & (up | x.kept.any()))
            | (sign & finite & ~stays & ~x.zero & too_large)
            | (keeps & c[31] & c[:31].any())
            | (~nan & infinite & infinite_sign)
        )
        after, flags = self.o.running, before.flags
        beyond = self.i.reach.above & self.i.beyond_c
        # A negative power of two overflows by its carry alone.
        loses = Mux(stays, beyond, overflows | (~x.zero & inexact))
        cut = self.i.sticky if self.aligns else Const(0, 1)
        tiny = Mux(stays, ~c[FLOAT32_FRACTION:31].any(), ~result_field.any() & ~too_large)
        m.d.comb += [
            after.c.eq(Cat(magnitude, negative)),
            after.flags.eq(flags),
        ]
        m.d.comb += [
            after.flags.overflow.eq(flags.overflow | overflows),
            after.flags.underflow.eq(flags.underflow | (finite & loses & tiny)),
            after.flags.inexact.eq(flags.inexact | (finite & (loses | cut))),
        ]
        return m

    def _special(self, m: Module, c: Value) -> tuple[Value, Value, Value]:
        """(NaN, infinite, the infinity's sign) of c and the terms together."""
        terms, running = self.i.special[0], special_of_float32(m, c, "special_c")
        positive, negative = Signal(name="positive"), Signal(name="negative_infinity")
        nan = Signal(name="nan")
        m.d.comb += [
            positive.eq(terms.pos_inf | running.pos_inf),
            negative.eq(terms.neg_inf | running.neg_inf),
            nan.eq(terms.nan | running.nan | (positive & negative)),
        ]
        return nan, positive | negative, negative


def _aligns(widths: Widths) -> bool:
    """Whether digits may be lost before the sum."""
    return widths.config.accumulator.alignment_bits is not None


def sections(window: Callable[[Widths], Window]) -> dict[str, Callable[[Widths], Section]]:
    """The sections of the loop, for units with this window."""
    return {
        "approach": lambda widths: Approach(widths, window(widths)),
        "add": lambda widths: Add(widths, window(widths)),
        "normalize": lambda widths: Normalize(widths, window(widths)),
        "round": Round,
    }
