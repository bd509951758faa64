"""Claims about jobs of a whole matrix unit: how long C's packet is, and that a job ends.

As in `packets.py` the unit has no registers, what they would tell it is given. `length` is about
jobs of any size. `ends` is about one size each: while it runs, streams that offer and take cannot
wait for long until a beat moves. As beats of A, B and C are as many as registers say (the errors of
`packets`, and C's here), such a job comes to its end.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...model import DotConfig
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import STREAM_ERRORS
from .claim import Claim
from .engine import CORRESPONDING, decide
from .observer import ObservedUnit, Rule
from .packets import CONFIG, COUNTS, Loops, beat_taken, without_registers

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
