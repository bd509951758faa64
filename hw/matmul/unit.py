"""MatmulUnit, an array of dot units that multiplies matrices in tiles, and its top module."""

import textwrap

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...model.pipeline.delays import DEFAULT_DELAYS
from ...model.trace import FLAG_NAMES
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import REGISTERS, SCALE_FIELDS, START_ERRORS, STREAM_ERRORS
from ..hierarchy import submodule, used
from ..top import Top
from .array import DotArray
from .axi import AxiLite, AxiStream
from .control import Control, JobLayout
from .operand import Initial, Operand
from .registers import Counters, Registers
from .results import Results


class MatmulUnit(wiring.Component):
    """C = A B + D in tiles of `rows` x `columns` dot products, over blocks of `lanes` of K.

    ::

                  s_axis_a                  s_axis_b                (s_axis_d)
                     | a_bytes                 | b_bytes                 | d_bytes
                  Receiver                  Receiver                  Receiver
                     | a step: rows x          | a step: columns x       | a row: columns x 32
                     |  (lanes x bits + 8 n)   |  (lanes x bits + 8 n)   |
                 StepBuffer                StepBuffer                 Collect
                     | 2 x depth steps,        | 2 x depth steps         | a tile
                     | panels kept             |                         |
                     +------------+------------+-------------------------+
                                  | a step, when all it needs is there
                              DotArray: rows x columns dot units
                                  | a tile: rows x columns x result bits
                                Drain
                                  | a row: columns x result bits
                               Sender
                                  | c_bytes
                              m_axis_c            s_axil -> Registers -> Control, Counters; irq

    n is the number of scales of a block, a byte each; lanes x bits is rounded up to whole bytes.

    Each box goes on as soon as it can: panels are loaded while others are multiplied, a tile is
    sent while the next one is computed. A step is at the array two cycles after its words were
    taken. The array takes a step every cycle (every `dot.interval` cycles within a tile).

    With `dot.interleave` above 1, tiles of a row take turns, so that the loop of a deep accumulator
    is busy: a step of A is held for all tiles of a group, each has a slot of the dot units, and
    buffers of tiles stand before Drain and after Collect.

    Ports (docs/matrix-unit.md describes their packets):

    - `s_axil` in, AXI4-Lite: the registers
    - `s_axis_a` in, AXI4-Stream of `a_bytes`: steps of A
    - `s_axis_b` in, AXI4-Stream of `b_bytes`: steps of B
    - `s_axis_d` in, AXI4-Stream of `d_bytes`: initial values of C; no such port without `initial_c`
    - `m_axis_c` out, AXI4-Stream of `c_bytes`: results
    - `irq` out, 1 bit: interrupt
    """

    clocked = True

    def __init__(self, config: MatmulConfig) -> None:
        self.config = config
        members = {f"s_axis_{s}": In(AxiStream(config.stream_bytes(s))) for s in config.inputs}
        super().__init__(
            {
                "s_axil": In(AxiLite()),
                **members,
                "m_axis_c": Out(AxiStream(config.c_bytes)),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        registers = submodule(m, "registers", Registers(config))
        control = Control(len(config.dot.formats), config.initial_c)
        submodule(m, "control", control, reset=registers.reset)
        job = self._job(m, registers, control)

        sources = {side: self._source(m, side, job, registers) for side in config.inputs}
        array = submodule(m, "array", DotArray(config), reset=~job.running)
        step = self._join(m, sources, array, registers, job)
        row_bytes = config.unit_bytes("c")
        results = Results(config.rows, row_bytes, config.c_bytes, config.buffered_tiles)
        submodule(m, "results", results, reset=registers.reset)
        m.d.comb += results.job.eq(job)
        wiring.connect(m, results.m, wiring.flipped(self.m_axis_c))
        self._give(m, array, results, registers, job)

        closed = [part.closed for part in (*sources.values(), results)]
        m.d.comb += [control.ended.eq(results.ended), control.closed.eq(Cat(closed).all())]
        self._report(m, sources, registers, control)
        self._count(m, sources, array, step, registers, job)
        return m

    def _job(self, m: Module, registers: Registers, control: Control) -> Value:
        """Job for the other parts, from bus, registers and control."""
        job = Signal(JobLayout())
        wiring.connect(m, wiring.flipped(self.s_axil), registers.bus)
        m.d.comb += [
            self.irq.eq(registers.irq),
            control.start.eq(registers.start),
            control.tiles.eq(registers.tiles),
            control.mode.eq(registers.mode),
            control.use_d.eq(registers.use_d),
            registers.busy.eq(control.busy),
            registers.done.eq(control.done),
            job.tiles.eq(registers.tiles),
            job.launch.eq(control.launch),
            job.running.eq(control.running),
        ]
        return job

    def _source(self, m: Module, side: str, job: Value, registers: Registers) -> Operand | Initial:
        """Part that receives an operand's stream."""
        config = self.config
        if side == "d":
            widths = config.stream_bytes("d"), config.unit_bytes("d")
            source = Initial(*widths, config.rows, config.buffered_tiles)
        else:
            source = Operand(config, side)
        submodule(m, f"operand_{side}", source, reset=registers.reset)
        wiring.connect(m, wiring.flipped(getattr(self, f"s_axis_{side}")), source.s)
        m.d.comb += source.job.eq(job)
        if side == "d":
            m.d.comb += source.job.launch.eq(job.launch & registers.use_d)
        return source

    def _join(
        self, m: Module, sources: dict, array: DotArray, registers: Registers, job: Value
    ) -> Value:
        """Offer a step when all its parts are there; return 1 if the array takes one."""
        a, b = sources["a"], sources["b"]
        step, takes = array.i.payload, Signal(name="step")
        m.d.comb += [
            step.a.eq(a.o.payload),
            step.b.eq(b.o.payload),
            step.first.eq(a.marks.first),
            step.last.eq(a.marks.last),
            step.mode.eq(registers.mode),
            takes.eq(array.i.valid & array.i.ready),
            a.o.ready.eq(takes),
            b.o.ready.eq(takes),
        ]
        if self.config.dot.interleave > 1:
            self._take_turns(m, a, step, takes, job)
        there = a.o.valid & b.o.valid
        if self.config.initial_c:
            d, needed = sources["d"], Signal(name="needs_d")
            m.d.comb += [
                needed.eq(registers.use_d & a.marks.first),
                step.c.eq(Mux(registers.use_d, d.o.payload, 0)),
                d.o.ready.eq(takes & needed),
            ]
            there &= d.o.valid | ~needed
        m.d.comb += array.i.valid.eq(there)
        return takes

    def _take_turns(self, m: Module, a: Operand, step: Value, takes: Value, job: Value) -> None:
        """Hold a step of A for all tiles of a group, one after the other."""
        turn = Signal(range(self.config.dot.interleave), name="turn")
        last = Signal(name="last_turn")
        m.d.comb += [
            last.eq(turn + 1 == a.marks.size),
            a.o.ready.eq(takes & last),
            step.slot.eq(turn),
        ]
        with m.If(~job.running):
            m.d.sync += turn.eq(0)
        with m.Elif(takes):
            m.d.sync += turn.eq(Mux(last, 0, turn + 1))

    @staticmethod
    def _give(
        m: Module, array: DotArray, results: Results, registers: Registers, job: Value
    ) -> None:
        """Pass tiles on; the register FLAGS gathers the flags that they raised."""
        tile, flags = array.o.payload, Signal(len(FLAG_NAMES), name="flags")
        m.d.comb += [
            results.i.payload.eq(tile.result),
            results.i.valid.eq(array.o.valid),
            array.o.ready.eq(results.i.ready),
            registers.flags.eq(flags),
        ]
        with m.If(array.o.valid & array.o.ready):
            m.d.sync += flags.eq(flags | tile.flags.as_value())
        with m.If(job.launch):
            m.d.sync += flags.eq(0)

    @staticmethod
    def _report(m: Module, sources: dict, registers: Registers, control: Control) -> None:
        """Report errors in STATUS; an error of a stream ends the job."""
        m.d.comb += registers.errors.eq(0)
        for name in START_ERRORS:
            m.d.comb += registers.errors[name].eq(control.refused[name])
        stream_errors = []
        for side, source in sources.items():
            for name in STREAM_ERRORS:
                error = source.errors[name] & control.running
                m.d.comb += registers.errors[f"{side}_{name}"].eq(error)
                stream_errors.append(error)
        m.d.comb += control.broken.eq(Cat(stream_errors).any())

    @staticmethod
    def _count(
        m: Module, sources: dict, array: DotArray, step: Value, registers: Registers, job: Value
    ) -> None:
        """Count this cycle."""
        widest = max(len(source.discarded) for source in sources.values())
        counters = submodule(m, "counters", Counters(widest))
        all_taken = Signal()
        with m.If(sources["a"].o.ready & sources["a"].marks.ends):
            m.d.sync += all_taken.eq(1)
        with m.If(job.launch):
            m.d.sync += all_taken.eq(0)
        m.d.comb += [
            counters.clear.eq(job.launch),
            counters.running.eq(job.running),
            counters.step.eq(step),
            counters.tail.eq(all_taken),
            counters.held.eq(array.i.valid),
            counters.blocked.eq(array.o.valid & ~array.o.ready),
            counters.no_a.eq(~sources["a"].o.valid),
            counters.no_b.eq(~sources["b"].o.valid),
            registers.counters.eq(counters.values),
        ]
        for side, source in sources.items():
            m.d.comb += getattr(counters, f"discarded_{side}").eq(source.discarded)


STREAMS = {
    "s_axis_a": "blocks of A",
    "s_axis_b": "blocks of B",
    "s_axis_d": "initial values of C",
    "m_axis_c": "results",
}
SIGNALS = {
    "tdata": "lowest byte first",
    "tkeep": "bytes that are there; all but in the packet's last beat",
    "tlast": "last beat of a job's packet",
    "tvalid": "a beat is offered",
    "tready": "the beat offered is taken at this clock edge",
}
CHANNELS = {
    "aw": "write address",
    "w": "write data",
    "b": "write response",
    "ar": "read address",
    "r": "read data",
}


def meaning(port: str) -> str:
    """Meaning of a port, by the names of AXI."""
    if port == "irq":
        return "interrupt, active high: an enabled bit of STATUS is set"
    interface, _, signal = port.rpartition("_")
    if interface == "s_axil":
        channel = max((c for c in CHANNELS if signal.startswith(c)), key=len)
        return f"AXI4-Lite, {CHANNELS[channel]}"
    return f"{STREAMS[interface]}: {SIGNALS[signal]}"


class MatmulTop(Top):
    """A `MatmulUnit` with ports in AXI's names."""

    name = "mxdot_matmul"
    clock = "aclk"
    reset = "aresetn"

    def __init__(self, config: MatmulConfig) -> None:
        super().__init__(config)
        unit = used(self.unit())
        for path, member, value in unit.signature.flatten(unit):
            name = "_".join(map(str, path))
            self.port(name, len(value), "in" if member.flow is In else "out", meaning(name))

    def unit(self) -> MatmulUnit:
        return MatmulUnit(self.config)

    def connect(self, m: Module, unit: MatmulUnit, port: dict[str, Signal]) -> None:
        for path, member, value in unit.signature.flatten(unit):
            outside = port["_".join(map(str, path))]
            m.d.comb += value.eq(outside) if member.flow is In else outside.eq(value)

    def facts(self) -> list[tuple[str, str]]:
        config: MatmulConfig = self.config
        dot = config.dot
        streams = ", ".join(
            f"{side.upper()} {config.stream_bytes(side)}" for side in (*config.inputs, "c")
        )
        turns = f"up to {dot.interleave} tiles of a row take turns, in groups of {config.group}"
        scales = (
            f"{dot.scales.upper()}, {dot.scale_blocks} of a block: for {dot.scale_block} elements"
        )
        placed = f"those of {dot.delays} place the dot units' registers"
        return [
            ("array", f"{config.rows} rows x {config.columns} columns of dot units"),
            ("formats", dot.formats_text),
            ("accumulator", f"{dot.accumulator}: {dot.accumulator.rule}"),
            ("lanes", f"{dot.lanes}, the block size"),
            *([("scales", scales)] if dot.has_own_scales else []),
            ("output", config.out.name),
            ("depth", f"{config.depth} blocks of K up to which a panel of A is sent once"),
            ("streams", f"{streams} bytes a beat"),
            ("latency", f"{dot.latency} cycles from a tile's last step to its results"),
            ("interval", f"{dot.interval} cycles between the steps of a tile"),
            *([("interleave", turns)] if dot.interleave > 1 else []),
            *([("delays", placed)] if dot.delays != DEFAULT_DELAYS else []),
            *_register_map(config),
        ]


def _register_map(config: MatmulConfig) -> list[tuple[str, str]]:
    """A line per register."""
    absent = () if config.dot.has_own_scales else SCALE_FIELDS
    lines = [("", ""), ("registers", "offset, name, fields, meaning; counters' high words follow")]
    for register in REGISTERS.values():
        if register.name.endswith("_HIGH"):
            continue
        there = [field for field in register.fields if field.name not in absent]
        fields = ", ".join(f"{field.name} [{field.bits}]" for field in there)
        text = f"0x{register.offset:02X} {register.name}: {fields}"
        lines += [("", line) for line in textwrap.wrap(text, 100, subsequent_indent="     ")]
    return lines
