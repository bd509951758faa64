"""Packets that are wrong: status, an ended packet of C, and a sound job afterwards."""

import numpy as np
import pytest

from compare import some
from matmul_bench import Beat, Bench, data_of
from matmul_jobs import DOT, SMALL, Job
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.model.units.matmul.registers import REGISTERS


def cut_early(beats, where):
    """TLAST with beat `where`, and the rest not sent."""
    where %= len(beats)
    return [*beats[:where], Beat(beats[where].data, beats[where].keep, True)]


def cut_in_beat(beats, where):
    """TLAST with beat `where`, of which only the first byte counts."""
    where %= len(beats)
    return [*beats[:where], Beat(beats[where].data, 1, True)]


def run_on(beats, where):
    """No TLAST with the last byte: `where` more beats come before it."""
    *most, last = beats
    full = Beat(last.data, 2 ** len(last.data) - 1, False)
    more = [full] * where + [Beat(last.data, 1, True)]
    return [*most, Beat(last.data, full.keep, False), *more]


def gap_in_keep(beats, where):
    """A byte of beat `where` is missing."""
    where %= len(beats)
    keep = beats[where].keep
    keep &= ~(1 << (keep.bit_count() - 1) // 2)
    return [*beats[:where], Beat(beats[where].data, keep, beats[where].last), *beats[where + 1 :]]


FAULTS = [
    (cut_early, 0, "early_last"),
    (cut_early, 2, "early_last"),
    (cut_early, -2, "early_last"),
    (cut_in_beat, 0, "early_last"),
    (cut_in_beat, -1, "early_last"),
    (run_on, 0, "late_last"),
    (run_on, 5, "late_last"),
    (gap_in_keep, 0, "keep"),
    (gap_in_keep, 2, "keep"),
    (gap_in_keep, -1, "keep"),
]


SIDES = [("a", 2), ("b", None), ("b", 4), ("b", 32), ("d", 12)]


@pytest.mark.parametrize(
    ("side", "width", "fault", "where", "error"),
    some([(*side, *fault) for side in SIDES for fault in FAULTS], 3),
)
def test_a_bad_packet_ends_its_job_and_no_other(side, width, fault, where, error):
    """Status, an ended packet of C, the rest of every packet discarded; then a sound job."""
    config = MatmulConfig(DOT, 1, 2, 4, width, width, None, width, initial_c=True)
    job = Job(config, 3, 4, 5, use_d=True)

    async def software(bench):
        job.offer(bench)
        beats = fault(bench.send[side], where)
        bench.send[side][:] = beats
        await job.start(bench)
        await bench.wait()
        assert await bench.status() == {f"{side}_{error}"}
        assert not any(bench.send.values())
        assert [beat.last for beat in bench.got] == [False] * (len(bench.got) - 1) + [True]
        assert bench.got[-1].keep == 0
        data = data_of(bench.got)
        want = np.frombuffer(golden_bytes(job), np.uint8)[: len(data)]
        assert bytes(want) == data
        await bench.write("STATUS", REGISTERS["STATUS"].field(f"{side}_{error}").mask)
        await Job(config, 2, 4, 3, 1, use_d=True).run(bench)

    Bench(config, seed=1, gap=0.1, stall=0.3).run(software)


def golden_bytes(job):
    """The packet that the job would have sent."""
    m, n = job.tiles.m_tiles * job.config.rows, job.tiles.n_tiles * job.config.columns
    whole = np.zeros((m, n), job.config.out.dtype)
    whole[: job.m, : job.n] = job.golden.result
    tiles = whole.reshape(job.tiles.m_tiles, job.config.rows, job.tiles.n_tiles, -1)
    return tiles.swapaxes(1, 2).tobytes()


@pytest.mark.parametrize(("width", "more"), [(4, 1), (4, 2), (32, 1), (32, 26), (15, 1), (15, 3)])
def test_bytes_after_the_last_in_its_own_beat(width, more):
    """A packet of six bytes that TKEEP makes longer, by a unit of the gearbox or by less."""
    config = MatmulConfig(DOT, 2, 1, 4, a_bytes=width)
    job = Job(config, 2, 1, 1)

    async def software(bench):
        job.offer(bench)
        beats = bench.send["a"]
        keep = 2 ** (beats[-1].keep.bit_count() + more) - 1
        assert keep < 2**width
        beats[-1] = Beat(beats[-1].data, keep, True)
        await job.start(bench)
        await bench.wait()
        assert await bench.status() == {"a_late_last"}
        assert bench.got[-1].last
        assert not data_of(bench.got)
        await bench.write("STATUS", 0xFFFFFFFF)
        await Job(config, 2, 1, 1, 1).run(bench)

    Bench(config).run(software)


@pytest.mark.parametrize(
    ("a_bytes", "whole", "errors"),
    [
        (6, False, {"a_keep", "a_early_last"}),  # as wide as a step
        (4, False, {"a_keep"}),
        (6, True, {"a_late_last"}),
        (4, True, {"a_late_last", "a_keep"}),
    ],
)
def test_a_last_beat_without_bytes(a_bytes, whole, errors):
    """TLAST in a beat of its own, after the whole packet or before its end."""
    config = MatmulConfig(DOT, 2, 2, 4, a_bytes=a_bytes)
    job = Job(config, 4, 4, 2)

    async def software(bench):
        job.offer(bench)
        beats = bench.send["a"]
        kept = len(beats) if whole else 2
        open_end = [Beat(beat.data, beat.keep, False) for beat in beats[:kept]]
        beats[:] = [*open_end, Beat(bytes(a_bytes), 0, True)]
        await job.start(bench)
        await bench.wait()
        assert await bench.status() == errors
        assert bench.got[-1].last
        assert not any(bench.send.values())
        await bench.write("STATUS", 0xFFFFFFFF)
        await Job(config, 3, 3, 2, 1).run(bench)

    Bench(config).run(software)


def test_discarded_bytes_are_counted():
    """An error in the first beat of A: all but the first beats of the others are discarded."""
    job = Job(SMALL, 8, 8, 5)

    async def software(bench):
        job.offer(bench)
        total = {side: len(data) for side, data in job.packets.items()}
        bench.send["a"][:] = gap_in_keep(bench.send["a"], 0)
        await job.start(bench)
        await bench.wait()
        for side in "ab":
            discarded = await bench.count(f"DISCARDED_{side.upper()}")
            assert total[side] - 30 <= discarded < total[side]
        assert await bench.count("DISCARDED_D") == 0

    Bench(SMALL).run(software)


def test_a_packet_that_had_ended_is_not_waited_for():
    """B is late by itself: A's packet is through, the next one on offer stays for the next job."""
    job = Job(SMALL, 2, 2, 2)
    after = Job(SMALL, 4, 4, 3, 1)

    async def software(bench):
        job.offer(bench)
        bench.send["b"][:] = run_on(bench.send["b"], 2)
        after.offer(bench)
        await job.start(bench)
        await bench.wait()
        assert await bench.status() == {"b_late_last"}
        bench.got.clear()
        await after.start(bench)
        await bench.wait()
        after.check(bench.got)
        assert await bench.status() == {"b_late_last", "done"}

    Bench(SMALL).run(software)


def test_a_sender_that_died_is_given_up_by_a_reset():
    job = Job(SMALL, 4, 4, 5)

    async def software(bench):
        job.offer(bench)
        bench.send["a"][:] = cut_early(bench.send["a"], 2)
        del bench.send["b"][5:]
        await job.start(bench)
        await bench.tick(300)
        assert await bench.status() == {"busy", "a_early_last"}
        await bench.write("CONTROL", REGISTERS["CONTROL"].field("reset").mask)
        assert await bench.status() == {"a_early_last"}
        await bench.write("STATUS", 0xFFFFFFFF)
        await Job(SMALL, 3, 3, 2, 1).run(bench)

    Bench(SMALL).run(software)


@pytest.mark.parametrize("after", [0, 3, 10, 40, 70])
def test_reset_at_any_time(after):
    """Operands, sums and results are lost; the next job finds nothing of them."""
    config = MatmulConfig(DOT, 2, 2, 4, initial_c=True)
    job = Job(config, 8, 8, 4, use_d=True)

    async def software(bench):
        job.offer(bench)
        await job.start(bench)
        await bench.tick(after)
        for beats in bench.send.values():
            beats.clear()
        await bench.tick(3)
        await bench.write("CONTROL", 2)
        assert not await bench.status() & {"busy"}
        for port in (bench.unit.s_axis_a, bench.unit.s_axis_b, bench.unit.s_axis_d):
            assert not bench.ctx.get(port.tready)
        assert not bench.ctx.get(bench.unit.m_axis_c.tvalid)
        await Job(config, 3, 4, 5, 1).run(bench)

    Bench(config, stall=0.5).run(software)
