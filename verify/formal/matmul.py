"""Claims about a whole matrix unit: its packets, the length of C's, and that jobs end.

The unit has no registers: inputs take the place of what software wrote, so that it is free;
registers have claims of their own.

`packets` says what is wrong with a packet, and how the unit comes back from an error. `length` is
about jobs of any size, `ends` about one size each: while a job runs, streams that offer and take
cannot wait for long until a beat moves. Registers say how many beats A, B and C have (the errors of
`packets`, and C's here), so that the job comes to its end.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...hw.verilog import generate
from ...model import DotConfig
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import STREAM_ERRORS
from .claim import Claim
from .engine import CORRESPONDING, decide
from .observer import SUBJECT, ObservedUnit, Rule, unit

CONFIG = MatmulConfig(DotConfig("e2m1", 4, "exact", 1, status=False), 1, 1, depth=4)
"""Beats of a step, and of a tile."""
COUNTS = ("m_tiles", "n_tiles", "k_blocks")
TELLS, HEARS = ("tiles_", "mode", "use_d", "start", "reset"), ("busy", "done", "errors_")
"""Ports of the registers, by how their names begin: to the rest of the unit, and from it."""
NARROW = MatmulConfig(DotConfig("e2m1", 4, "exact", 1, status=False), 2, 2, depth=4, c_bytes=4)
"""A tile of two rows, each of which is sent in two beats."""
PATIENCE = 8
"""Cycles in which something moves."""
SIZES = ((2, 2, 2), (1, 1, CONFIG.depth + 1))
"""Tiles down and across, blocks of K: panels of A that are kept, and one that is not."""
NOT_AGAIN = ("rewind ? oldest :", "1'b0 ? oldest :")
"""The bug that a panel is not read again."""
TAKEN_FIRST = ("& (o_ready | ~o_valid_register)", "& o_ready")
"""The bug that a step is fetched when the one before is taken, the first one never."""


def claims() -> Iterator[Claim]:
    """Claims about the smallest unit, and one with larger tiles and narrower beats."""
    yield Claim(
        "packets:matmul",
        "jobs of any size: A and B are taken up to one TLAST a job; each wrong beat of theirs "
        "raises its error, and no other does; after it their rest is taken at once, C's packet is "
        "ended by a beat without bytes, then busy falls; else the job is done with TLAST of C; "
        "beats of C have all bytes and stay until taken; a start raises what refuses it",
        lambda: without_registers(CONFIG), _packets, ("(ends & s_tkeep[2])", "(s_tkeep[2])"),
        partial(decide, sequential=CORRESPONDING),
    )  # fmt: skip
    for name, config, words in (
        ("matmul", CONFIG, "a tile of one row, a beat each"),
        ("matmul-narrow", NARROW, "tiles of two rows, two beats each"),
    ):
        rows = f"tiles_k_blocks(16'h{config.rows:x})"
        yield Claim(
            f"length:{name}",
            f"jobs of any size without an error, {words}: C's packet has the bytes of m_tiles x "
            "n_tiles tiles, and TLAST with the last of them, as long as the array gives no more",
            lambda config=config: _with_rows(config), _length(config),
            (rows, rows.replace(f"{config.rows:x})", f"{config.rows + 1:x})")),
            partial(decide, sequential=CORRESPONDING),
        )  # fmt: skip
    for size in SIZES:
        tied = dict(zip((f"job_tiles_{name}" for name in COUNTS), size, strict=True))
        text = "x".join(map(str, size))
        yield Claim(
            f"ends:matmul-{text}",
            f"jobs of {text} (m_tiles, n_tiles, k_blocks) without an error: C's packet has "
            f"{size[0] * size[1]} beats, the last with TLAST; until it is taken, {PATIENCE} cycles "
            "in a row in which A and B offer what is to come and C is taken move a beat",
            lambda tied=tied: replace(
                without_registers(CONFIG), tied={**tied, "job_mode": 0, "job_use_d": 0}
            ),
            _ends(size[0] * size[1]), NOT_AGAIN if size[1] > 1 else TAKEN_FIRST,
            partial(decide, sequential=CORRESPONDING),
        )  # fmt: skip


def without_registers(config: MatmulConfig) -> ObservedUnit:
    """The unit, of which inputs `job_*` take the place of what its registers tell it, and outputs
    `told_*` are what they hear; its reset active high."""
    top, end, rest = generate(config, SUBJECT).partition("endmodule")
    instance = re.search(rf"  {SUBJECT}_registers registers \((.*?)\);\n", top, re.S)
    assert instance is not None
    pins = dict(re.findall(r"\.(\w+)\(([^()]*)\)", instance[1]))
    top = top.replace(instance[0], "")
    made: dict[str, int] = {}
    heard: dict[str, int] = {}
    for pin, net in pins.items():
        if pin.startswith(TELLS):
            declared = re.search(rf"  wire (?:\[(\d+):0\] )?{net};\n", top)
            assert declared is not None
            made[f"job_{pin}"] = int(declared[1] or 0) + 1
            driven = declared[0].replace(";", f" = job_{pin};")
            top = top.replace(declared[0], driven)
        elif pin.startswith(HEARS):
            heard[f"told_{pin}"] = 1
            top += f"  assign told_{pin} = {net};\n"
    for side, ports in (("input", made), ("output", heard)):
        wires = (f"  {side} wire [{width - 1}:0] {name},\n" for name, width in ports.items())
        top = top.replace("(\n", f"(\n{''.join(wires)}", 1)
    top = top.replace(" aresetn,", " rst,").replace(
        "  wire rst = ~aresetn;", "  wire aresetn = ~rst;"
    )
    whole = unit(config)
    streams = {name: width for name, width in whole.shapes.items() if "_axis_" in name}
    given = {name: width for name, width in whole.inputs.items() if name in streams}
    return ObservedUnit(
        top + end + rest,
        {"rst": 1, **given, **made},
        {"rst": 1, **streams, **made, **heard},
        "aclk",
        "rst",
    )


class _Job:
    """Compare a job with its inputs and with the beats that are taken."""

    def __init__(self, m: Module, p: Any) -> None:
        self.p = p
        self.runs, self.clears_up = Signal(name="runs"), Signal(name="clears_up")
        self.open = {side: Signal(name=f"open_{side}") for side in "abc"}
        """Packets whose TLAST is still to come."""
        self.wrong_beat = Signal()
        """A beat of A or B is offered that ends the job."""
        self.busy = self.runs | self.clears_up
        counts = [getattr(p, f"job_tiles_{name}") for name in COUNTS]
        self.refused = {
            "bad_shape": ~self.busy & Cat(count == 0 for count in counts).any(),
            "bad_format": ~self.busy & (p.job_mode >= len(CONFIG.dot.formats)),
            "bad_option": ~self.busy & p.job_use_d,
            "busy_start": self.busy,
        }
        self.begins = Signal()
        m.d.comb += self.begins.eq(p.job_start & ~Cat(self.refused.values()).any())
        self.ended = beat_taken(p, "m_axis_c") & p.m_axis_c_tlast
        with m.If(self.runs & (self.wrong_beat | self.ended)):
            m.d.sync += [self.runs.eq(0), self.clears_up.eq(self.wrong_beat)]
        with m.If(self.clears_up & ~Cat(self.open.values()).any()):
            m.d.sync += self.clears_up.eq(0)
        for side, packet in self.open.items():
            name = "m_axis_c" if side == "c" else f"s_axis_{side}"
            with m.If(beat_taken(p, name) & getattr(p, f"{name}_tlast")):
                m.d.sync += packet.eq(0)
        with m.If(self.begins):
            m.d.sync += [self.runs.eq(1), *(packet.eq(1) for packet in self.open.values())]
        with m.If(p.job_reset):
            m.d.sync += [self.runs.eq(0), self.clears_up.eq(0)]
            m.d.sync += [packet.eq(0) for packet in self.open.values()]


def beat_taken(p: Any, name: str) -> Value:
    """Whether a beat of that stream is."""
    return getattr(p, f"{name}_tvalid") & getattr(p, f"{name}_tready")


class Loops:
    """Place of a packet in three loops, the innermost one last.

    done: steps of each. last: whether the next step is to be the last of all. ended: whether that
    is taken now. go: a step is taken. idle: they begin anew, where that is not left to the caller.
    """

    def __init__(
        self,
        m: Module,
        names: Sequence[str],
        counts: Sequence[Value],
        go: Value,
        idle: Value | None = None,
    ) -> None:
        self.done = [Signal(16, name=name) for name in names]
        lasts = [place + 1 == count for place, count in zip(self.done, counts, strict=True)]
        self.last = Cat(lasts).all()
        self.ended: Value = go
        for place, last in zip(reversed(self.done), reversed(lasts), strict=True):
            with m.If(self.ended):
                m.d.sync += place.eq(Mux(last, 0, place + 1))
            self.ended = self.ended & last
            if idle is not None:
                with m.If(idle):
                    m.d.sync += place.eq(0)


def _packets(m: Module, p: Any) -> Value:
    job = _Job(m, p)
    tiles = [getattr(p, f"job_tiles_{name}") for name in COUNTS]
    idle = ~job.runs | p.job_reset
    wrong: list[Value] = [
        *(_told(p, name) != (p.job_start & why) for name, why in job.refused.items()),
        p.told_busy != job.busy,
        p.told_done != (job.runs & job.ended),
    ]
    errors: list[Value] = []
    for side in "ab":
        stream = f"s_axis_{side}"
        valid, ready = getattr(p, f"{stream}_tvalid"), getattr(p, f"{stream}_tready")
        # A panel of A that is kept comes once for a row of tiles.
        across = Mux((tiles[2] <= CONFIG.depth) & (side == "a"), 1, tiles[1])
        counts = [tiles[0], across, tiles[2]]
        here = valid & job.open[side] & job.runs
        names = [f"{side}_{count}" for count in COUNTS]
        place = Loops(m, names, counts, here & ready, idle)
        raised = packet_errors(p, stream, here, place.last)
        errors += raised.values()
        wrong += [_told(p, f"{side}_{name}") != raised[name] for name in STREAM_ERRORS]
        wrong += [ready & ~job.open[side], job.clears_up & (ready != job.open[side])]
    m.d.comb += job.wrong_beat.eq(Cat(errors).any())
    return ~p.rst & Cat(*wrong, _results(m, p, job)).any()


def packet_errors(p: Any, stream: str, offered: Value, ends: Value) -> dict[str, Value]:
    """Errors that a beat of the stream raises. offered: it counts; ends: it is to be the last."""
    ready, last, keep = (getattr(p, f"{stream}_{name}") for name in ("tready", "tlast", "tkeep"))
    first = keep.any() & ((keep & (keep + 1)) == 0)  # ones from the lowest byte on, as all are
    return {
        "early_last": offered & last & ~(ends & keep[-1]),
        "late_last": offered & ~last & ends,
        "keep": offered & ready & ~Mux(last, first, keep.all()),
    }


def _told(p: Any, error: str) -> Value:
    """Whether registers hear of an error."""
    return getattr(p, f"told_errors_{error}")


def _results(m: Module, p: Any, job: _Job) -> Value:
    """Whether something is wrong with the beats of C."""
    beat = Cat(p.m_axis_c_tdata, p.m_axis_c_tkeep, p.m_axis_c_tlast)
    held, previous, cleared_up = Signal(name="c_held"), Signal(len(beat)), Signal()
    m.d.sync += [
        held.eq(p.m_axis_c_tvalid & ~p.m_axis_c_tready & ~p.job_reset),
        previous.eq(beat),
        cleared_up.eq(job.clears_up),
    ]
    ends = p.m_axis_c_tvalid & p.m_axis_c_tlast & (p.m_axis_c_tkeep == 0)
    return Cat(
        held & (~p.m_axis_c_tvalid | (beat != previous)),
        job.runs & p.m_axis_c_tvalid & ~p.m_axis_c_tkeep.all(),
        job.clears_up & cleared_up & job.open["c"] & ~held & ~ends,
    ).any()


def _with_rows(config: MatmulConfig) -> ObservedUnit:
    """The unit with an output `row_goes`: a row of a tile goes to the sender of C."""
    subject = without_registers(config)
    instance = re.search(r"  (\w+_results_\w+) results \(", subject.text)
    assert instance is not None
    text = subject.text.replace(instance[0], f"{instance[0]}.row_goes(row_goes), ", 1)
    head, begin, body = text.partition(f"module {instance[1]} (\n")
    inside, end, rest = body.partition("endmodule")
    port = "  output wire row_goes,\n"
    inside = f"{port}{inside}  assign row_goes = going_advance;\n"
    head = head.replace("(\n", f"(\n{port}", 1)
    text = head + begin + inside + end + rest
    return replace(subject, text=text, shapes={**subject.shapes, "row_goes": 1})


def _runs(m: Module, p: Any) -> Value:
    """Whether a job runs and had no error before."""
    errors = Cat(getattr(p, f"told_errors_{side}_{e}") for side in "ab" for e in STREAM_ERRORS)
    failed = Signal(name="failed")
    m.d.sync += failed.eq(p.told_busy & (failed | errors.any()))
    return p.told_busy & ~failed


def _length(config: MatmulConfig) -> Rule:
    """Bytes are owed from a row's entry on; those of the last row of the job come with TLAST."""
    row_bytes = config.unit_bytes("c")

    def wrong(m: Module, p: Any) -> Value:
        runs, goes, keep = _runs(m, p), p.row_goes, p.m_axis_c_tkeep
        counts = [p.job_tiles_m_tiles, p.job_tiles_n_tiles, Const(config.rows, 16)]
        complete, more = Signal(name="complete"), Signal(name="more")
        owed, given = Signal(8, name="owed"), Signal(range(len(keep) + 1), name="given")
        rows = Loops(m, ["done0", "done1", "done2"], counts, goes)
        with m.If(rows.ended):
            m.d.sync += complete.eq(1)
        beyond = runs & goes & complete
        taken = Mux(beat_taken(p, "m_axis_c"), given, 0)
        m.d.comb += given.eq(sum(keep[1:], keep[0]))
        m.d.sync += [
            owed.eq(owed + Mux(goes & ~complete, row_bytes, 0) - taken),
            more.eq(more | beyond),
        ]
        with m.If(~runs | p.job_reset):
            m.d.sync += [signal.eq(0) for signal in (*rows.done, complete, owed)]
        ends = complete & (owed == given)
        odd = [
            given > owed,
            (keep & (keep + 1))[: len(keep)].any(),  # not ones from the lowest byte on
            given == 0,
            p.m_axis_c_tlast != ends,
            ~ends & ~keep.all(),
        ]
        return ~p.rst & ~more & ~beyond & runs & p.m_axis_c_tvalid & Cat(odd).any()

    return wrong


def _ends(beats: int) -> Rule:
    def wrong(m: Module, p: Any) -> Value:
        runs = _runs(m, p)
        left = Signal(range(beats + 1), name="left")
        with m.If(~runs):
            m.d.sync += left.eq(beats)
        with m.Elif(beat_taken(p, "m_axis_c")):
            m.d.sync += left.eq(left - 1)
        odd = p.m_axis_c_tvalid & (p.m_axis_c_tlast != (left == 1))
        offers, moves = p.m_axis_c_tready, p.m_axis_c_tvalid
        for side in "ab":
            name = f"s_axis_{side}"
            closed, valid = Signal(name=f"closed_{side}"), getattr(p, f"{name}_tvalid")
            last = beat_taken(p, name) & getattr(p, f"{name}_tlast")
            m.d.sync += closed.eq(runs & (closed | last))
            offers, moves = offers & (valid | closed), moves | (beat_taken(p, name) & ~closed)
        waited, waits = Signal(range(PATIENCE)), Signal()
        m.d.comb += waits.eq(runs & offers & ~moves)
        m.d.sync += waited.eq(Mux(waits, waited + 1, 0))
        return ~p.rst & runs & (odd | (waits & (waited == PATIENCE - 1)))

    return wrong
