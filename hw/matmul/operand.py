"""The way of an operand from its stream to the array."""

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..hierarchy import submodule
from .axi import AxiStream
from .loop import JobLayout, Loop
from .receive import ErrorLayout, Receiver
from .step_buffer import StepBuffer


class MarksLayout(data.StructLayout):
    """What a step is: the first or last of its tile, the last of the job."""

    def __init__(self) -> None:
        super().__init__({"first": 1, "last": 1, "ends": 1})


class Operand(wiring.Component):
    """Receives the steps of one operand, keeps 2 x `depth` of them and gives them in order.

    With `panels`, a panel of up to `depth` steps comes once for a row of tiles and is given for
    each; a longer one, or without `panels`, every one comes as often as it is given.

    Ports: job in; s in (AXI4-Stream); o out (stream of steps), marks out, of the step at `o`;
    errors, closed, discarded out, as of Receiver.
    """

    clocked = True

    def __init__(self, beat_bytes: int, step_bytes: int, depth: int, panels: bool) -> None:
        self.beat_bytes, self.step_bytes = beat_bytes, step_bytes
        self.depth, self.panels = depth, panels
        super().__init__(
            {
                "job": In(JobLayout()),
                "s": In(AxiStream(beat_bytes)),
                "o": Out(stream.Signature(8 * step_bytes)),
                "marks": Out(MarksLayout()),
                "errors": Out(ErrorLayout()),
                "closed": Out(1),
                "discarded": Out(bits_for(beat_bytes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job, idle = self.job, ~self.job.running
        receiver = submodule(m, "receiver", Receiver(self.beat_bytes, self.step_bytes))
        buffer = StepBuffer(8 * self.step_bytes, 2 * self.depth)
        submodule(m, "buffer", buffer, reset=idle)
        coming = submodule(m, "coming", Loop(), reset=idle)
        given = submodule(m, "given", Loop(), reset=idle)
        receiver.join(m, self, coming)
        wiring.connect(m, receiver.o, buffer.i)
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        m.d.comb += [
            given.tiles.eq(job.tiles),
            given.advance.eq(buffer.fetch),
        ]
        if self.panels:
            with m.If(job.tiles.k_blocks <= self.depth):
                m.d.comb += [
                    coming.tiles.n_tiles.eq(1),
                    buffer.keep.eq(~given.row_last),
                    buffer.rewind.eq(~given.row_last & given.last),
                ]
        with m.If(buffer.fetch):
            m.d.sync += [
                self.marks.first.eq(given.first),
                self.marks.last.eq(given.last),
                self.marks.ends.eq(given.ends),
            ]
        return m
