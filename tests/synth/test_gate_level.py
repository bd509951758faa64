"""Netlists as Verilog: what synthesis makes of a unit passes its bench, a spoilt one does not."""

import re
from dataclasses import asdict, replace

import pytest

from mxdot.cli import main
from mxdot.hw.verilog import generate, modules_of
from mxdot.model import DotConfig, DotQuantizeConfig, MatmulConfig, QuantizeConfig
from mxdot.sim.engine import regression
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.regression import run_unit
from mxdot.sim.engine.unit import UnitResult
from mxdot.synth import SynthesisError
from mxdot.synth.gate_level import gate_level, unit_netlist
from mxdot.synth.liberty import Library, LibraryCell
from mxdot.synth.liberty_syntax import Function
from mxdot.util.store import Outcome
from mxdot.util.yosys import Bit, Cell, Netlist

DOT = DotConfig("e2m1", 4, "exact", 2)
DOT_OF_ARRAY = replace(DOT, load_c=False)
QUANTIZE = QuantizeConfig("e2m1", 4, stages=2)


def spoilt(config, process):
    """The netlist with the lowest bit of a result inverted."""
    text = unit_netlist(config, process)
    return re.sub(r"(assign out_result\[0\] = )(\w+)", r"\1~\2", text)


def simulated(config, folder, function="mxdot.synth.gate_level:unit_netlist"):
    job = UnitJob("unit", config, 1, folder, traffic=2000, bulk=1000, generator=(function, "asap7"))
    return run_unit(job)


@pytest.fixture(scope="module", autouse=True)
def netlists(tmp_path_factory):
    """Directory of netlists."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mxdot.synth.gate_level.SYNTHESES", tmp_path_factory.mktemp("synth"))
        yield


@pytest.mark.slow_except(7)
@pytest.mark.parametrize(
    "config",
    [DOT, QUANTIZE, DotQuantizeConfig(replace(DOT, status=False), "e2m1", 4)],
    ids=lambda config: config.kind,
)
def test_a_unit_of_cells_passes_its_bench(config, tmp_path):
    result = simulated(config, tmp_path)
    assert result.passed, (result.errors, result.report)
    assert result.compared >= 1000


@pytest.mark.slow
def test_of_a_large_array_the_dot_units_are_mapped(monkeypatch):
    monkeypatch.setattr("mxdot.sim.matmul.unit.LARGE", 2)
    config = MatmulConfig(DOT_OF_ARRAY, 2, 1, depth=4)
    generated, found = (
        modules_of(text) for text in (generate(config), unit_netlist(config, "asap7"))
    )
    assert [*found] == [*generated]
    changed = [name for name in found if found[name] != generated[name]]
    assert changed == ["mxdot_matmul_dot_unit"]
    assert "assign o_payload_result[0] = n" in found[changed[0]]


def test_a_spoilt_one_does_not(tmp_path):
    result = simulated(DOT, tmp_path, f"{__name__}:spoilt")
    assert result.mismatches > 100
    assert not result.passed
    assert "result differs" in result.report
    assert "(no stages: other Verilog than the generated one" in result.report


def test_the_command_line_synthesises_every_unit(tmp_path, monkeypatch, capsys):
    """Worker processes give the same results, stored with those of the units."""
    monkeypatch.chdir(tmp_path)
    words = ["--format", "e2m1", "--lanes", "4", "--accumulator", "exact", "--stages", "1"]
    monkeypatch.setattr(regression, "results", lambda tasks, *_: map_closable(_looked_at, tasks))
    assert main(["sim", "dot", *words, "--netlist", "gates", "--seed", "1"]) == 0
    assert (tmp_path / "build" / "sim-gates" / "results.xml").is_file()
    assert main(["sim", "dot", *words, "--netlist", "asap8"]) == 2
    assert "netlist must be one of gates, sky130, ihp, asap7, gt2n, not 'asap8'" in (
        capsys.readouterr().err
    )


def map_closable(function, tasks):
    yield from map(function, tasks)


def _looked_at(task):
    job = task.job
    text = job.generate()
    assert "assign out_result[0] = n" in text
    assert "--netlist gates" in job.repeat
    result = UnitResult(job.name, str(job.config), compared=1)
    return task, Outcome(task.key, task.label, asdict(result))


def test_a_synthesis_that_fails_is_one_line(tmp_path):
    result = simulated(DOT, tmp_path, f"{__name__}:fails")
    assert result.errors == [f"too small (log: {tmp_path / 'error.log'})"]


def fails(config, process):
    raise SynthesisError("too small")


@pytest.mark.parametrize("clock", ["!CK", "E"])
def test_only_rising_edges_of_an_input_clock(clock):
    """Neither a falling edge nor what a gate makes."""
    d = Function.parse("D")
    flop = LibraryCell(
        "DFF", 1.0, {"D": 1.0, "CK": 1.0, "E": 1.0}, {"Q": Function.parse("IQ")}, {"IQ": d},
        Function.parse(clock),
    )  # fmt: skip
    pins: dict[str, list[Bit]] = {"D": [3], "CK": [2], "E": [5], "Q": [4]}
    ports: dict[str, tuple[str, list[Bit]]]
    ports = {"clk": ("input", [2]), "d": ("input", [3]), "q": ("output", [4])}
    netlist = Netlist("top", ports, [Cell("keeper", "DFF", pins)])
    with pytest.raises(SynthesisError, match=r"^keeper is no flip-flop that the rising edge"):
        gate_level(netlist, Library("cells", {"DFF": flop}))
