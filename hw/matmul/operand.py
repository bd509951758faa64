"""The way of an operand from its stream to the array."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ...model.units.matmul.config import MatmulConfig
from ..hierarchy import submodule
from .axi import AxiStream
from .loop import COUNT_BITS, GroupLoop, JobLayout, Loop
from .receive import ErrorLayout, Receiver
from .step_buffer import StepBuffer


class MarksLayout(data.StructLayout):
    """What a step is: the first or last of its tile (group), the last of the job.

    size: of how many tiles in the group, where tiles take turns.
    """

    def __init__(self, most: int) -> None:
        size = {"size": range(most + 1)} if most > 1 else {}
        super().__init__({"first": 1, "last": 1, "ends": 1, **size})


class Operand(wiring.Component):
    """Receives the steps of operand ``a`` or ``b``, keeps 2 x `depth` and gives them in order.

    A panel of A of up to `depth` steps comes once for a row of tiles and is given for each tile.
    With `keep_b`, B of up to 2 x `depth` steps in all comes once and is given for each row of
    tiles. What is longer comes as often as it is given. Where tiles take turns, a step of A comes
    and is given once for all tiles of a group.

    Ports:

    - `job` in, `JobLayout`: the job
    - `s` in, AXI4-Stream of `beat_bytes`: the operand's packet
    - `o` out, stream of `step_bytes` bytes: steps
    - `marks` out, `MarksLayout`: what the step at `o` is
    - `errors` out, `ErrorLayout`: as of `Receiver`
    - `closed` out, 1 bit: as of `Receiver`
    - `discarded` out, bits enough for `beat_bytes`: as of `Receiver`
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
        """A panel, the steps of a tile in `given`, stays for all tiles of a row."""
        m.d.comb += [
            buffer.keep.eq(~given.row_last),
            buffer.rewind.eq(~given.row_last & given.last),
        ]

    def _steps_of_b(self, m: Module) -> tuple[Value, Value]:
        """The steps of all of B, and whether the buffer holds them."""
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
