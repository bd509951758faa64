"""The matrix unit against the golden model, in Amaranth's simulator: jobs, counters, errors."""

import numpy as np
import pytest

from matmul_bench import Beat, Bench, data_of, packet
from mxdot.model import DotConfig, MXArray
from mxdot.model.matmul_config import MatmulConfig
from mxdot.model.matmul_layout import golden, pack_a, pack_b, pack_d, unpack_c
from mxdot.model.matmul_registers import COUNTERS, REGISTERS, constants, word

DOT = DotConfig("e4m3", lanes=4)
SMALL = MatmulConfig(DOT, rows=2, columns=2, depth=4)
PARTS = ("STEPS", "WAIT_A", "WAIT_B", "WAIT_D", "WAIT_DRAIN", "WAIT_UNIT", "TAIL")


class Job:
    """Random operands of a product, its packets and what is to come of it."""

    def __init__(self, config, m, n, blocks, seed=0, mode=0, use_d=False, scales=range(120, 134)):
        rng = np.random.default_rng(seed)
        lanes = config.dot.lanes
        pair = config.dot.formats[mode]
        self.config, self.m, self.n, self.mode, self.use_d = config, m, n, mode, use_d
        self.a, self.b = (
            MXArray(
                rng.integers(0, fmt.largest_code + 1, (rows, blocks * lanes)).astype(np.uint8),
                rng.choice(scales, (rows, blocks)).astype(np.uint8),
                fmt,
                lanes,
            )
            for fmt, rows in zip(pair, (m, n), strict=True)
        )
        self.d = rng.standard_normal((m, n), np.float32) if use_d else None
        self.tiles = config.tiles(m, n, blocks * lanes)
        self.packets = {"a": pack_a(self.a, config, n), "b": pack_b(self.b, config, m)}
        if self.d is not None:
            self.packets["d"] = pack_d(self.d, config)
        self.golden = golden(self.a, self.b, config, self.d)

    def offer(self, bench):
        for side, data in self.packets.items():
            bench.send[side] += packet(data, self.config.stream_bytes(side))

    async def start(self, bench):
        await bench.start(*self.tiles, self.mode, int(self.use_d))

    def check(self, beats):
        """The beats are the one packet of this job's results."""
        assert [beat.last for beat in beats] == [False] * (len(beats) - 1) + [True]
        assert all(beat.keep == 2**self.config.c_bytes - 1 for beat in beats[:-1])
        data = data_of(beats)
        # Bytes past the last TKEEP are no holes: the packet is as short as it can be.
        assert len(beats) == -(-len(data) // self.config.c_bytes)
        got = unpack_c(data, self.config, self.m, self.n)
        bits = f"u{self.config.out.bits // 8}"
        np.testing.assert_array_equal(got.view(bits), self.golden.result.view(bits))

    async def run(self, bench):
        """From the start to the end; checks results, flags, status and counters."""
        bench.got.clear()
        self.offer(bench)
        await self.start(bench)
        await bench.wait()
        self.check(bench.got)
        assert await bench.status() == {"done"}
        word_, _ = await bench.read("FLAGS")
        assert word_ == self.golden.flags
        counts = {name: await bench.count(name) for name in COUNTERS}
        assert counts["STEPS"] == self.tiles.steps
        assert counts["CYCLES"] == sum(counts[name] for name in PARTS)
        assert not any(counts[f"DISCARDED_{side}"] for side in "ABD")
        assert not any(bench.send.values())
        return counts


def run_jobs(config, jobs, **settings):
    """These jobs one after the other; their counters."""
    counts = []

    async def software(bench):
        counts.extend([await job.run(bench) for job in jobs])

    Bench(config, **settings).run(software)
    return counts


# Products -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("initial_c", [False, True])
def test_lengths_around_the_depth(blocks, initial_c):
    """k_blocks of 1, of a kept panel (4 at most) and past it; several rows and columns of tiles."""
    config = MatmulConfig(DOT, rows=2, columns=2, depth=4, initial_c=initial_c)
    jobs = [
        Job(config, m, n, blocks, seed, use_d=initial_c and seed != 1)
        for seed, (m, n) in enumerate([(4, 6), (1, 1), (5, 3)])
    ]
    run_jobs(config, jobs)


@pytest.mark.parametrize(
    ("a", "b", "c", "d", "gap", "stall"),
    [
        (1, 1, 1, 1, 0, 0.3),
        (3, 7, 5, 9, 0.3, 0.5),
        (10, 20, 16, 16, 0.7, 0),
        (11, 25, 3, 7, 0.1, 0.1),
        (40, 9, 24, 1, 0, 0.8),
        (4, 8, 32, 64, 0.5, 0.5),
        (10, 15, 12, 12, 0.3, 0.3),
    ],
)
def test_widths_of_streams_under_stalls(a, b, c, d, gap, stall):
    """A step is 10 bytes of A, 15 of B; a row is 12 bytes: narrower, equal, wider, no divisor."""
    config = MatmulConfig(DOT, 2, 3, 4, a, b, c, d, initial_c=True)
    jobs = [Job(config, 3, 7, blocks, blocks, use_d=True) for blocks in (3, 6)]
    run_jobs(config, jobs, gap=gap, stall=stall)


@pytest.mark.parametrize(
    "dot",
    [
        DotConfig("e5m2xe4m3", 4, "exact", stages=1),
        DotConfig("e4m3", 4, "fused:25", stages=5),
        DotConfig("e2m1,e3m2,e4m3xe5m2", 4, "hopper", out="bfloat16"),
        DotConfig("e3m2xe2m3", 8, "fixed:40:-20", out="float16", status=False),
        DotConfig("int8,e4m3", 4, "float32", stages=3),
        DotConfig("int8xint4", 4, "int32"),
    ],
    ids=str,
)
def test_dot_units(dot):
    """Accumulators, formats, modes and results; a pipelined fused loop makes the array wait."""
    config = MatmulConfig(dot, rows=2, columns=2, depth=4)
    jobs = [Job(config, 3, 4, 3 + mode, mode, mode) for mode in range(len(dot.formats))]
    counts = run_jobs(config, jobs, gap=0.1, stall=0.2)
    assert all((each["WAIT_UNIT"] > 0) == (dot.interval > 1) for each in counts)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 4), (3, 1), (4, 2)])
def test_shapes_of_the_array(rows, columns):
    config = MatmulConfig(DOT, rows, columns, 4)
    run_jobs(config, [Job(config, 5, 5, 3), Job(config, rows, columns, 6)], stall=0.3)


def test_overflow_and_nan_reach_the_flags():
    config = MatmulConfig(DotConfig("e5m2", 4, "exact"), 2, 2, 4)
    large, nan = range(250, 255), range(255, 256)
    jobs = [Job(config, 2, 2, 2, scales=scales) for scales in (large, nan)]
    run_jobs(config, [*jobs, Job(config, 2, 2, 2)])
    assert [job.golden.flags for job in jobs] == [0b01010, 0b00001]


# Time ---------------------------------------------------------------------------------------------


def test_every_cycle_of_an_unhindered_job_is_known():
    """Two cycles until the first step, a step in each cycle, then latency, rows and registers."""
    config = SMALL
    (counts,) = run_jobs(config, [Job(config, 8, 8, 4)])
    latency, rows = config.dot.latency, config.rows
    assert counts == dict.fromkeys(COUNTERS, 0) | {
        "CYCLES": 2 + 64 + latency + rows + 2,
        "STEPS": 64,
        "WAIT_A": 2,
        "TAIL": latency + rows + 2,
    }


def test_results_that_are_not_taken_hold_the_array():
    """A tile of one step computes in a cycle and leaves in as many as it has rows."""
    config = MatmulConfig(DOT, rows=4, columns=2, depth=4)
    (counts,) = run_jobs(config, [Job(config, 16, 16, 1)])
    assert counts["WAIT_DRAIN"] > 2 * counts["STEPS"]
    assert counts["CYCLES"] <= 32 * 4 + 16


def test_narrow_operands_are_waited_for():
    """With half a step in a beat every other cycle is without a step, and its counter says which.

    A panel of A that is kept comes at that pace only once for four tiles: the first is waited for.
    """
    narrow_b = MatmulConfig(DOT, 2, 2, 4, b_bytes=5)
    (counts,) = run_jobs(narrow_b, [Job(narrow_b, 8, 8, 4)])
    assert 62 <= counts["WAIT_B"] <= 66
    narrow_a = MatmulConfig(DOT, 2, 2, 4, a_bytes=5)
    kept, sent_again = run_jobs(narrow_a, [Job(narrow_a, 8, 8, 4), Job(narrow_a, 8, 8, 5)])
    assert kept["WAIT_A"] <= 8
    assert 76 <= sent_again["WAIT_A"] <= 84
    with_d = MatmulConfig(DOT, 2, 2, 4, d_bytes=1, initial_c=True)
    (counts,) = run_jobs(with_d, [Job(with_d, 8, 8, 4, use_d=True)])
    assert counts["WAIT_D"] > 16 * 10


# Errors in the streams ----------------------------------------------------------------------------


def cut_early(beats, where):
    """TLAST with beat `where`, and the rest not sent."""
    where %= len(beats)
    return [*beats[:where], Beat(beats[where].data, beats[where].keep, True)]


def cut_in_beat(beats, where):
    """TLAST with beat `where`, of which only the first byte counts."""
    where %= len(beats)
    return [*beats[:where], Beat(beats[where].data, 1, True)]


def run_on(beats, where):
    """No TLAST with the last byte: so many more beats come before it."""
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


@pytest.mark.parametrize(("side", "width"), [("a", 3), ("b", None), ("b", 3), ("b", 32), ("d", 32)])
@pytest.mark.parametrize(("fault", "where", "error"), FAULTS)
def test_a_bad_packet_ends_its_job_and_no_other(side, fault, where, error, width):
    """Status, an ended packet of C, the rest of every packet discarded; then a sound job."""
    config = MatmulConfig(DOT, 1, 2, 4, width, width, None, width, initial_c=True)
    job = Job(config, 6, 6, 5, use_d=True)

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
        await Job(config, 3, 4, 4, 1, use_d=True).run(bench)

    Bench(config, seed=1, gap=0.1, stall=0.3).run(software)


def golden_bytes(job):
    """The packet that the job would have sent."""
    m, n = job.tiles.m_tiles * job.config.rows, job.tiles.n_tiles * job.config.columns
    whole = np.zeros((m, n), job.config.out.dtype)
    whole[: job.m, : job.n] = job.golden.result
    tiles = whole.reshape(job.tiles.m_tiles, job.config.rows, job.tiles.n_tiles, -1)
    return tiles.swapaxes(1, 2).tobytes()


@pytest.mark.parametrize(("width", "more"), [(4, 1), (4, 2), (32, 1), (32, 22), (15, 1), (15, 5)])
def test_bytes_after_the_last_in_its_own_beat(width, more):
    """A packet of ten bytes that TKEEP makes longer, by a unit of the gearbox or by less."""
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
        (10, False, {"a_keep", "a_early_last"}),  # as wide as a step
        (4, False, {"a_keep"}),
        (10, True, {"a_late_last"}),
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


# Errors in the registers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "mode", "use_d", "errors"),
    [
        ((0, 1, 1), 0, 0, {"bad_shape"}),
        ((1, 0, 1), 0, 0, {"bad_shape"}),
        ((1, 1, 0), 0, 0, {"bad_shape"}),
        ((1, 1, 1), 1, 0, {"bad_format"}),
        ((1, 1, 1), 255, 0, {"bad_format"}),
        ((1, 1, 1), 0, 1, {"bad_option"}),
        ((0, 0, 0), 7, 1, {"bad_shape", "bad_format", "bad_option"}),
    ],
)
def test_a_start_that_is_refused(shape, mode, use_d, errors):
    async def software(bench):
        await bench.start(*shape, mode, use_d)
        await bench.tick(20)
        assert await bench.status() == errors
        masks = [REGISTERS["STATUS"].field(name).mask for name in sorted(errors)]
        for left, mask in zip(range(len(errors) - 1, -1, -1), masks, strict=True):
            await bench.write("STATUS", mask)
            assert len(await bench.status()) == left
        await Job(SMALL, 2, 2, 2).run(bench)

    Bench(SMALL).run(software)


@pytest.mark.parametrize(
    "name", ["IRQ_ENABLE", "M_TILES", "N_TILES", "K_BLOCKS", "FORMAT", "OPTIONS"]
)
def test_values_beyond_a_register_are_refused(name):
    """The first value that is too large, with the low bits of a good one, and one bit far above."""
    (field,) = REGISTERS[name].fields if name != "IRQ_ENABLE" else (None,)
    width = field.width if field else 2
    config = MatmulConfig(DOT, rows=2, columns=2, depth=4, initial_c=True)

    async def software(bench):
        assert await bench.write(name, 1) == 0
        for value in (1 << width, (1 << width) + 1, 0x80000001, 0xFFFFFFFF):
            assert await bench.write(name, value) == 2
            assert await bench.read(name) == (1, 0)
            assert await bench.status() == {"bad_value"}
            await bench.write("STATUS", REGISTERS["STATUS"].field("bad_value").mask)
            assert await bench.status() == set()
        assert await bench.write("IRQ_ENABLE", 0) == 0
        await Job(config, 4, 4, 2, use_d=True).run(bench)

    Bench(config).run(software)


def test_a_refused_start_clears_done_too():
    """What a refused start leaves never looks as if its job had ended."""

    async def software(bench):
        await Job(SMALL, 2, 2, 2).run(bench)
        assert await bench.status() == {"done"}
        await bench.start(0, 1, 1)
        assert await bench.status() == {"bad_shape"}
        await bench.write("STATUS", 0xFFFFFFFF)
        await Job(SMALL, 2, 2, 2).run(bench)
        await bench.start(1, 1, 1, mode=1)
        assert await bench.status() == {"bad_format"}

    Bench(SMALL).run(software)


def test_a_reset_wins_over_a_start():
    """Both bits in one write, idle and busy: nothing runs, no error, `done` is left alone."""

    async def software(bench):
        job = Job(SMALL, 2, 2, 2)
        await job.run(bench)
        assert await bench.write("CONTROL", 3) == 0
        await bench.tick(20)
        assert await bench.status() == {"done"}
        await job.start(bench)
        assert await bench.status() == {"busy"}
        assert await bench.write("CONTROL", 3) == 0
        assert await bench.status() == set()
        await job.run(bench)

    Bench(SMALL).run(software)


def test_while_a_job_runs():
    """A second start and writes of its shape are refused; the job goes on unharmed."""
    job = Job(SMALL, 4, 4, 5)

    async def software(bench):
        await job.start(bench)
        assert await bench.write("CONTROL", 1) == 0
        for name in ("M_TILES", "N_TILES", "K_BLOCKS", "FORMAT", "OPTIONS"):
            before = await bench.read(name)
            assert await bench.write(name, 1 + before[0]) == 2
            assert await bench.read(name) == before
        assert await bench.write("IRQ_ENABLE", 3) == 0
        assert await bench.status() == {"busy", "busy_start", "busy_write"}
        job.offer(bench)
        await bench.wait()
        job.check(bench.got)
        assert await bench.status() == {"done", "busy_start", "busy_write"}

    Bench(SMALL).run(software)


def test_registers():
    """Constants, reset values, strobes, addresses that are none, and reads that change nothing."""

    async def software(bench):
        for name, values in constants(SMALL).items():
            assert await bench.read(name) == (word(REGISTERS[name], values), 0)
            assert await bench.write(name, 0) == 2
        for name in ("STATUS", "CONTROL", "M_TILES", "FLAGS", "CYCLES", "CYCLES_HIGH"):
            assert await bench.read(name) == (0, 0)
        assert await bench.write("K_BLOCKS", 0x5678) == 0
        assert await bench.write("K_BLOCKS", 0xABCD, strobe=0b0010) == 0
        assert await bench.read("K_BLOCKS") == (0xAB78, 0)
        assert await bench.write("K_BLOCKS", 0x00, strobe=0b1100) == 0
        assert await bench.read(REGISTERS["K_BLOCKS"].offset + 3) == (0xAB78, 0)
        assert await bench.write("K_BLOCKS", 0x12345678, strobe=0b0001) == 0
        assert await bench.read("K_BLOCKS") == (0xAB78, 0)
        assert await bench.write("CONTROL", 1, strobe=0b1110) == 0
        assert await bench.status() == set()
        offsets = {register.offset for register in REGISTERS.values()}
        for offset in range(0, 256, 4):
            if offset not in offsets:
                assert await bench.read(offset) == (0, 2)
                assert await bench.write(offset, 0xFFFFFFFF) == 2
        assert await bench.status() == set()

    Bench(SMALL).run(software)


def test_interrupt():
    async def software(bench):
        irq = bench.unit.irq
        await Job(SMALL, 2, 2, 2).run(bench)
        assert not bench.ctx.get(irq)
        await bench.write("IRQ_ENABLE", 1)
        assert bench.ctx.get(irq)
        await bench.write("STATUS", 2)
        assert not bench.ctx.get(irq)
        await bench.start(0, 1, 1)
        assert not bench.ctx.get(irq)
        await bench.write("IRQ_ENABLE", 2)
        assert bench.ctx.get(irq)
        await bench.write("STATUS", 0xFFFFFFFF)
        assert not bench.ctx.get(irq)

    Bench(SMALL).run(software)
