"""Claims about combinational pieces: what they compute, in plain arithmetic, for all inputs."""

from collections.abc import Callable, Iterator
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...hw.arithmetic.adders import (
    AdderTree,
    add_in_blocks,
    carry_increment,
    even_blocks,
    increment,
    pass_carries_at_once,
    ripple,
)
from ...hw.arithmetic.columns import Bit, FullAdder
from ...hw.arithmetic.floats import FloatRounder
from ...hw.arithmetic.multiply import Multiplier
from ...hw.arithmetic.scale import ScaleAdder, ScaleMultiplier
from ...hw.arithmetic.select import LargestExponent
from ...hw.arithmetic.shift import Normalizer, RoundingShift, ShiftRight
from ...hw.dot.lane import AlignShifter
from ...model import DotConfig
from ...model.formats import (
    BFLOAT16,
    E4M3,
    FLOAT16,
    FLOAT32,
    INT4_SYMMETRIC,
    INT8_FULL,
    UINT8,
    FloatFormat,
    IntegerFormat,
)
from ...model.pipeline.widths import Widths
from .claim import Claim
from .observer import Rule, component
from .rounding import round_to


def claims() -> Iterator[Claim]:
    """Claims about every piece, at the widths of units with 32 lanes unless they say otherwise."""
    yield _piece("scale-adder", "exponent is (a - 127) + (b - 127), nan as 255 says",
                 ScaleAdder, _scale_adder)  # fmt: skip
    yield _piece("scale-multiplier", "E4M3 scales: the product of both, subnormals and zeros too",
                 lambda: ScaleMultiplier(E4M3), _scale_multiplier)  # fmt: skip
    for bits in (2, 4):
        yield _piece(f"multiplier:{bits}", f"product of {bits}-bit significands",
                     lambda bits=bits: Multiplier(bits, bits),
                     lambda m, p: p.product != p.a * p.b)  # fmt: skip
    yield _piece("full-adder-row:32", "2 carry + sum = a + b + c, in every place",
                 lambda: FullAdder(32), _full_adder)  # fmt: skip
    for form in ("ripple", "increment", "blocks", "at-once", "word"):
        yield _piece(f"adder:{form}", "sum and carry of 48-bit words, with a carry in where it has",
                     lambda form=form: Adder(form, 48), _adder(form))  # fmt: skip
    for count, bits in ((4, 4), (4, 8)):
        total = bits + 1 + (count - 1).bit_length()
        yield _piece(f"adder-tree:{count}x{bits}", f"sum of {count} signed terms of {bits} bits",
                     lambda c=count, b=bits, t=total: AdderTree(c, b, t), _tree(count))  # fmt: skip
    yield _piece("largest:32x5", "the largest exponent of the terms that are not zero",
                 lambda: LargestExponent(32, 5), _largest)  # fmt: skip
    for bits, amount in ((27, 11), (48, 6)):
        yield _piece(f"shift:{bits}", f"{bits} bits shifted right, and whether a one fell off",
                     lambda b=bits, a=amount: ShiftRight(b, a), _shift_right)  # fmt: skip
    for fraction in (3, 13, 25):
        yield _align(fraction)
    yield _piece("normalizer:48", "leading one to the top, and by how much",
                 lambda: Normalizer(48), _normalizer)  # fmt: skip
    yield _piece("normalizer:27-limited", "the same, no further than the limit",
                 lambda: Normalizer(27, limit_bits=11), _normalizer)  # fmt: skip
    yield _piece("normalizer:54-limited", "the same, as wide as `fused:25` has it",
                 lambda: Normalizer(54, limit_bits=11), _normalizer)  # fmt: skip
    for fmt, magnitude, nearest, bits in (
        (FLOAT32, 28, True, 23), (FLOAT32, 48, True, 23), (FLOAT32, 28, False, 13),
        (FLOAT32, 28, False, 23), (FLOAT16, 28, True, 10), (BFLOAT16, 28, True, 7),
    ):  # fmt: skip
        yield _rounder(fmt, magnitude, nearest, bits)
    for out in (INT8_FULL, UINT8, INT4_SYMMETRIC):
        yield _piece(f"requantize:{out.name}",
                     "a 32-bit sum shifted, rounded half up, zero point added, clipped",
                     lambda out=out: RoundingShift(32, 6, out), _requantized(out))  # fmt: skip


def _piece(
    name: str, says: str, make: Callable[[], wiring.Component], rule: Rule, bug: Any = None
) -> Claim:
    return Claim(name, says, lambda: component(make()), rule)


def _scale_adder(m: Module, p: Any) -> Value:
    nan = (p.a == 255) | (p.b == 255)
    return (p.nan != nan) | (~nan & (p.exponent != (p.a - 127) + (p.b - 127)))


def _scale_multiplier(m: Module, p: Any) -> Value:
    """Both sides in units of 2^-18, the product of the two smallest subnormals."""
    nan = (p.a == 0x7F) | (p.b == 0x7F)
    values = []
    for code in (p.a, p.b):
        fraction, field = code[:3], code[3:]
        values.append(Mux(field == 0, fraction, (8 + fraction) << (field - 1)[:4]))
    # exponent counts from 2 x (1 - 7), that of two subnormals.
    own = p.significand << (p.exponent + 12)[:5]
    return (p.nan != nan) | (~nan & (own != values[0] * values[1]))


def _full_adder(m: Module, p: Any) -> Value:
    bits = zip(p.a, p.b, p.c, p.sum, p.carry, strict=True)
    wrong = [2 * carry + total != a + b + c for a, b, c, total, carry in bits]
    return Cat(wrong).any()


class Adder(wiring.Component):
    """One of the adders of hw/arithmetic/adders.py, which are functions, as a component."""

    def __init__(self, form: str, bits: int) -> None:
        self.form, self.bits = form, bits
        ports = {"x": bits, "y": bits, "carry": 1}
        super().__init__({k: In(v) for k, v in ports.items()} | {"total": Out(bits + 1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        x, y = ([Bit(bit) for bit in word] for word in (self.x, self.y))
        sizes = even_blocks(self.bits)
        if self.form == "ripple":  # no carry in: it comes as a digit below
            first = Bit(self.carry)
            zero = Bit(Const(0, 1))
            digits = ripple(m, "add", [first, *x, zero], [first, *y, zero])[1:]
            over: Value = Const(0, 0)
        elif self.form == "increment":
            digits, over = carry_increment(m, "add", x, y, sizes, self.carry)
        elif self.form == "word":  # of one word: the other one counts for nothing
            digits, over = increment(m, "add", list(self.x), self.carry)
        elif self.form == "at-once":
            blocks = add_in_blocks(m, "add", [*x, Bit(Const(0, 1))], [*y, Bit(Const(0, 1))], [6],
                                   self.carry)  # fmt: skip
            digits, over = pass_carries_at_once(m, "add", blocks), Const(0, 0)
        else:  # blocks of one length
            digits, over = carry_increment(m, "add", x, y, [6], self.carry)
        m.d.comb += self.total.eq(Cat(*digits, over))
        return m


def _adder(form: str) -> Rule:
    return lambda m, p: p.total != p.x + (0 if form == "word" else p.y) + p.carry


def _tree(count: int) -> Rule:
    def wrong(m: Module, p: Any) -> Value:
        terms = [Mux(t.sign, -t.magnitude, t.magnitude) for t in (p.terms[i] for i in range(count))]
        return p.total != sum(terms[1:], start=terms[0])

    return wrong


def _largest(m: Module, p: Any) -> Value:
    terms = [(p.exponent[i], p.nonzero[i]) for i in range(len(p.nonzero))]
    above = Cat(nonzero & (exponent > p.largest) for exponent, nonzero in terms).any()
    reached = Cat(nonzero & (exponent == p.largest) for exponent, nonzero in terms).any()
    none = ~p.nonzero.any()
    return above | (p.any == none) | (~reached & ~(none & (p.largest == 0)))


def _shift_right(m: Module, p: Any) -> Value:
    lost = Cat((p.amount > place) & digit for place, digit in enumerate(p.value)).any()
    return (p.result != p.value >> p.amount) | (p.sticky != lost)


def _align(fraction: int) -> Claim:
    widths = Widths(DotConfig("e4m3", 32, f"aligned:{fraction}"))

    def wrong(m: Module, p: Any) -> Value:
        # One wide grid: F digits below the unit, and as many above as keep every digit.
        wide = Cat(Const(0, 32), p.significand) << fraction
        lost_digits = 32 + widths.product_fraction_bits
        kept = wide >> (p.distance + lost_digits)
        lost = kept << (p.distance + lost_digits) != wide
        bits = len(p.word)
        word = kept[:bits] ^ p.inverts.replicate(bits)
        return (p.word != word) | kept[bits:].any() | (p.sticky != lost)

    return Claim(
        f"align:{fraction}",
        f"an E4M3 product truncated to {fraction} digits below the largest, or its digits inverted",
        lambda: component(AlignShifter(widths, 6)), wrong,
    )  # fmt: skip


def _normalizer(m: Module, p: Any) -> Value:
    bits = len(p.value)
    limit = Signal(range(bits + 1))
    m.d.comb += limit.eq(bits)
    if hasattr(p, "limit"):
        m.d.comb += limit.eq(Mux(p.limit < bits, p.limit, bits))
    # Nothing falls off the top, and the shift ends at a leading one or at the limit.
    exact = p.result == p.value << p.amount
    ends = (p.amount <= limit) & (p.result[-1] | (p.amount == limit))
    return ~(exact & ends)


def _rounder(fmt: FloatFormat, magnitude: int, nearest: bool, fraction: int) -> Claim:
    how = f"RNE to {fmt.name}" if nearest else f"RZ to {fraction} fraction bits of {fmt.name}"

    def wrong(m: Module, p: Any) -> Value:
        rounded = round_to(m, p.magnitude, p.exponent, fmt, nearest, fraction)
        given = p.exponent >= fmt.emin
        result = Cat(rounded.bits, p.sign & (rounded.bits != 0))
        return (
            given
            & Cat(
                p.result != result,
                p.overflow != rounded.infinite,
                p.inexact != (rounded.inexact | rounded.infinite),
                p.underflow != (rounded.inexact & (rounded.bits[fmt.mantissa_bits :] == 0)),
            ).any()
        )

    def make() -> wiring.Component:
        return FloatRounder(magnitude, nearest=nearest, fraction_bits=fraction, fmt=fmt)

    kind = "rne" if nearest else f"rz{fraction}"
    return Claim(
        f"rounder:{fmt.name}-{kind}-{magnitude}",
        f"{how} of {magnitude} bits: result and flags", lambda: component(make()), wrong,
    )  # fmt: skip


def _requantized(out: IntegerFormat) -> Rule:
    def wrong(m: Module, p: Any) -> Value:
        # Above 34 nothing of the sum is left except its sign.
        shift = Mux(p.shift < 34, p.shift, 34)
        half = Signal(signed(37))
        m.d.comb += half.eq(((p.value << 1) + (Const(1) << shift)) >> (shift + 1))
        zero = p.zero.as_signed() if out.lowest < 0 else p.zero
        value = Signal(signed(40))
        m.d.comb += value.eq(half + zero)
        clipped = Mux(value < out.lowest, out.lowest, Mux(value > out.highest, out.highest, value))
        lost = (p.value >> shift) << shift != p.value
        return Cat(
            p.result != clipped[: out.bits], p.clipped != (clipped != value), p.inexact != lost
        ).any()

    return wrong
