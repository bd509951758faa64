"""The report of areas beside other open units."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from compare import generator
from mxdot.model import MX_FORMATS
from mxdot.model.pipeline.widths import Widths
from mxdot.synth import Flow, measure
from mxdot.synth.area_report import LANES, ProductsOnly, clocked, entries, main, sections


@pytest.mark.parametrize("fmt", ["e4m3", "int8", "e2m1"])
@pytest.mark.slow_except(3)
def test_products_are_summed_exactly(fmt):
    design = ProductsOnly(fmt)
    bits, lsb = MX_FORMATS[fmt].bits, Widths(design.config).lsb
    values = MX_FORMATS[fmt].values
    rng, wrong = generator("products", fmt), []

    async def bench(context):
        for _ in range(50):
            codes = rng.choice(np.flatnonzero(np.isfinite(values)), (2, LANES))
            for name, row in zip("ab", codes, strict=True):
                word = sum(int(code) << bits * lane for lane, code in enumerate(row))
                context.set(design.ports[name], word)
            await context.delay(1e-9)
            total = context.get(design.ports["total"])
            total -= (total >> len(design.ports["total"]) - 1) << len(design.ports["total"])
            want = np.dot(values[codes[0]], values[codes[1]])
            if total * 2.0**lsb != want:
                wrong.append((codes, total, want))

    simulator = Simulator(design)
    simulator.add_testbench(bench)
    simulator.run()
    assert not wrong


def test_every_row_is_there_once():
    names = [entry.name for entry in entries()]
    assert len(set(names)) == len(names) == 19
    assert len({entry.name for entry in clocked()}) == 10
    assert len({entry.name for entry in sections()}) == len(list(sections())) == 18


def test_a_row(capsys, tmp_path):
    arguments = ["--process", "gt2n", "--only", "e2m1 products", "--cache", str(tmp_path)]
    assert main(arguments) == 0
    *_, row = capsys.readouterr().out.splitlines()
    flow = Flow.of_process("gt2n", effort="balanced", sections=False)
    cost = measure(ProductsOnly("e2m1").verilog(), "measured", flow, cache_dir=tmp_path)
    assert row == f"| e2m1 products | {cost.area:,.0f} | {cost.delay_ps:,.0f} | 0 |"


def test_a_section(capsys, tmp_path):
    cache = ["--cache", str(tmp_path)]
    assert main(["--sections", "--process", "gt2n", "--only", "decode", *cache]) == 0
    *_, row = capsys.readouterr().out.splitlines()
    _, name, area, delay, flipflops, _ = row.split("|")
    assert [name.strip(), flipflops.strip()] == ["decode", "0"]
    assert 5 < float(area) < 50
    assert 20 < float(delay) < 400


def test_refused(capsys):
    assert main(["--process", "gt2n,tsmc"]) == 2
    assert capsys.readouterr().err == (
        "area-report: error: process must be one of sky130, ihp, asap7, gt2n, not 'tsmc'\n"
    )


def test_no_such_row(capsys):
    assert main(["--only", "e9m9"]) == 2
    message = "area-report: error: only must be part of a row's name, not 'e9m9'\n"
    assert capsys.readouterr().err == message


@pytest.mark.slow
def test_balanced_lies_between(tmp_path):
    text = ProductsOnly("e2m1").verilog()
    area = {}
    for effort in ("area", "balanced", "speed"):
        flow = Flow.of_process("asap7", effort=effort, sections=False)
        cost = measure(text, "measured", flow, cache_dir=tmp_path)
        area[effort] = cost.area, cost.delay_ps
    assert area["balanced"][0] < area["speed"][0]
    assert area["balanced"][1] < area["area"][1]
    with pytest.raises(ValueError, match="effort must be area or speed for the flow gates"):
        Flow("gates", effort="balanced")
