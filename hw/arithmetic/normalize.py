"""Leading-zero count and normalisation."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .shift import shift_left


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

    - `value` in, `bits`: what is normalised
    - `limit` in, `limit_bits`: the shift stops there; no such port when 0
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
