"""Shifters: logarithmic ones, and those whose upper levels are one selection."""

from collections.abc import Mapping
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .adders import named

ZERO = Const(0, 1)


def shift_left(
    m: Module, value: Value, amount: Value, name: str = "shifted", fill: Value = ZERO
) -> Value:
    """`value` shifted left by `amount`, in the width of `value`; a logarithmic shifter. fill: the
    bit that comes in."""
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

    The lower half of the amount's digits shifts by levels, while the word is short; the upper half
    selects among its places.
    """
    near = (amounts[-1].bit_length()) // 2
    low, step = amounts[0], 1 << near
    word = shift_left(m, Cat(value, fill.replicate(step - 1)), amount[:near], name, fill)
    starts = {k: k * step - low for k in range(low // step, amounts[-1] // step + 1)}
    width = len(value) + amounts[-1] - low
    return select_place(m, word, amount[near:], starts, width, name, fill, others=False)


def place_right(m: Module, value: Value, amount: Value, name: str, fill: Value = ZERO) -> Value:
    """`value` shifted right by any `amount`; `fill` comes in. As `place_left`."""
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
    """`word` from place starts[`choice`] on, of `width` places, and `fill` in all others.

    A decoder and an and-or for each place: few digits of a short word can come to any one. others:
    whether there are choices that are none of `starts`; all places are `fill` then.
    """
    chosen = {k: named(m, f"{name}_is{k}", choice == k) for k in starts}
    free: dict[tuple[int, ...], Value] = {} if others else {tuple(starts): ZERO}
    digits: list[Value] = []
    for place in range(width):
        some = tuple(k for k, start in starts.items() if 0 <= place - start < len(word))
        if some not in free:
            nothing = ~reduce(or_, (chosen[k] for k in some))
            free[some] = named(m, f"{name}_free{place}", fill & nothing)
        those = (chosen[k] & word[place - starts[k]] for k in some)
        digits.append(reduce(or_, those, free[some]))
    return named(m, f"{name}_placed", Cat(*digits))


def shift_right_signed(m: Module, value: Value, amount: Value) -> tuple[Value, Value]:
    """(`value`, two's complement, shifted right toward -infinity; whether a one fell off)."""
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
    """(`value` shifted right by 2^`lowest` x `amount`; whether a one fell off)."""
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


class ShiftRight(wiring.Component):
    """Right shifter that says whether a one fell off its end; combinational.

    Ports:

    - `value` in, `bits`: what is shifted
    - `amount` in, `amount_bits`: any value; a large one empties the result
    - `result` out, `bits`: `value` shifted right
    - `sticky` out, 1 bit: some shifted-out bit was one
    """

    def __init__(self, bits: int, amount_bits: int) -> None:
        self.bits, self.amount_bits = bits, amount_bits
        super().__init__(
            {
                "value": In(bits),
                "amount": In(amount_bits),
                "result": Out(bits),
                "sticky": Out(1),
            }
        )

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

    - `value` in, `bits`: what is shifted
    - `amount` in, `amount_bits`: how far; without bits not at all, and there is no such port
    - `result` out, `bits`: `value` shifted right
    - `sticky` out, 1 bit: some shifted-out bit was one
    """

    def __init__(self, bits: int, amount_bits: int, lowest: int = 0) -> None:
        self.bits, self.amount_bits, self.lowest = bits, amount_bits, lowest
        super().__init__(
            {
                "value": In(bits),
                "amount": In(amount_bits),
                "result": Out(bits),
                "sticky": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        result, sticky = shift_right(m, self.value, self.amount, self.lowest)
        m.d.comb += [self.result.eq(result), self.sticky.eq(sticky)]
        return m
