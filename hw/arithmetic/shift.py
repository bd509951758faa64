"""Shifters, the leading-zero count and normaliser, and the rounding shift of integers."""

from collections.abc import Mapping
from functools import reduce
from itertools import groupby
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import IntegerFormat
from .adders import named

ZERO = Const(0, 1)


def shift_left(
    m: Module, value: Value, amount: Value, name: str = "shifted", fill: Value = ZERO
) -> Value:
    """`value` shifted left by `amount`, as wide as `value`: a logarithmic shifter. `fill`: bit that
    comes in.
    """
    for level in range(len(amount)):
        shifted = Signal(len(value), name=f"{name}{level}")
        moved = Cat(fill.replicate(2**level), value)
        m.d.comb += shifted.eq(Mux(amount[level], moved, value))
        value = shifted
    return value


def place_left(
    m: Module, value: Value, amount: Value, amounts: range, name: str, fill: Value = ZERO
) -> Value:
    """`value` shifted left by `amount`, one of `amounts`, less the least of them; `fill` comes in.

    The lower half of the amount's digits shifts by levels, while the word is short. The upper half
    selects among places.
    """
    near = (amounts[-1].bit_length()) // 2
    low, step = amounts[0], 1 << near
    word = shift_left(m, Cat(value, fill.replicate(step - 1)), amount[:near], name, fill)
    starts = {k: k * step - low for k in range(low // step, amounts[-1] // step + 1)}
    width = len(value) + amounts[-1] - low
    return select_place(m, word, amount[near:], starts, width, name, fill, others=False)


def place_right(m: Module, value: Value, amount: Value, name: str, fill: Value = ZERO) -> Value:
    """`value` shifted right by any `amount`, in the manner of `place_left`; `fill` comes in."""
    width = len(value)
    near = min(len(amount), (width - 1).bit_length()) // 2
    step = 1 << near
    for level in range(near):
        moved = Cat(value[2**level :], fill.replicate(2**level))
        value = named(m, f"{name}_shifted{level}", Mux(amount[level], moved, value))
    starts = {k: -step * k for k in range(-(-width // step)) if k < 1 << len(amount[near:])}
    return select_place(m, value, amount[near:], starts, width, name, fill)


def select_place(
    m: Module,
    word: Value,
    choice: Value,
    starts: Mapping[int, int],
    width: int,
    name: str,
    fill: Value = ZERO,
    others: bool = True,
) -> Value:
    """`word` from place starts[`choice`] on, in `width` places, and `fill` in all other places.

    Each place takes a decoder and an and-or: few digits of a short word can reach any one place.
    others: True if `choice` may be none of `starts`; all places are `fill` then.
    """
    chosen = {k: named(m, f"{name}_is{k}", choice == k) for k in starts}
    free: dict[tuple[int, ...], Value] = {} if others else {tuple(starts): ZERO}
    digits: list[Value] = []

    def reaches(place: int) -> tuple[int, ...]:
        return tuple(k for k, start in starts.items() if 0 <= place - start < len(word))

    for starts_here, run in groupby(range(width), reaches):
        place, *more = run
        count = 1 + len(more)
        if starts_here not in free:
            nothing = ~reduce(or_, (chosen[k] for k in starts_here))
            free[starts_here] = named(m, f"{name}_free{place}", fill & nothing)
        chosen_digits = (
            chosen[k].replicate(count) & word[place - starts[k] :][:count] for k in starts_here
        )
        digits.append(reduce(or_, chosen_digits, free[starts_here].replicate(count)))
    return named(m, f"{name}_placed", Cat(*digits))


def shift_right_signed(m: Module, value: Value, amount: Value) -> tuple[Value, Value]:
    """(`value`, two's complement, shifted right toward -infinity; 1 if a one fell off)."""
    width, sticky = len(value), Const(0, 1)
    for level in range(len(amount)):
        distance = min(2**level, width)
        shifted = Signal(width, name=f"shifted{level}")
        fell = Signal(name=f"fell{level}")
        m.d.comb += [
            shifted.eq(
                Mux(amount[level], Cat(value[distance:], value[-1].replicate(distance)), value)
            ),
            fell.eq(amount[level] & value[:distance].any()),
        ]
        value, sticky = shifted, sticky | fell
    return value, sticky


def shift_right(m: Module, value: Value, amount: Value, lowest: int = 0) -> tuple[Value, Value]:
    """(`value` shifted right by 2^`lowest` x `amount`; 1 if a one fell off)."""
    sticky: Value = Const(0, 1)
    for level, digit in enumerate(amount, lowest):
        distance = 2**level
        shifted = Signal(len(value), name=f"shifted{level}")
        fell = Signal(name=f"fell{level}")
        m.d.comb += [
            shifted.eq(Mux(digit, value >> distance, value)),
            fell.eq(digit & value[:distance].any()),
        ]
        value, sticky = shifted, sticky | fell
    return value, sticky


def _sticky_ports(bits: int, amount_bits: int) -> dict[str, wiring.Member]:
    """Ports of a right shifter that reports a one that fell off."""
    return {
        "value": In(bits),
        "amount": In(amount_bits),
        "result": Out(bits),
        "sticky": Out(1),
    }


class ShiftRight(wiring.Component):
    """Right shifter that reports a one that fell off; combinational.

    Ports:

    - `value` in, `bits`: word to shift
    - `amount` in, `amount_bits`: any value; a large one empties the result
    - `result` out, `bits`: `value` shifted right
    - `sticky` out, 1 bit: a shifted-out bit was one
    """

    def __init__(self, bits: int, amount_bits: int) -> None:
        self.bits, self.amount_bits = bits, amount_bits
        super().__init__(_sticky_ports(bits, amount_bits))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        levels = min(self.amount_bits, (self.bits - 1).bit_length() or 1)
        value, sticky = shift_right(m, self.value, self.amount[:levels])
        beyond = Signal()
        m.d.comb += [
            beyond.eq(self.amount[levels:].any()),
            self.result.eq(Mux(beyond, 0, value)),
            self.sticky.eq(sticky | (beyond & value.any())),
        ]
        return m


class ShiftBy(wiring.Component):
    """Right shifter by 2^`lowest` x `amount`; combinational.

    Ports:

    - `value` in, `bits`: word to shift
    - `amount` in, `amount_bits`: shift distance; no port, and no shift, when `amount_bits` is 0
    - `result` out, `bits`: `value` shifted right
    - `sticky` out, 1 bit: a shifted-out bit was one
    """

    def __init__(self, bits: int, amount_bits: int, lowest: int = 0) -> None:
        self.bits, self.amount_bits, self.lowest = bits, amount_bits, lowest
        super().__init__(_sticky_ports(bits, amount_bits))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        result, sticky = shift_right(m, self.value, self.amount, self.lowest)
        m.d.comb += [self.result.eq(result), self.sticky.eq(sticky)]
        return m


def leading_zeros(m: Module, value: Value) -> Value:
    """Number of zeros above the leading one of `value`; the width of `value` when it is zero."""
    width = len(value)
    size = 1 << (width - 1).bit_length()
    # Ones below the value stop the count at its width.
    padded = Signal(size, name="padded")
    m.d.comb += padded.eq(Cat(Const((1 << (size - width)) - 1, size - width), value))
    # counts[i] belongs to bits i x span and up; its top bit says that all of them are zero.
    counts: list[Value] = [~padded[i] for i in range(size)]
    span = 1
    while len(counts) > 1:
        span *= 2
        merged = []
        for i in range(0, len(counts), 2):
            low, high = counts[i], counts[i + 1]
            count = Signal(span.bit_length(), name=f"zeros{span}_{i // 2}")
            empty = high[-1]
            within = [Mux(empty, low[:-1], high[:-1])] if span > 2 else []
            m.d.comb += count.eq(Cat(*within, empty & ~low[-1], empty & low[-1]))
            merged.append(count)
        counts = merged
    return counts[0]


class Normalizer(wiring.Component):
    """Shifts the leading one of `value` to the top; combinational.

    Ports:

    - `value` in, `bits`: word to normalise
    - `limit` in, `limit_bits`: largest shift; no such port when `limit_bits` is 0
    - `result` out, `bits`: `value` shifted left by `amount`
    - `amount` out, bits enough for `bits`: the smaller of the leading zeros and `limit`
    """

    def __init__(self, bits: int, *, limit_bits: int = 0) -> None:
        self.bits, self.limit_bits = bits, limit_bits
        ports = {
            "value": In(bits),
            "result": Out(bits),
            "amount": Out(bits.bit_length()),
        }
        if limit_bits:
            ports["limit"] = In(limit_bits)
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        probe = Signal(self.bits)
        m.d.comb += probe.eq(self.value)
        if self.limit_bits:
            # A one at the limit stops the count there.
            stop = Signal(self.bits)
            m.d.comb += stop.eq(Const(1 << (self.bits - 1), self.bits) >> self.limit)
            m.d.comb += probe.eq(self.value | stop)
        m.d.comb += self.amount.eq(leading_zeros(m, probe))
        m.d.comb += self.result.eq(shift_left(m, self.value, self.amount))
        return m


class RoundingShift(wiring.Component):
    """min(max(floor(value / 2^shift + 1/2) + zero, lowest), highest); combinational.

    Section 8 of the contract.

    Ports:

    - `value` in, `value_bits`, signed: integer to shift
    - `shift` in, `shift_bits`: any value
    - `zero` in, bits of the format `out`: zero point, two's complement or unsigned
    - `result` out, bits of the format `out`: the integer, two's complement or unsigned
    - `inexact` out, 1 bit: a one was shifted out
    - `clipped` out, 1 bit: the result was limited
    """

    def __init__(self, value_bits: int, shift_bits: int, out: IntegerFormat) -> None:
        self.value_bits, self.shift_bits, self.out = value_bits, shift_bits, out
        self.variant = out.name
        super().__init__(
            {
                "value": In(signed(value_bits)),
                "shift": In(shift_bits),
                "zero": In(out.bits),
                "result": Out(out.bits),
                "inexact": Out(1),
                "clipped": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        out = self.out
        # One digit below the point stays: the one that decides the rounding.
        wide = Cat(Const(0, 1), self.value)
        shifted, sticky = shift_right_signed(m, wide, self.shift)
        moved = Signal(signed(self.value_bits + 2))
        low = Signal()
        high = Signal()
        zero = self.zero.as_signed() if out.lowest < 0 else self.zero
        m.d.comb += [
            moved.eq(shifted[1:].as_signed() + shifted[0] + zero),
            low.eq(moved < out.lowest),
            high.eq(moved > out.highest),
            self.inexact.eq(sticky | shifted[0]),
            self.clipped.eq(low | high),
            self.result.eq(Mux(low, out.lowest, Mux(high, out.highest, moved))),
        ]
        return m
