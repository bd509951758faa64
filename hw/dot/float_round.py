"""Sections count, normalize, round, each whole and in parts: the total in the window to a float
(float_loop.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import data

from ...model.formats import FloatFormat
from ...model.pipeline.widths import Widths
from ..arithmetic.adders import SKIPPED, increment, increment_groups, named, skips
from ..arithmetic.floats import EXPONENT_BITS, RunningLayout, narrow_nan, special_of_float
from ..arithmetic.shift import leading_zeros
from ..hierarchy import constant
from ..pipeline import Section
from .multiply import special_shape
from .window import (
    ReachLayout,
    SignificandLayout,
    TotalLayout,
    Window,
    range_value,
    sticky_bits,
    window_of,
)


class Count(Section):
    """Number of leading digits equal to the total's sign. The exponent of the subnormals stops the
    count.

    changes has a one where a digit differs from the digit above. A one at the place of the biased
    exponent 1 joins them; the highest of these ones ends the count.

    count: places above the leading digit unlike the sign. beyond_c: the total has digits at place
    -1 or above.
    """

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {"sum": TotalLayout(self.window), "top_exponent": signed(EXPONENT_BITS)},
            {"count": self.window.count_bits, "beyond_c": 1},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        changes = Signal(self.window.bits)
        stop = stop_of(m, self.i.top_exponent, self.window)
        m.d.comb += [
            self.o.count.eq(leading_zeros(m, changes | stop)),
            changes.eq(changes_of(self.i["sum"])),
            self.o.beyond_c.eq(changes[self.window.below - 1 :].any()),
        ]
        return m


def changes_of(total: data.View) -> Value:
    """Digits that differ from the digit above. The highest is the leading digit unlike the sign."""
    return total.digits ^ Cat(total.digits[1:], total.negative)


def stop_of(m: Module, exponent: Value, window: Window) -> Value:
    """A one at the place of the biased exponent 1, if the window has this place."""
    bits = window.bits
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


class CountMarks(Section):
    """Ones at the places where the count may end; the highest ends it.

    marks: ones where the count may end. beyond_c: the total has digits at place -1 or above.
    """

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
    """Number of places above the highest mark.

    count: places above the highest mark.
    """

    def __init__(self, widths: Widths) -> None:
        window = window_of(widths)
        super().__init__({"marks": window.bits}, {"count": window.count_bits})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o["count"].eq(leading_zeros(m, self.i.marks))
        return m


def normalize_inputs(window: Window) -> dict[str, ShapeLike]:
    """Values that `normalize` reads."""
    return {
        "sum": TotalLayout(window),
        "count": window.count_bits,
        "c_sticky": 1,
        "top_exponent": signed(EXPONENT_BITS),
    }


class Normalize(Section):
    """Shifts the leading digit to the top and gathers the digits that do not fit.

    A negative total is inverted; the one that completes its two's complement joins the rounding.
    """

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            normalize_inputs(self.window), {"normalized": SignificandLayout(self.window)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count, total = self.i["count"], self.i["sum"]
        word, discarded = move_up(m, total.digits, count, range(len(count)), self.window)
        out = self.o.normalized
        put_digits(m, out, word, [self.i.c_sticky, *discarded], total.negative)
        every = constant(m, "WINDOW_BITS", self.window.bits, len(count))
        m.d.comb += [
            out.exponent.eq(self.i.top_exponent - count),
            out.negative.eq(total.negative),
            out.zero.eq(~total.negative & (count == every)),
        ]
        return m


def kept_bits(window: Window) -> int:
    """Width of significand and guard."""
    return window.significand_bits + 1


def move_up(
    m: Module, word: Value, count: Value, levels: Sequence[int], window: Window
) -> tuple[Value, list[Value]]:
    """(word shifted left by these levels of `count`, a bit per level: it discarded a one).

    The highest level comes first. A level discards the digits that smaller levels cannot move into
    significand and guard.
    """
    discarded: list[Value] = []
    for level in reversed(levels):
        size = 1 << level
        width = min(len(word), kept_bits(window) + size - 1)
        moved = Mux(count[level], (word << size)[: len(word)], word)
        shifted = Signal(len(word), name=f"shifted{level}")
        m.d.comb += shifted.eq(moved)
        discarded.append(shifted[: len(word) - width].any())
        word = shifted[len(word) - width :]
    return word, discarded


def put_digits(
    m: Module, out: data.View, word: Value, discarded: Sequence[Value], negative: Value
) -> None:
    """Write the digits of a `SignificandLayout` from a word with its leading one at the top."""
    digits = word ^ negative.replicate(len(word))
    m.d.comb += [
        out.significand.eq(digits[1:]),
        out.guard.eq(digits[0]),
        out.sticky.eq(Cat(*discarded).any()),
    ]


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


class NormalizeHigh(Section):
    """Shifts the total by the first digits of the count."""

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(normalize_inputs(self.window), {"high": HighLayout(self.window)})

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


class FloatRound(Section):
    """Rounds the total to the running value's format, RNE.

    The sign is that of c, inverted for a negative total.
    Field and fraction are incremented as one number: a carry out of the fraction raises the field.
    The field of a subnormal, whose exponent is that of the field 1, is 0. Specials, and a c that is
    the result, come last, through one and-or.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths, self.fmt = widths, widths.running
        super().__init__(
            {
                "normalized": SignificandLayout(window_of(widths)),
                **case_inputs(widths),
                **result_inputs(widths),
            },
            {"running": RunningLayout(self.fmt)},
        )
        self.aligns = aligns(widths)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        x = self.i.normalized
        cases = find_rounding(m, x, self.fmt)
        rounded = round_up(m, x, cases, self.fmt)
        cases |= find_cases(m, self, x, cases)
        put_result(m, self, rounded, cases)
        return m


def case_inputs(widths: Widths) -> dict[str, ShapeLike]:
    """Values that decide the result, besides the total and `range`."""
    return {
        "beyond_c": 1,
        "reach": ReachLayout(),
        "before": RunningLayout(widths.running),
        "special": special_shape(widths),
    }


def result_inputs(widths: Widths) -> dict[str, ShapeLike]:
    """Further values in the result. sticky: digits were lost before the sum."""
    return {
        "before": RunningLayout(widths.running),
        **({"sticky": sticky_bits(widths)} if aligns(widths) else {}),
        **range_value(widths),
    }


def aligns(widths: Widths) -> bool:
    """True if digits may be lost before the sum."""
    return widths.config.accumulator.alignment_bits is not None


def case_names(widths: Widths) -> list[str]:
    """Names of the bits of `find_rounding` and `find_cases`."""
    overflows = ["block_overflows"] if range_value(widths) else []
    return [
        *("up", "inexact", "field0", "too_large", "sign", "nan", "infinite", "infinite_sign"),
        *("special", "stays", "moves", "takes_rounded", "takes_c", "field_of_ones", "some"),
        *("zero", "beyond", *overflows),
    ]


Cases = Mapping[str, Value]


def find_rounding(m: Module, x: Any, fmt: FloatFormat) -> dict[str, Value]:
    """Bits for a `SignificandLayout`: it rounds up, is inexact, is too large before rounding; its
    field's lowest digit.
    """
    exponent, odd = x.exponent, x.significand[0]
    up = Mux(x.negative, x.guard | (~x.sticky & odd), x.guard & (x.sticky | odd))
    up = named(m, "up", up)
    inexact = named(m, "inexact", Mux(x.negative, ~x.guard, x.guard) | x.sticky)
    least = exponent == constant(m, "LEAST_EXPONENT", 1, signed(EXPONENT_BITS))
    lowest = named(m, "field0", exponent[0] & (x.significand[-1] | ~least))
    beyond_field = exponent[fmt.exponent_bits :].any()
    too_large = named(m, "too_large", beyond_field | exponent[: fmt.exponent_bits].all())
    return {"up": up, "inexact": inexact, "field0": lowest, "too_large": too_large}


def round_up(m: Module, x: Any, cases: Cases, fmt: FloatFormat) -> Value:
    """Fraction and field, rounded."""
    digits, _ = increment(m, "round", unrounded(x, cases, fmt), cases["up"])
    return named(m, "rounded", Cat(*digits))


def unrounded(x: Any, cases: Cases, fmt: FloatFormat) -> list[Value]:
    """Fraction and field before rounding."""
    return [*x.significand[:-1], cases["field0"], *x.exponent[1 : fmt.exponent_bits]]


def find_cases(m: Module, section: Any, x: Any, rounding: Cases) -> dict[str, Value]:
    """Bits that select the result: c, the rounded total `x`, an infinity or a NaN."""
    reach, fmt = section.i.reach, section.fmt
    c, too_large = section.i.before.c, rounding["too_large"]
    sign = named(m, "sign", c[fmt.bits - 1] ^ x.negative)
    c_special = special_of_float(m, c, "special_c", fmt)
    block_overflows = _block_overflows(m, section, c_special)
    nan, infinite, infinite_sign = _special(m, section, c_special, block_overflows)
    special = named(m, "special", nan | infinite)
    finite = ~special
    # If everything is finite, the result is c, the rounded total or an infinity.
    stays = named(m, "c_stays", reach.above | (reach.below & ~section.i.beyond_c))
    moves = named(m, "c_moves", ~stays & ~x.zero)
    return {
        "sign": sign,
        "nan": nan,
        "infinite": infinite,
        "infinite_sign": infinite_sign,
        "special": special,
        "stays": stays,
        "moves": moves,
        "takes_rounded": named(m, "takes_rounded", finite & moves & ~too_large),
        "takes_c": named(m, "takes_c", finite & stays),
        "field_of_ones": named(m, "field_of_ones", special | (moves & too_large)),
        "some": rounding["up"] | x.significand.any(),
        "zero": x.zero,
        "beyond": reach.above & section.i.beyond_c,
        **({} if block_overflows is None else {"block_overflows": block_overflows}),
    }


def put_result(m: Module, section: Any, rounded: Value, cases: Cases) -> None:
    """Write `running`: the selected result, the flags so far and the new flags."""
    before, fmt, after = section.i.before, section.fmt, section.o.running
    c, top, flags = before.c, fmt.bits - 1, before.flags
    result_field, nan = rounded[fmt.mantissa_bits :], cases["nan"]
    computes, keeps, sign = cases["takes_rounded"], cases["takes_c"], cases["sign"]
    stays, moves, too_large = cases["stays"], cases["moves"], cases["too_large"]
    finite = ~cases["special"]
    nan_bits = narrow_nan(section.widths.config.accumulator.nan_bits, fmt)
    nan_fraction = Const(nan_bits % 2**fmt.mantissa_bits, fmt.mantissa_bits)
    magnitude = (
        (rounded & computes.replicate(top))
        | (c[:top] & keeps.replicate(top))
        | Cat(
            nan_fraction & nan.replicate(fmt.mantissa_bits),
            cases["field_of_ones"].replicate(fmt.exponent_bits),
        )
    )
    negative = (
        # A computed result is 0 only if no digit is kept and none rounded up.
        (sign & computes & cases["some"])
        | (sign & finite & moves & too_large)
        | (keeps & c[top] & c[:top].any())
        | (~nan & cases["infinite"] & cases["infinite_sign"])
    )
    overflows = finite & moves & (too_large | result_field.all())
    overflows = named(m, "overflows", overflows)
    # A negative power of two overflows by its carry alone.
    loses = Mux(stays, cases["beyond"], overflows | (~cases["zero"] & cases["inexact"]))
    loses = named(m, "loses", loses)
    cut = section.i.sticky if "sticky" in section.reads else Const(0, 1)
    cut = cut.any() if len(cut) > 1 else cut
    tiny = Mux(stays, ~c[fmt.mantissa_bits : top].any(), ~result_field.any() & ~too_large)
    tiny = named(m, "tiny", tiny)
    m.d.comb += [
        after.c.eq(Cat(magnitude, negative)),
        after.flags.eq(flags),
    ]
    underflows = finite & loses & tiny
    inexact = finite & (loses | cut)
    if "block_overflows" in case_names(section.widths):
        overflows |= cases["block_overflows"]
        inexact |= cases["block_overflows"]
        underflows |= finite & section.i.range.underflow
    m.d.comb += [
        after.flags.overflow.eq(flags.overflow | overflows),
        after.flags.underflow.eq(flags.underflow | underflows),
        after.flags.inexact.eq(flags.inexact | inexact),
    ]


def _block_overflows(m: Module, section: Any, c_special: data.View) -> Value | None:
    """1 if the block's sum is infinite and no operand is special; None if it cannot be infinite."""
    if "range" not in section.reads:
        return None
    overflows = Signal(name="block_overflows")
    special = c_special.as_value().any() | section.i.special[0].as_value().any()
    m.d.comb += overflows.eq(section.i.range.overflow & ~special)
    return overflows


def _special(
    m: Module, section: Any, c_special: data.View, block_overflows: Value | None
) -> tuple[Value, Value, Value]:
    """(NaN, infinite, the infinity's sign) of c and the terms together."""
    terms = section.i.special[0]
    positive, negative = Signal(name="positive"), Signal(name="negative_infinity")
    nan = Signal(name="nan")
    above, below = terms.pos_inf | c_special.pos_inf, terms.neg_inf | c_special.neg_inf
    if block_overflows is not None:
        above |= block_overflows & ~section.i.range.negative
        below |= block_overflows & section.i.range.negative
    m.d.comb += [
        positive.eq(above),
        negative.eq(below),
        nan.eq(terms.nan | c_special.nan | (positive & negative)),
    ]
    return nan, named(m, "infinite", positive | negative), negative


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
    """Inverts the digits of a negative total, selects the result, and decides the rounding.

    cases: bits that select the result and its rounding. skips: a bit per group of digits, all
    digits below it are ones.
    """

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
    """Rounds the total.

    rounded: exponent field and fraction.
    """

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
