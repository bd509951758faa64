"""Selection of a value by a mode, and of the largest exponent."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from amaranth.hdl import Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

Key = TypeVar("Key", bound=Hashable)


def select_by_mode(
    mode: Value, keys: Sequence[Key], value: Callable[[Key], ValueLike]
) -> ValueLike:
    """`value(keys[mode])`; a larger `mode` takes the last key.

    A chain of two-way choices with one branch per distinct key.
    """
    distinct = list(dict.fromkeys(keys))
    # With a key for every number, any branch can be the default.
    default = distinct[-1] if len(keys) == 1 << len(mode) else keys[-1]
    chosen = value(default)
    for key in distinct:
        if key != default:
            modes = [number for number, selected in enumerate(keys) if selected == key]
            chosen = Mux(mode.matches(*modes), value(key), chosen)
    return chosen


class LargestExponent(wiring.Component):
    """The largest exponent of the non-zero terms: comparators in a binary tree; combinational.

    Ports:

    - `exponent` in, `count` x `bits`, unsigned: an exponent per term
    - `nonzero` in, `count` bits: terms that are not zero
    - `largest` out, `bits`: their largest exponent, 0 when every term is zero
    - `any` out, 1 bit: a term is not zero
    """

    def __init__(self, count: int, bits: int) -> None:
        self.count, self.bits = count, bits
        super().__init__(
            {
                "exponent": In(data.ArrayLayout(bits, count)),
                "nonzero": In(count),
                "largest": Out(bits),
                "any": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # A zero term's exponent is masked, so that it takes no part.
        level: list[Value] = [
            self.exponent[i] & self.nonzero[i].replicate(self.bits) for i in range(self.count)
        ]
        depth = 0
        while len(level) > 1:
            depth += 1
            level = larger_of_pairs(m, f"level{depth}", level)
        m.d.comb += [self.largest.eq(level[0]), self.any.eq(Cat(self.nonzero).any())]
        return m


def larger_of_pairs(m: Module, name: str, values: Sequence[Value]) -> list[Value]:
    """Larger value of each pair of unsigned values; an odd last value stays."""
    larger: list[Value] = []
    for index in range(0, len(values) - 1, 2):
        a, b = values[index : index + 2]
        larger.append(Signal(len(a), name=f"{name}_{index // 2}"))
        m.d.comb += larger[-1].eq(Mux(a > b, a, b))
    return larger + list(values[2 * len(larger) :])
