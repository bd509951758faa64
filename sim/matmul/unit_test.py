"""The regression test of one matrix unit, cycle by cycle: products under stalls, then faults."""

import time
from collections.abc import Coroutine
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import SimTimeoutError, with_timeout

from ..bench.coverage import Tally, conclude
from .bench import Bench
from .faults import FAULTS, Fault, applies
from .features import goals
from .stimulus import products, shapes, total_cycles

PROFILES = (
    ({}, 1.0),
    ({"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25, "software": 0.25}, 2.0),
    ({"a": 0.4, "c": 0.2}, 4.0),
    ({"b": 0.4, "d": 0.2}, 4.0),
    ({"d": 0.5}, 20.0),
    ({"c": 0.75}, 20.0),  # the buffers of as many tiles as take turns fill up
)
"""Share of the cycles that each end pauses, and the mean length of a pause."""
LONGEST = 2_000_000  # ns for one thing to do, of short jobs
MOST_HANGS = 3  # after which nothing more is tried
SETTLE = 50  # cycles after the last job, for beats that nobody asked for


@cocotb.test()
async def matmul_test(dut: Any) -> None:
    """Run everything and write the report; fails on any error."""
    bench = Bench(dut)
    started = time.perf_counter()
    Clock(dut.clk, 2, "ns").start()
    await bench.ends.reset()
    await _products(bench)
    faults = {name: f for name, f in FAULTS.items() if applies(f, bench.config)}
    await _faults(bench, faults)
    await bench.ends.cycles(SETTLE)
    bench.what = "at the end"
    bench.check(bench.ends.quiet, "beats are left in the streams")
    report = bench.report
    report.seconds = time.perf_counter() - started
    tally = Tally("matmul", goals(bench.config, faults, bench.ends.counter_registers))
    for hits in bench.hits:
        for name, bins in hits.items():
            tally.add(name, bins)
    tally.sample()
    missed = conclude(bench.job.directory, report)
    if missed:
        bench.error(missed)
    bench.errors.finish()
    report.save(bench.job.directory / "cycle.json")
    assert not report.errors, "; ".join(report.errors)


async def _products(bench: Bench) -> None:
    """Products of every shape, the ends of the streams slower or faster from one to the next."""
    for number, product in enumerate(products(bench.config, bench.numbers, bench.job.traffic)):
        if bench.hangs >= MOST_HANGS:
            return
        bench.what = f"product {number} ({product.name})"
        shares, length = PROFILES[number % len(PROFILES)]
        bench.ends.pause(shares, length, bench.rng)
        await _guarded(bench, bench.multiply(product))


async def _faults(bench: Bench, faults: dict[str, Fault]) -> None:
    """Every fault, and a job after each."""
    for name, fault in faults.items():
        if bench.hangs >= MOST_HANGS:
            return
        bench.what = f"fault {name}"
        shares, length = bench.rng.choice(PROFILES[:2])
        bench.ends.pause(shares, length, bench.rng)
        await _guarded(bench, fault.run(bench))
        bench.hits.append({"fault": {name}})
        bench.what = f"after fault {name}"
        bench.ends.pause({}, 1.0, bench.rng)
        await _guarded(bench, bench.multiply(bench.product((1, 2), 2)))


async def _guarded(bench: Bench, work: Coroutine[Any, Any, object]) -> None:
    """Do the work; a reset follows when it cannot go on, or hangs."""
    longest = LONGEST + 1000 * total_cycles(bench.config, shapes(bench.config))
    try:
        await with_timeout(work, longest, "ns")
    except (AssertionError, SimTimeoutError) as problem:
        bench.error(str(problem) or f"no end after {longest} ns")
        bench.hangs += 1
        await bench.recover()
