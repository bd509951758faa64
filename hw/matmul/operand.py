"""Operands, and initial values of C, from their streams to the array."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ...model.units.matmul.config import MatmulConfig
from ..hierarchy import submodule
from .axi import AxiStream, ErrorLayout, Receiver
from .control import COUNT_BITS, GroupLoop, JobLayout, Loop
from .step_buffer import StepBuffer, tile_buffer


class MarksLayout(data.StructLayout):
    """Place of a step: the first or last of its tile (or group), the last of the job.

    size: number of tiles in the group, if tiles take turns.
    """

    def __init__(self, most: int) -> None:
        size = {"size": range(most + 1)} if most > 1 else {}
        super().__init__({"first": 1, "last": 1, "ends": 1, **size})


class Operand(wiring.Component):
    """Receives the steps of operand ``a`` or ``b``, keeps 2 x `depth` and gives them in order.

    A panel of A of up to `depth` steps comes once per row of tiles and is given for each tile. With
    `keep_b`, a B of up to 2 x `depth` steps in all comes once and is given for each row of tiles. A
    longer panel comes each time that it is given. If tiles take turns, a step of A comes and is
    given once for all tiles of a group.

    Ports:

    - `job` in, `JobLayout`: the job
    - `s` in, AXI4-Stream of `beat_bytes`: the operand's packet
    - `o` out, stream of `step_bytes` bytes: steps
    - `marks` out, `MarksLayout`: place of the step at `o`
    - `errors` out, `ErrorLayout`: see `Receiver`
    - `closed` out, 1 bit: see `Receiver`
    - `discarded` out, bits enough for `beat_bytes`: see `Receiver`
    """

    clocked = True

    def __init__(self, config: MatmulConfig, side: str) -> None:
        self.config, self.side = config, side
        self._grouped = side == "a" and config.dot.interleave > 1
        beat_bytes, step_bytes = config.stream_bytes(side), config.unit_bytes(side)
        self.beat_bytes, self.step_bytes = beat_bytes, step_bytes
        super().__init__(
            {
                "job": In(JobLayout()),
                "s": In(AxiStream(beat_bytes)),
                "o": Out(stream.Signature(8 * step_bytes)),
                "marks": Out(MarksLayout(config.dot.interleave if self._grouped else 1)),
                "errors": Out(ErrorLayout()),
                "closed": Out(1),
                "discarded": Out(bits_for(beat_bytes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job, idle = self.job, ~self.job.running
        receiver = submodule(m, "receiver", Receiver(self.beat_bytes, self.step_bytes))
        buffer = StepBuffer(8 * self.step_bytes, 2 * self.config.depth)
        submodule(m, "buffer", buffer, reset=idle)
        coming = submodule(m, "coming", self._loop(), reset=idle)
        given = submodule(m, "given", self._loop(), reset=idle)
        receiver.join(m, self, coming)
        wiring.connect(m, receiver.o, buffer.i)
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        m.d.comb += [
            given.tiles.eq(job.tiles),
            given.advance.eq(buffer.fetch),
        ]
        if self.side == "a":
            with m.If(job.tiles.k_blocks <= self.config.depth):
                m.d.comb += coming.tiles.n_tiles.eq(1)
                self._keep(m, buffer, given)
        elif self.config.keep_b:
            steps, fits = self._steps_of_b(m)
            with m.If(fits):
                # All of B is a panel, and the rows of tiles are those that it is given for.
                m.d.comb += [
                    coming.tiles.m_tiles.eq(1),
                    given.tiles.m_tiles.eq(1),
                    given.tiles.n_tiles.eq(job.tiles.m_tiles),
                    given.tiles.k_blocks.eq(steps),
                ]
                self._keep(m, buffer, given)
        with m.If(buffer.fetch):
            m.d.sync += [
                self.marks.first.eq(given.first),
                self.marks.last.eq(given.last),
                self.marks.ends.eq(given.ends),
            ]
            if isinstance(given, GroupLoop):
                m.d.sync += self.marks.size.eq(given.size)
        return m

    @staticmethod
    def _keep(m: Module, buffer: StepBuffer, given: Loop) -> None:
        """Keep a panel, the steps of a tile in `given`, for all tiles of a row."""
        m.d.comb += [
            buffer.keep.eq(~given.row_last),
            buffer.rewind.eq(~given.row_last & given.last),
        ]

    def _steps_of_b(self, m: Module) -> tuple[Value, Value]:
        """(number of steps of all of B, 1 if the buffer holds them)."""
        capacity = 2 * self.config.depth
        counts = [self.job.tiles.n_tiles, self.job.tiles.k_blocks]
        low = [count[: capacity.bit_length()] for count in counts]
        high = [count[capacity.bit_length() :] for count in counts]
        # In registers: a start cannot come in the cycle after the counts were written.
        steps, fits = Signal(COUNT_BITS, name="steps_of_b"), Signal(name="b_fits")
        product = low[0] * low[1]
        m.d.sync += [
            steps.eq(product),
            fits.eq(~Cat(high).any() & (product <= capacity)),
        ]
        return steps, fits

    def _loop(self) -> Loop:
        config = self.config
        return GroupLoop(config.dot.interleave, config.group) if self._grouped else Loop()


class Collect(wiring.Component):
    """Takes `rows` rows one by one and gives them at once, the first one lowest.

    Ports:

    - `i` in, stream of `row_bits`: rows; `i.ready` depends on registers only
    - `o` out, stream of `rows` x `row_bits`: tiles
    """

    clocked = True

    def __init__(self, rows: int, row_bits: int) -> None:
        self.rows, self.row_bits = rows, row_bits
        super().__init__(
            {"i": In(stream.Signature(row_bits)), "o": Out(stream.Signature(rows * row_bits))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        tile = Signal(self.rows * self.row_bits, reset_less=True)
        count = Signal(range(self.rows + 1))
        m.d.comb += [
            self.o.valid.eq(count == self.rows),
            self.i.ready.eq(~self.o.valid),
            self.o.payload.eq(tile),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [count.eq(count + 1), tile.eq(Cat(tile, self.i.payload)[self.row_bits :])]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += count.eq(0)
        return m


class Initial(wiring.Component):
    """Receives the initial values tile by tile, in rows of `row_bytes` bytes.

    buffered: whole tiles that it holds, besides the next one.

    Ports:

    - `job` in, `JobLayout`: the job
    - `s` in, AXI4-Stream of `beat_bytes`: the packet of D
    - `o` out, stream of `rows` x `row_bytes` bytes: tiles
    - `errors` out, `ErrorLayout`: see `Receiver`
    - `closed` out, 1 bit: see `Receiver`
    - `discarded` out, bits enough for `beat_bytes`: see `Receiver`
    """

    clocked = True

    def __init__(self, beat_bytes: int, row_bytes: int, rows: int, buffered: int) -> None:
        self.beat_bytes, self.row_bytes, self.rows = beat_bytes, row_bytes, rows
        self.buffered = buffered
        super().__init__(
            {
                "job": In(JobLayout()),
                "s": In(AxiStream(beat_bytes)),
                "o": Out(stream.Signature(8 * row_bytes * rows)),
                "errors": Out(ErrorLayout()),
                "closed": Out(1),
                "discarded": Out(bits_for(beat_bytes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        idle = ~self.job.running
        receiver = submodule(m, "receiver", Receiver(self.beat_bytes, self.row_bytes))
        collect = submodule(m, "collect", Collect(self.rows, 8 * self.row_bytes), reset=idle)
        coming = submodule(m, "coming", Loop(), reset=idle)
        receiver.join(m, self, coming)
        wiring.connect(m, receiver.o, collect.i)
        tiles = tile_buffer(m, collect.o, self.buffered, idle)
        wiring.connect(m, tiles, wiring.flipped(self.o))
        m.d.comb += coming.tiles.k_blocks.eq(self.rows)
        return m
