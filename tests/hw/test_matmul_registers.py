"""Registers of the matrix unit: refused starts and values, resets, the interrupt."""

import pytest

from matmul_bench import Bench
from matmul_jobs import DOT, SMALL, Job
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.model.units.matmul.registers import REGISTERS, constants, word


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
    """The state after a refused start never looks like that of a job that ended."""

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
