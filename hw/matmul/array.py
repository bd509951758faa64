"""The array: dot units in rows and columns that share their operands."""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...model.trace import FLAG_NAMES
from ...model.units.dot import DotConfig
from ...model.units.matmul.config import C_BITS, SCALE_BITS, MatmulConfig
from ..dot.unit import DotUnit
from ..hierarchy import submodule


class RecordLayout(data.StructLayout):
    """A block in the stream: its codes, element 0 lowest, then its scales.

    padding: unused bits up to a whole byte; absent if there are none.
    """

    def __init__(self, dot: DotConfig, bits: int) -> None:
        codes, missing = data.ArrayLayout(bits, dot.lanes), -dot.lanes * bits % 8
        padding = {"padding": missing} if missing else {}
        scales = data.ArrayLayout(SCALE_BITS, dot.scale_blocks)
        super().__init__({"codes": codes, **padding, "scale": scales})


class StepLayout(data.StructLayout):
    """A block of A per row, a block of B per column; initial values with `first`.

    slot: number of the step's tile among tiles that take turns.
    """

    def __init__(self, config: MatmulConfig) -> None:
        dot, units = config.dot, config.rows * config.columns
        super().__init__(
            {
                "a": data.ArrayLayout(RecordLayout(dot, dot.bits_a), config.rows),
                "b": data.ArrayLayout(RecordLayout(dot, dot.bits_b), config.columns),
                "c": data.ArrayLayout(C_BITS if config.initial_c else 0, units),
                "mode": dot.mode_bits,
                "slot": dot.slot_bits,
                "first": 1,
                "last": 1,
            }
        )


class TileLayout(data.StructLayout):
    """Results of a tile, row by row, and the flags that any of them raised."""

    def __init__(self, config: MatmulConfig) -> None:
        units = config.rows * config.columns
        flags = data.StructLayout(dict.fromkeys(FLAG_NAMES, 1))
        super().__init__({"result": data.ArrayLayout(config.out.bits, units), "flags": flags})


def any_of(words: Sequence[Value]) -> Value:
    """OR of words. One chain of thousands would nest too deep for Python's recursion."""
    while len(words) > 1:
        words = [reduce(or_, words[k : k + 64]) for k in range(0, len(words), 64)]
    return words[0]


class DotArray(wiring.Component):
    """`rows` x `columns` dot units; the unit in row r and column s multiplies a[r] and b[s].

    The units share their handshakes, and nothing else decides what they do in a cycle: they are in
    step, and one unit's `ready` and `valid` speak for all.

    Ports:

    - `i` in, stream of `StepLayout`: steps
    - `o` out, stream of `TileLayout`: tiles of results
    """

    clocked = True

    def __init__(self, config: MatmulConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(StepLayout(config))),
                "o": Out(stream.Signature(TileLayout(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        units = []
        for r in range(self.config.rows):
            for s in range(self.config.columns):
                # A queue in each would cost more than that results wait in registers.
                unit = submodule(m, f"unit_{r}_{s}", DotUnit(self.config.dot, stops=True))
                self._feed(m, unit, r, s)
                m.d.comb += self.o.payload.result[len(units)].eq(unit.o.payload.result)
                units.append(unit)
        m.d.comb += [self.i.ready.eq(units[0].i.ready), self.o.valid.eq(units[0].o.valid)]
        if self.config.dot.status:
            raised = [unit.o.payload.flags.as_value() for unit in units]
            m.d.comb += self.o.payload.flags.eq(any_of(raised))
        return m

    def _feed(self, m: Module, unit: DotUnit, r: int, s: int) -> None:
        step, block = self.i.payload, unit.i.payload
        m.d.comb += [
            block.a.eq(step.a[r].codes),
            block.b.eq(step.b[s].codes),
            Value.cast(block.scale_a).eq(self._scales(step.a[r])),
            Value.cast(block.scale_b).eq(self._scales(step.b[s])),
            block.mode.eq(step.mode),
            block.first.eq(step.first),
            block.last.eq(step.last),
            unit.i.valid.eq(self.i.valid),
            unit.o.ready.eq(self.o.ready),
        ]
        if self.config.dot.slot_bits:
            m.d.comb += block.slot.eq(step.slot)
        if self.config.initial_c:
            m.d.comb += block.c.eq(step.c[r * self.config.columns + s])

    def _scales(self, record: data.View) -> Value:
        """Scales of a block as a dot unit takes them: without the zeros above."""
        return Cat(scale[: self.config.dot.scale_bits] for scale in record.scale)
