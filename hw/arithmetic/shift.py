"""Logarithmic shifters."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


def shift_left(m: Module, value: Value, amount: Value, name: str = "shifted") -> Value:
    """`value` shifted left by `amount`, in the width of `value`; a logarithmic shifter."""
    for level in range(len(amount)):
        shifted = Signal(len(value), name=f"{name}{level}")
        m.d.comb += shifted.eq(Mux(amount[level], Cat(Const(0, 2**level), value), value))
        value = shifted
    return value


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
