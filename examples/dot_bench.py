"""A bench for the unit of `mxdot verilog --accumulator aligned:8 -o build/dot.v`."""

import random
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly

from mxdot.model import DotConfig, quantize
from mxdot.sim.engine.verilator import build

UNIT = DotConfig("e4m3", lanes=32, accumulator="aligned:8")
X, Y = np.random.default_rng(1).standard_normal((2, 100, 64), dtype=np.float32)
A, B = quantize(X, "e4m3"), quantize(Y, "e4m3")  # 100 products of 2 blocks
WANT = [hex(bits) for bits in UNIT.dot(A, B).result.view(np.uint32)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def every_result_is_the_models(dut):
    """100 dot products, with gaps between blocks and with results that wait."""
    Clock(dut.clk, 10, "ns").start()
    dut.rst.value, dut.in_valid.value, dut.in_c.value = 1, 0, 0
    await ClockCycles(dut.clk, 2)
    sent, results = 0, []
    while len(results) < 100:
        await FallingEdge(dut.clk)  # inputs change half a cycle before the edge that takes them
        dut.rst.value, dut.out_ready.value = 0, random.random() < 0.7
        dut.in_valid.value = offered = sent < 200 and random.random() < 0.7
        n, k = divmod(min(sent, 199), 2)
        dut.in_first.value, dut.in_last.value = k == 0, k == 1
        for port, array in ((dut.in_a, A), (dut.in_b, B)):
            port.value = int.from_bytes(array.codes[n, 32 * k : 32 * k + 32].tobytes(), "little")
        dut.in_scale_a.value, dut.in_scale_b.value = int(A.scales[n, k]), int(B.scales[n, k])
        await ReadOnly()  # ready and valid have settled
        sent += offered and bool(dut.in_ready.value)
        if dut.out_valid.value and dut.out_ready.value:
            results.append(hex(dut.out_result.value))
    assert results == WANT


if __name__ == "__main__":
    simulation = build(Path("build/dot.v"), "mxdot_dot", Path("build/dot_bench"))
    run = simulation.run(Path(__file__).stem, results_xml=Path("build/dot_bench/results.xml"))
    assert run.passed, run.log_file.read_text()
    print("PASS")
