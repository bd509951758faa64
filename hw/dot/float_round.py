"""Sections count, normalize, round: the total in the window to a float (float_loop.py)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from ...model.widths import Widths
from ..arithmetic.adders import increment, named
from ..arithmetic.floats import EXPONENT_BITS, RunningLayout, narrow_nan, special_of_float
from ..arithmetic.normalize import leading_zeros
from ..pipeline import Section
from .multiply import special_shape
from .window import ReachLayout, SignificandLayout, TotalLayout, range_value, window_of


class Count(Section):
    """Leading digits of the total that are as its sign; a stop at the exponent of the subnormals
    ends the count there. beyond_c: whether it has digits at place -1 or above."""

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {"sum": TotalLayout(self.window), "top_exponent": signed(EXPONENT_BITS)},
            {"count": self.window.count_bits, "beyond_c": 1},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        digits, negative = self.i["sum"].digits, self.i["sum"].negative
        # The leading digit that is not as the sign is the highest that differs from the one above.
        changes = Signal(self.window.bits)
        m.d.comb += [
            changes.eq(digits ^ Cat(digits[1:], negative)),
            self.o.count.eq(leading_zeros(m, changes | self._stop(m))),
            self.o.beyond_c.eq(changes[self.window.below - 1 :].any()),
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


class Normalize(Section):
    """The leading digit to the top, and what does not fit there discarded."""

    def __init__(self, widths: Widths) -> None:
        self.window = window_of(widths)
        super().__init__(
            {
                "sum": TotalLayout(self.window),
                "count": self.window.count_bits,
                "c_sticky": 1,
                "top_exponent": signed(EXPONENT_BITS),
            },
            {"normalized": SignificandLayout(self.window)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        out, count = self.o.normalized, self.i["count"]
        negative = self.i["sum"].negative
        word: Value = self.i["sum"].digits
        kept = self.window.significand_bits + 1  # and the guard
        discarded: list[Value] = [self.i.c_sticky]
        for level in reversed(range(len(count))):
            size = 1 << level
            # What smaller shifts cannot bring into the significand and the guard is discarded.
            width = min(len(word), kept + size - 1)
            moved = Mux(count[level], (word << size)[: len(word)], word)
            shifted = Signal(len(word), name=f"shifted{level}")
            m.d.comb += shifted.eq(moved)
            discarded.append(shifted[: len(word) - width].any())
            word = shifted[len(word) - width :]
        digits = word ^ negative.replicate(kept)
        m.d.comb += [
            out.significand.eq(digits[1:]),
            out.guard.eq(digits[0]),
            out.sticky.eq(Cat(discarded).any()),
            out.exponent.eq(self.i.top_exponent - count),
            out.negative.eq(negative),
            out.zero.eq(~negative & (count == self.window.bits)),
        ]
        return m


class FloatRound(Section):
    """RNE to the running value's format. Specials, and a c that is the result, come last through
    one and-or."""

    def __init__(self, widths: Widths) -> None:
        self.nan_bits = widths.config.accumulator.nan_bits
        self.fmt = widths.running
        super().__init__(
            {
                "normalized": SignificandLayout(window_of(widths)),
                "beyond_c": 1,
                "reach": ReachLayout(),
                "before": RunningLayout(self.fmt),
                "special": special_shape(widths),
                **({"sticky": 1} if _aligns(widths) else {}),
                **range_value(widths),
            },
            {"running": RunningLayout(self.fmt)},
        )
        self.aligns = _aligns(widths)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        x, before, fmt = self.i.normalized, self.i.before, self.fmt
        c, exponent, top = before.c, x.exponent, fmt.bits - 1
        odd = x.significand[0]
        up = Mux(x.negative, x.guard | (~x.sticky & odd), x.guard & (x.sticky | odd))
        up = named(m, "up", up)
        inexact = named(m, "inexact", Mux(x.negative, ~x.guard, x.guard) | x.sticky)
        least = exponent == 1
        lowest = named(m, "field0", exponent[0] & (x.significand[-1] | ~least))
        field = [lowest, *exponent[1 : fmt.exponent_bits]]
        beyond_field = exponent[fmt.exponent_bits :].any()
        too_large = named(m, "too_large", beyond_field | exponent[: fmt.exponent_bits].all())
        digits, _ = increment(m, "round", [*x.significand[:-1], *field], up)
        rounded = named(m, "rounded", Cat(*digits))
        result_field = rounded[fmt.mantissa_bits :]
        sign = named(m, "sign", c[top] ^ x.negative)
        c_special = special_of_float(m, c, "special_c", fmt)
        block_overflows = self._block_overflows(m, c_special)
        nan, infinite, infinite_sign = self._special(m, c_special, block_overflows)
        special = named(m, "special", nan | infinite)
        finite = ~special
        # Which of c, the rounded total and an infinity is the result, where all is finite.
        stays = named(m, "c_stays", self.i.reach.above | (self.i.reach.below & ~self.i.beyond_c))
        moves = named(m, "c_moves", ~stays & ~x.zero)
        computes = named(m, "takes_rounded", finite & moves & ~too_large)
        keeps = named(m, "takes_c", finite & stays)
        ones = named(m, "field_of_ones", special | (moves & too_large))
        nan_fraction = Const(
            narrow_nan(self.nan_bits, fmt) % 2**fmt.mantissa_bits, fmt.mantissa_bits
        )
        magnitude = (
            (rounded & computes.replicate(top))
            | (c[:top] & keeps.replicate(top))
            | Cat(
                nan_fraction & nan.replicate(fmt.mantissa_bits), ones.replicate(fmt.exponent_bits)
            )
        )
        negative = (
            # What is computed is 0 only where nothing is kept and nothing rounded up.
            (sign & computes & (up | x.significand.any()))
            | (sign & finite & moves & too_large)
            | (keeps & c[top] & c[:top].any())
            | (~nan & infinite & infinite_sign)
        )
        after, flags = self.o.running, before.flags
        overflows = finite & moves & (too_large | result_field.all())
        overflows = named(m, "overflows", overflows)
        beyond = self.i.reach.above & self.i.beyond_c
        # A negative power of two overflows by its carry alone.
        loses = named(m, "loses", Mux(stays, beyond, overflows | (~x.zero & inexact)))
        cut = self.i.sticky if self.aligns else Const(0, 1)
        tiny = Mux(stays, ~c[fmt.mantissa_bits : top].any(), ~result_field.any() & ~too_large)
        tiny = named(m, "tiny", tiny)
        m.d.comb += [
            after.c.eq(Cat(magnitude, negative)),
            after.flags.eq(flags),
        ]
        underflows = finite & loses & tiny
        inexact = finite & (loses | cut)
        if block_overflows is not None:
            overflows, inexact = overflows | block_overflows, inexact | block_overflows
            underflows |= finite & self.i.range.underflow
        m.d.comb += [
            after.flags.overflow.eq(flags.overflow | overflows),
            after.flags.underflow.eq(flags.underflow | underflows),
            after.flags.inexact.eq(flags.inexact | inexact),
        ]
        return m

    def _block_overflows(self, m: Module, c_special: data.View) -> Value | None:
        """Whether the block's sum is infinite where nothing else is special; None where it never
        is."""
        if "range" not in self.reads:
            return None
        overflows = Signal(name="block_overflows")
        special = c_special.as_value().any() | self.i.special[0].as_value().any()
        m.d.comb += overflows.eq(self.i.range.overflow & ~special)
        return overflows

    def _special(
        self, m: Module, c_special: data.View, block_overflows: Value | None
    ) -> tuple[Value, Value, Value]:
        """(NaN, infinite, the infinity's sign) of c and the terms together."""
        terms = self.i.special[0]
        positive, negative = Signal(name="positive"), Signal(name="negative_infinity")
        nan = Signal(name="nan")
        above, below = terms.pos_inf | c_special.pos_inf, terms.neg_inf | c_special.neg_inf
        if block_overflows is not None:
            above |= block_overflows & ~self.i.range.negative
            below |= block_overflows & self.i.range.negative
        m.d.comb += [
            positive.eq(above),
            negative.eq(below),
            nan.eq(terms.nan | c_special.nan | (positive & negative)),
        ]
        return nan, named(m, "infinite", positive | negative), negative


def _aligns(widths: Widths) -> bool:
    """Whether digits may be lost before the sum."""
    return widths.config.accumulator.alignment_bits is not None
