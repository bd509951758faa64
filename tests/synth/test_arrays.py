"""Matrix units: parts and their sum, the model of larger ones, what fits, the roofline."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mxdot.cli import main
from mxdot.hw.verilog import generate, modules_of
from mxdot.model import DotConfig
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.synth import Cost, Flow, measure
from mxdot.synth.arrays import (
    ROUTABLE,
    TOP,
    AreaModel,
    ArrayCost,
    fit,
    largest_array,
    measure_array,
    resized,
)
from mxdot.synth.fpga import DEVICES, FILL, Device
from mxdot.synth.roofline import Job, full_width, peak

SMALL = MatmulConfig(DotConfig("e2m1", 4, "exact", 2, status=False), 1, 1, depth=4)
GATES = Flow("gates", sections=False)
OPTIONS = ["--format", "e2m1", "--lanes", "4", "--accumulator", "exact", "--stages", "2"]
OPTIONS += ["--no-status", "--depth", "4"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def costs(cache):
    sizes = ((1, 1), (1, 2), (2, 1), (2, 3), (3, 2))
    return [measure_array(resized(SMALL, *size), GATES, cache) for size in sizes]


# Area ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_parts_make_the_whole(costs, cache):
    """A flattened design may share and simplify a little more."""
    cost = costs[3]
    text = generate(cost.config, TOP)
    memories = [name for name in modules_of(text) if "_step_memory_" in name]
    assert len(memories) == 2
    flat = measure(text, TOP, GATES, cache_dir=cache, black_boxes=memories)
    assert cost.area == pytest.approx(flat.area, rel=0.05)
    held = cost.units * cost.unit.flipflops + cost.rest.flipflops
    assert held == pytest.approx(flat.flipflops, rel=0.02)
    assert cost.rest.extra["latches"] == 0


@pytest.mark.slow
def test_memories_are_counted_in_bits(costs):
    # Two rings of 2 x 4 steps: 2 rows of A, 3 columns of B, each 4 x 4 bits and a scale.
    assert costs[3].memory_bits == 8 * (2 + 3) * (4 * 4 + 8)


@pytest.mark.slow
def test_a_dot_unit_is_the_same_in_every_array(costs):
    assert len({cost.unit.area for cost in costs}) == 1
    assert costs[0].depth == max(costs[0].unit.depth or 0, costs[0].rest.depth or 0) > 0
    assert [cost.products for cost in costs] == [4, 8, 8, 24, 24]


def test_a_black_box_has_no_area(cache):
    text = """
module inner(input clk, input [7:0] a, output reg [7:0] y);
  always @(posedge clk) y <= a * a;
endmodule
module outer(input clk, input [7:0] a, output [7:0] y);
  wire [7:0] b;
  inner one (.clk(clk), .a(~a), .y(b));
  assign y = ~b;
endmodule
"""
    without = measure(text, "outer", GATES, cache_dir=cache, black_boxes=["inner"])
    assert (without.area, without.flipflops) == (16 * 0.5, 0)
    assert measure(text, "outer", GATES, cache_dir=cache).flipflops == 8
    with pytest.raises(ValueError, match="must be a module below outer, not 'outer'"):
        measure(text, "outer", GATES, cache_dir=cache, black_boxes=["outer"])


# Larger arrays ------------------------------------------------------------------------------------


def made_up(rows, columns, factors):
    """An array whose rest is linear in rows, columns and both."""
    cost = Cost(0.0, "NAND2", None, 0, 1, None, None, {})
    rest = float(np.dot(factors, (1, rows, columns, rows * columns)))
    unit = replace(cost, area=1000.0)
    return ArrayCost(resized(SMALL, rows, columns), unit, replace(cost, area=rest), 0)


def test_the_model_finds_what_made_the_areas():
    factors = (5000.0, 300.0, 70.0, 11.0)
    sizes = ((1, 1), (1, 2), (4, 1), (3, 5))
    model = AreaModel.of([made_up(*size, factors) for size in sizes])
    found = (model.once, model.per_row, model.per_column, model.per_unit)
    assert found == pytest.approx(factors)
    assert model.error < 1e-9
    assert model.area(64, 32) == pytest.approx(64 * 32 * 1011 + 5000 + 300 * 64 + 70 * 32)


@pytest.mark.slow
def test_the_model_tells_how_far_off_it_is(costs):
    model = AreaModel.of(costs)
    for cost in costs:
        rows, columns = cost.config.rows, cost.config.columns
        assert model.area(rows, columns) == pytest.approx(cost.area, rel=model.error * 1.001)
    assert 0 < model.error < 0.02


def test_squares_alone_are_no_model():
    with pytest.raises(ValueError, match="must be of arrays that differ in rows, columns and both"):
        AreaModel.of([made_up(n, n, (1, 1, 1, 1)) for n in (1, 2, 3, 4)])


@pytest.mark.parametrize("room", [900, 2000, 10_000, 100_000])
def test_the_largest_array_that_fits(room):
    model = AreaModel(1000.0, 500.0, 30.0, 20.0, 5.0, 0.0)
    fitting = [
        rows * columns
        for rows in range(1, 65)
        for columns in range(1, 65)
        if rows <= 2 * columns and columns <= 2 * rows and model.area(rows, columns) <= room
    ]
    found = largest_array(SMALL, model, room)
    if not fitting:
        assert found is None
        return
    assert found is not None
    assert found.rows * found.columns == max(fitting)


# FPGA ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_array_fills_the_device(cache, monkeypatch):
    monkeypatch.setitem(DEVICES, "85k", Device(16_000, 20, "router2"))
    seen = []
    found = fit(SMALL, cache, progress=seen.append)
    assert seen[:4] == ["1 x 1", "1 x 2", "2 x 1", "2 x 2"]
    assert (found.placed, found.products_per_second) == (None, None)
    assert found.cost.units > 2
    room = FILL * 16_000
    assert found.luts == found.cost.area <= room * (1 + found.model.error)
    assert largest_array(SMALL, found.model, room) == found.cost.config
    monkeypatch.setitem(DEVICES, "85k", Device(2000, 20, "router2"))
    with pytest.raises(ValueError, match="dot must be a unit of which one fits an ECP5-85k, not e"):
        fit(SMALL, cache)


def test_multiplier_blocks_bound_an_array(cache, monkeypatch):
    """Five units, which 20 blocks allow, are no such array; 2 x 2 is the largest."""
    monkeypatch.setitem(DEVICES, "85k", Device(30_000, 20, "router2"))
    flows = []

    def measured(config, flow, cache_dir):
        flows.append(flow)
        cost = made_up(config.rows, config.columns, (500.0, 30.0, 20.0, 5.0))
        return replace(cost, unit=replace(cost.unit, extra={"dsp": 4}))

    monkeypatch.setattr("mxdot.synth.arrays.measure_array", measured)
    dot = DotConfig("int8", 4, "int32", 2, status=False, target="fpga")
    found = fit(MatmulConfig(dot, 1, 1, depth=4), cache)
    assert (found.cost.units, found.cost.multipliers) == (4, 16)
    assert all(flow.dsp for flow in flows)


@pytest.mark.slow
def test_a_placed_array_leaves_room_for_routing(cache, monkeypatch):
    monkeypatch.setitem(DEVICES, "85k", Device(8000, 20, "router2"))
    counted, flows = fit(SMALL, cache), []

    def place(verilog, top, flow, *arguments, **options):
        if not flow.place:
            return measure(verilog, top, flow, *arguments, **options)
        flows.append(flow)
        return replace(counted.cost.unit, area=12_345.0, fmax_mhz=20.0)

    monkeypatch.setattr("mxdot.synth.arrays.measure", place)
    found = fit(SMALL, cache, place=True)
    assert [flow.place for flow in flows] == [True]
    assert found.cost.units < counted.cost.units
    assert found.cost.area <= ROUTABLE * 8000 * (1 + found.model.error)
    assert found.luts == 12_345
    assert found.products_per_second == found.cost.products * 20e6


@pytest.mark.slow
def test_counting_places_nothing(cache):
    text = generate(SMALL.dot, "u")
    counted = measure(text, "u", Flow("ecp5", place=False, sections=False), cache_dir=cache)
    assert counted.fmax_mhz is None
    assert counted.area > 0
    with pytest.raises(ValueError, match="place is for the flow ecp5, and must be True for gates"):
        Flow("gates", place=False)
    with pytest.raises(ValueError, match="place must be False for outer with black boxes"):
        measure(
            "module inner(input a, output y); endmodule\n"
            "module outer(input a, output y); inner i(a, y); endmodule",
            "outer",
            Flow("ecp5"),
            cache_dir=cache,
            black_boxes=["inner"],
        )


# Roofline -----------------------------------------------------------------------------------------


def test_a_job_by_hand():
    config = MatmulConfig(DotConfig("e4m3", 32), 8, 8)
    job = Job.of(config, (1024, 1024, 1024))
    step = 8 * 33  # bytes: 8 blocks of 32 codes and a scale
    panels = 128 * 32 * step  # of A, kept for a row of tiles
    assert job.bytes == panels + 128 * panels + 1024 * 1024 * 4
    assert job.steps == 128 * 128 * 32
    assert (job.peak, job.filled) == (2048, 1)
    assert job.intensity == 1024**3 / job.bytes
    assert full_width(config) == 264 + 264 + 32
    assert job.attainable(full_width(config)) == 2048
    assert job.attainable(64) == 64 * job.intensity < 2048


def test_filling_up_tiles_is_no_work():
    config = MatmulConfig(DotConfig("e4m3", 32), 8, 8)
    job = Job.of(config, (9, 8, 32))
    assert job.filled == 9 / 16
    assert job.attainable(1e9) == 2048 * 9 / 16


def test_blocks_at_an_interval_lower_the_roof():
    config = MatmulConfig(DotConfig("e4m3", 32, "fused:25", 5), 4, 2)
    assert config.dot.interval == 3
    assert peak(config) == 4 * 2 * 32 / 3


# Command line -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_table_and_plots(cache, tmp_path, capsys):
    sizes = ["--sizes", "1x1,1x2,2x1,2x3,3x2", "--shape", "8,8,64", "--cache", str(cache)]
    assert main(["array", *OPTIONS, *sizes, "-o", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "off by at most" in out
    assert {path.name for path in tmp_path.iterdir()} == {
        *("arrays.json", "arrays.csv", "area.svg", "roofline.svg")
    }
    content = json.loads((tmp_path / "arrays.json").read_text())
    assert [row["array"] for row in content["arrays"]][-3:] == ["16 x 16", "32 x 32", "64 x 64"]
    assert content["arrays"][3]["products/cycle"] == 24
    assert "8 x 8 x 64" in (tmp_path / "roofline.svg").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sizes", "2"], "sizes must be numbers like NxN, not '2'"),
        (["--sizes", "2x0"], "columns must be from 1 to 64, not 0"),
        (["--shape", "1,2"], "shape must be numbers like N,N,N, not '1,2'"),
        (["--shape", "1,2,3"], "k must be a multiple of the 4 lanes, not 3"),
        (["--place"], "place needs --fit: it is for the array that fits"),
    ],
)
def test_bad_options_are_one_line(options, message, capsys):
    assert main(["array", *OPTIONS, *options]) == 2
    assert capsys.readouterr().err == f"mxdot: error: {message}\n"
