"""Cocotb tests of the stand-in unit; one fails and one never ends, on purpose."""

import json
import os
import random
import time
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import Event, RisingEdge

LANES = 32


async def start(dut):
    Clock(dut.clk, 2, "ns").start()
    dut.rst.value = 1
    dut.in_valid.value = 0
    dut.out_ready.value = 1
    await RisingEdge(dut.clk)
    dut.rst.value = 0


async def dot(dut, a, b, scale_a, scale_b, c):
    """One single-block product, through valid and ready."""
    dut.in_valid.value = 1
    dut.in_first.value = 1
    dut.in_last.value = 1
    dut.in_a.value = int.from_bytes(a, "little")
    dut.in_b.value = int.from_bytes(b, "little")
    dut.in_scale_a.value = scale_a
    dut.in_scale_b.value = scale_b
    dut.in_c.value = c
    await RisingEdge(dut.clk)
    dut.in_valid.value = 0
    while not dut.out_valid.value:
        await RisingEdge(dut.clk)
    return int(dut.out_result.value), int(dut.out_invalid.value)


@cocotb.test()
async def computes(dut):
    await start(dut)
    for _ in range(50):
        a, b = random.randbytes(LANES), random.randbytes(LANES)
        scale_a, scale_b, c = random.choice([0, 255]), random.randrange(256), random.getrandbits(32)
        want = (sum(x * y for x, y in zip(a, b, strict=True)) + scale_a + scale_b + c) % 2**32
        assert await dot(dut, a, b, scale_a, scale_b, c) == (want, int(255 in (scale_a, scale_b)))


@cocotb.test()
async def settings_arrive(dut):
    assert os.environ["STANDIN"] == "set by the caller"
    assert cocotb.plusargs["standin"] == "7"
    assert random.getrandbits(64) != 0


@cocotb.test()
async def fails(dut):
    await start(dut)
    assert await dot(dut, bytes(LANES), bytes(LANES), 1, 1, 1) == (4, 0)


@cocotb.test()
async def hangs(dut):
    await start(dut)
    await Event().wait()


@cocotb.test()
async def speed(dut):
    """Cycles per second of a loop that drives every input and reads the result each cycle."""
    await start(dut)
    words = [random.getrandbits(8 * LANES) for _ in range(64)]
    cycles = int(cocotb.plusargs["cycles"])
    begin = time.perf_counter()
    dut.in_valid.value = 1
    for i in range(cycles):
        dut.in_a.value = words[i % 64]
        dut.in_b.value = words[i % 63]
        dut.in_scale_a.value = i % 256
        dut.in_first.value = i % 4 == 0
        dut.in_last.value = i % 4 == 3
        await RisingEdge(dut.clk)
        if dut.out_valid.value:
            int(dut.out_result.value)
    rate = cycles / (time.perf_counter() - begin)
    Path(os.environ["STANDIN_REPORT"]).write_text(json.dumps(rate))
