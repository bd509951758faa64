"""Assertions of `mxdot verilog --assertions`: proved, each one bites, simulators read them."""

import json
import re
from dataclasses import replace

import pytest

from mxdot.hw.verilog import generate
from mxdot.hw.verilog.assertions import KNOWN, assertions, names_of, targets_of
from mxdot.model import DotConfig
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.regression import run_unit
from mxdot.synth.tools import run_abc
from mxdot.verify.formal import assertions as formal
from mxdot.verify.formal.claim import prove

LIMIT = 120  # seconds
CLAIMS = {claim.name: claim for claim in formal.claims()}
FLIPPED = "{right} ^ (toggles ? ({bits}'d1 << ({bits} > 1)) : {bits}'d0)"
FAULTS = {
    "changes": {"valid": "1'b1", "ready": "1'b1", "": FLIPPED},
    "drops": {"valid": "toggles", "": "{right}"},
    "waits": {"ready": "{right} & toggles", "": "{right}"},
    "flags": {"valid": "{right}", "ready": "{right}", "inexact": "1'b0", "": "{{{bits}{{1'b1}}}}"},
    "X": {"": "toggles ? {bits}'bx : {right}"},
}
"""Faults at the outputs of a unit: expressions by the end of a port's name."""


@pytest.mark.parametrize("name", ["quantize", "quantize-beats-x", "dot"])
def test_they_hold(name, tmp_path):
    result = prove(CLAIMS[f"assertions:{name}"], tmp_path, LIMIT)
    assert result.holds, f"make formal ARGS='--only assertions:{name}'"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("dot", "invalid_is_nan"),
        ("dot", "out_inexact_stays"),
        ("dot-quantize", "out_scale_in_block"),
    ],
)
@pytest.mark.slow
def test_x_of_products_that_did_not_begin_breaks_none(name, rule, tmp_path):
    """Registers without reset begin as X, which goes into results without a first block."""
    config, _ = formal.UNITS[name]
    names = [rule, f"out_valid{KNOWN}"]  # the second makes it a question about X
    formal.write(config, names, formal.subject(config), tmp_path, LIMIT)
    log = run_abc("read both.aig; strash; scorr; bmc3 -F 12", tmp_path, "it", LIMIT)
    assert "No output asserted in 12 frames" in log, log


def with_fault(text: str, module: str, fault: dict[str, str]) -> str:
    """The Verilog with a fault at each output of a module; `toggles` changes in every cycle."""
    head, begin, rest = text.partition(f"module {module} (\n")
    top, end, others = rest.partition("endmodule")
    ports, close, body = top.partition(");\n")
    body, instance, bound = body.partition(f"  {module}_assertions ")
    more = ["  reg toggles = 1'b0;", "  always @(posedge clk) toggles <= ~toggles;"]
    for high, name in re.findall(r"output wire (?:\[(\d+):0\])? +(\w+)", ports):
        right, bits = f"{name}_right", int(high or 0) + 1
        ending = next(ending for ending in fault if name.endswith(ending))
        body = re.sub(rf"(?<![.\w]){name}\b", right, body)
        wrong = fault[ending].format(right=right, bits=bits)
        more += [f"  wire [{bits - 1}:0] {right};", f"  assign {name} = {wrong};"]
    if "aclk" in ports:
        more[1] = more[1].replace("clk", "aclk")
    declared = [line for line in more if not line.startswith("  assign")]
    assigned = [line for line in more if line.startswith("  assign")]
    top = "\n".join([ports + close, *declared, body, *assigned, ""])
    return f"{head}{begin}{top}{instance}{bound}{end}{others}"


def refuted(name: str, fault: str, names: set[str], directory, monkeypatch) -> set[str]:
    """Names of a unit's assertions that fail in it with that fault."""
    config, _ = formal.UNITS[name]
    unit = formal.subject(config)
    for module in targets_of(assertions(config, "subject")):
        unit = replace(unit, text=with_fault(unit.text, module, FAULTS[fault]))
    asked = sorted(n for n in names if n.endswith(KNOWN) == (fault == "X"))
    with monkeypatch.context() as patch:
        patch.setattr(formal, "WRITE", formal.WRITE.replace("aiger", "aiger -zinit -ywmap map", 1))
        formal.write(config, asked, unit, directory, LIMIT)
    cells = json.loads((directory / "map").read_text())["asserts"]
    log = run_abc("read both.aig; strash; pdr -a -T 10", directory, "it", LIMIT)
    outputs = re.findall(r"Output +(\d+) .*asserted", log)
    return {cells[int(i)][-1].lstrip("\\").rpartition(".")[2] for i in outputs}


@pytest.mark.slow_except(7)
@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("dot-i2", None),
        ("integer", {"ready_at_once", "invalid_never", "underflow_never"}),
        ("quantize-beats", None),
        ("matmul", None),
    ],
)
def test_each_one_bites(name, names, tmp_path, monkeypatch):
    left = names or set(names_of(assertions(formal.UNITS[name][0])))
    for fault in FAULTS:
        if not left:
            break
        left = left - refuted(name, fault, left, tmp_path / fault.replace(" ", "-"), monkeypatch)
    assert not left


def test_verilator_stops_at_a_broken_one(tmp_path, simulation_dir):
    """In `make sim` it ends the run, which names it; the unit without the fault passes."""
    config = DotConfig("e2m1", 4, "float32", 1)
    verilog = tmp_path / "unit.v"
    job = UnitJob(
        "asserted", config, 1, tmp_path, traffic=100, bulk=300, verilog=verilog, assertions=True,
        builds=simulation_dir / "asserted",
    )  # fmt: skip
    verilog.write_text(generate(config))
    assert run_unit(job).passed
    verilog.write_text(with_fault(generate(config), "mxdot_dot", FAULTS["drops"]))
    broken = run_unit(job)
    assert re.match(r"the assertion \w+ failed", broken.errors[0])
