"""The regression runner: verdicts, files, the command line, and the ways out."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from matrices import every_unit
from mxdot.cli import main
from mxdot.model import DotConfig
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.sim.dot import unit as dot_unit
from mxdot.sim.engine import regression, regression_units, stream_unit
from mxdot.sim.engine.job import CycleReport, Failure, UnitJob
from mxdot.sim.engine.regression import (
    QUICK_TRAFFIC,
    TRAFFIC,
    Settings,
    UnitTask,
    random_seed,
    run_regression,
    run_unit,
    select,
    unit_processes,
)
from mxdot.sim.engine.regression_units import Unit
from mxdot.sim.engine.summary import HITS, merge_coverage
from mxdot.sim.engine.unit import UnitResult
from mxdot.sim.engine.verilator import SimulationError
from mxdot.sim.matmul import unit as matmul_unit
from mxdot.synth.errors import SynthesisError
from mxdot.util.jobs import results
from mxdot.util.store import Outcome
from processes import descendants, ended

SMALL_MATMUL = Unit(MatmulConfig(DotConfig(formats="e2m1", lanes=4), 1, 1, depth=4), 10)
SMALL = Unit(DotConfig(formats="e2m1", lanes=4, accumulator="exact", stages=2), 1000)


def settings(directory: Path, **options) -> Settings:
    return Settings(seed=7, directory=directory, repeat="repeat {name}", **options)


def fake_runs(monkeypatch, *results: UnitResult) -> None:
    def ended(tasks, backend, start):
        for task, result in zip(tasks, results, strict=True):
            yield task, Outcome(task.key, task.label, asdict(result))

    monkeypatch.setattr(regression, "results", ended)


def simulated(job: UnitJob) -> UnitResult:
    """The result of a job in a process of its own."""
    ((task, outcome),) = results([UnitTask.of(job)], unit_processes(1))
    return task.take(outcome)


def good(name: str = SMALL.name) -> UnitResult:
    return UnitResult(name, "a unit", compared=10, coverage=100.0, cycle_rate=1, bulk_rate=9)


def xml(path: Path) -> ET.Element:
    root = ET.parse(path).getroot()
    assert root is not None
    return root


def found(root: ET.Element, path: str) -> ET.Element:
    element = root.find(path)
    assert element is not None
    return element


def test_a_good_run(monkeypatch, tmp_path, capsys):
    fake_runs(monkeypatch, good())
    assert run_regression([SMALL], settings(tmp_path)) is True
    output = capsys.readouterr().out
    assert "seed 7" in output
    assert "10 dot products compared with the model, 0 mismatches" in output
    assert "all passed" in output
    root = xml(tmp_path / "results.xml")
    assert (root.get("tests"), root.get("failures")) == ("1", "0")
    assert found(root, ".//property[@name='seed']").get("value") == "7"
    assert root.find(".//failure") is None
    assert (tmp_path / "coverage.yml").is_file()
    assert (tmp_path / "coverage.xml").is_file()


@pytest.mark.parametrize(
    "bad",
    [
        UnitResult(SMALL.name, "a unit"),  # nothing was compared
        UnitResult(SMALL.name, "a unit", 10, 1, errors=["1 results differ from the model's"]),
        UnitResult(
            SMALL.name, "a unit", 10, errors=["3 accepted dot products left"], report="\x1b"
        ),
    ],
)
def test_a_bad_run(monkeypatch, tmp_path, capsys, bad):
    fake_runs(monkeypatch, bad)
    assert run_regression([SMALL], settings(tmp_path)) is False
    message = bad.errors[0] if bad.errors else "nothing was compared"
    output = capsys.readouterr().out
    assert f"FAILED: {SMALL.name}" in output
    assert message in output
    assert f"  seed 7\n  repeat with: repeat {SMALL.name}\n" in output
    root = xml(tmp_path / "results.xml")
    assert root.get("failures") == "1"
    assert found(root, ".//failure").get("message") == message


def test_a_command_to_repeat_is_told_once(monkeypatch, tmp_path, capsys):
    report = f"as said\nrepeat with: repeat {SMALL.name}"
    fake_runs(monkeypatch, UnitResult(SMALL.name, "a unit", errors=["wrong"], report=report))
    assert run_regression([SMALL], settings(tmp_path)) is False
    assert capsys.readouterr().out.count("repeat with: ") == 1


def test_a_run_without_a_result_tells_how_to_repeat_it(tmp_path):
    job = UnitJob("unit", SMALL.config, 3, tmp_path, repeat="mxdot sim --seed 3")
    result = UnitTask.of(job).take(Outcome("key", "unit", error="the process died"))
    assert (result.errors, result.report) == (
        ["the process died"], "seed 3\nrepeat with: mxdot sim --seed 3"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("where", "recorded", "file"),
    [
        ("traffic, block 1", ["cycle", "bulk"], "cycle.fst"),
        ("bulk, block 1", ["cycle", "bulk"], "bulk.fst"),
        ("bulk, block 1", ["cycle"], None),
        ("replay, item 0 of 1", ["cycle", "replay"], "replay.fst"),
    ],
)
def test_a_report_names_the_waves_of_its_run(tmp_path, where, recorded, file):
    for name in recorded:
        (tmp_path / f"{name}.fst").touch()
    job = UnitJob("unit", SMALL.config, 3, tmp_path, waves=True)
    lines = job.report(f"{where}: result differs", []).splitlines()
    assert lines[2:] == ([f"waves: {tmp_path}/{file}"] if file else [])


@pytest.mark.parametrize("errors", [[], ["1 results differ from the model's"]])
def test_results_as_json(monkeypatch, tmp_path, errors):
    fake_runs(monkeypatch, UnitResult(SMALL.name, "a unit", 10, errors=errors))
    file = tmp_path / "out" / "sim.json"
    passed = run_regression([SMALL], replace(settings(tmp_path), json=file))
    results = json.loads(file.read_text())
    assert (results["passed"], results["seed"]) == (passed, 7) == (not errors, 7)
    (unit,) = results["units"]
    assert (unit["name"], unit["passed"]) == (SMALL.name, passed)
    assert (unit["compared"], unit["errors"]) == (10, errors)


def test_results_that_cannot_be_written_leave_the_verdict(monkeypatch, tmp_path, capsys):
    """The next run of the same seed writes them, without simulating again."""
    fake_runs(monkeypatch, good())
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"x\.json"):
        run_regression([SMALL], replace(settings(tmp_path), json=tmp_path / "file" / "x.json"))
    assert "all passed" in capsys.readouterr().out
    fake_runs(monkeypatch)
    assert run_regression([SMALL], replace(settings(tmp_path), json=tmp_path / "x.json"))
    assert json.loads((tmp_path / "x.json").read_text())["passed"]


def test_no_units(tmp_path):
    with pytest.raises(ValueError, match="there must be at least one unit to simulate, not none"):
        run_regression([], settings(tmp_path))


def test_jobs_travel_as_files(tmp_path):
    config = DotConfig(formats="e5m2xe4m3,int8", accumulator="fixed:20:-3:wrap", out="bfloat16")
    job = UnitJob("name", config, 3, tmp_path, waves=True, tensors=tmp_path / "x.npz")
    again = UnitJob.load(job.write())
    assert again == job
    assert again.rng("a").integers(2**60) == job.rng("a").integers(2**60)
    assert again.rng("a").integers(2**60) != job.rng("b").integers(2**60)
    report = CycleReport(3, 5, 0.5, 1, ["e"], [Failure({"mode": 0}, [1, 2], [3, 4], "here")], 99.0)
    report.save(tmp_path / "report.json")
    assert CycleReport.load(tmp_path / "report.json") == report


def test_a_design_that_does_not_compile(tmp_path):
    verilog = tmp_path / "bad.v"
    verilog.write_text("module mxdot_dot(input clk; endmodule\n")
    job = UnitJob("bad", SMALL.config, 1, tmp_path / "bad", verilog=verilog)
    phases: list[str] = []
    result = run_unit(job, phases.append)
    assert not result.passed
    assert "Verilator on mxdot_bench failed" in result.errors[0]
    assert "bad.v" in result.report
    assert phases == ["verilog", "build"]


@pytest.mark.parametrize(("runner", "unit"), [(stream_unit, SMALL), (matmul_unit, SMALL_MATMUL)])
def test_a_deadlock_in_bulk_mode_hides_no_failure(monkeypatch, tmp_path, runner, unit):
    def deadlock(*arguments):
        raise SimulationError("no transfer")

    lines = ["a 12", "b 34"]
    block = {"mode": 0, "c": 0, "blocks": [[[1] * 4, [2] * 4, 127, 127]], "lines": lines}
    failure = Failure(block, [1, 0], [2, 0], "cycle by cycle, dot product 3")
    monkeypatch.setattr(runner, "run_cycles", lambda *_: [failure])
    monkeypatch.setattr(runner, "verilog_of", lambda job: tmp_path / "unit.v")
    target = stream_unit.StreamUnit if runner is stream_unit else matmul_unit
    monkeypatch.setattr(target, "_run_bulk", deadlock)
    monkeypatch.setattr(dot_unit.DotStream, "build", lambda *_: None)
    monkeypatch.setattr(dot_unit.DotStream, "report", lambda self, verilog, found: found.where)
    monkeypatch.setattr(matmul_unit, "build_matmul", lambda *_, **options: None)
    result = run_unit(UnitJob("unit", unit.config, 1, tmp_path, bulk=10))
    assert not result.passed
    assert result.errors == [f"no transfer (log: {tmp_path}/error.log)"]
    assert "cycle by cycle, dot product 3" in result.report


def test_a_job_that_breaks(tmp_path):
    job = UnitJob("broken", SMALL.config, 1, tmp_path, verilog=tmp_path / "missing.v")
    ((task, outcome),) = results([UnitTask(job, "broken")], unit_processes(1))
    result = task.take(outcome)
    assert not result.passed
    assert result.errors[0].startswith("FileNotFoundError: ")
    assert not result.report


@pytest.mark.parametrize(
    "error", [RuntimeError("Yosys failed"), SynthesisError("no cell"), KeyError("q")]
)
def test_only_a_defect_is_reported_with_its_place(monkeypatch, tmp_path, error):
    def fails(job):
        raise error

    monkeypatch.setattr(stream_unit, "verilog_of", fails)
    job = UnitJob("unit", SMALL.config, 1, tmp_path)
    result = UnitResult.of_dict(UnitTask(job, "unit").run())
    assert result.errors == [f"{type(error).__name__}: {error}"]
    assert ("Traceback" in result.report) == isinstance(error, KeyError)


def test_a_simulator_that_dies(simulation_dir, tmp_path):
    options = {"builds": simulation_dir / "dies", "predictor": "wrong_predictors:dies"}
    job = UnitJob("dies", SMALL.config, 1, tmp_path, traffic=50, **options)
    result = simulated(job)
    assert not result.passed
    assert "the simulator ended with 3" in result.errors[0]


def test_an_interrupt_leaves_nothing_behind(simulation_dir):
    """SIGINT to the command alone: a terminal would send it to the whole group."""
    command = [sys.executable, "-m", "mxdot.cli", "sim", "--only", "fixed_640_-300-e5m2+e4m3-x4-s3"]
    process = subprocess.Popen(
        [*command, "--seed", "1"],
        cwd=simulation_dir.resolve().parents[1],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A background job ignores SIGINT, and so do its children unless told otherwise.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not (workers := descendants(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)  # into the elaboration or the build
    workers |= descendants(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1] == "mxdot: interrupted"
    assert workers
    assert ended(workers)


def test_coverage_is_added_up(tmp_path):
    points = [
        {"mxdot.data.c": {"zero": 3, "nan": 0}},
        {"mxdot.data.c": {"zero": 1, "nan": 2, "inf": 0}, "mxdot.data.flags": {"('a', True)": 1}},
    ]
    files = []
    for i, unit in enumerate(points):
        files.append(tmp_path / f"{i}.yml")
        entries = {name: {"size": len(bins), HITS: bins} for name, bins in unit.items()}
        files[-1].write_text(yaml.safe_dump({"mxdot": {"size": 9}, **entries}))
    percent = merge_coverage(files, tmp_path / "all.yml", tmp_path / "all.xml")
    assert percent == 75.0
    merged = yaml.safe_load((tmp_path / "all.yml").read_text())
    assert merged["mxdot.data.c"][HITS] == {"zero": 4, "nan": 2, "inf": 0}
    assert (merged["mxdot"]["size"], merged["mxdot"]["coverage"]) == (4, 3)
    point = found(xml(tmp_path / "all.xml"), "mxdot/data/c")
    bins = {entry.get("bin"): entry.get("hits") for entry in point}
    assert bins == {"zero": "4", "nan": "2", "inf": "0"}


def test_select():
    units = regression_units.default_matrix()
    assert select(units, [units[3].name]) == [units[3]]
    assert all("hopper" in unit.name for unit in select(units, ["hopper*", "hopper-mx*"]))
    with pytest.raises(ValueError, match=r"only must name units of the matrix .*not 'nothing'"):
        select(units, ["exact*", "nothing"])


def test_random_seeds_differ():
    assert random_seed() != random_seed()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nothing"], "only must name units of the matrix (see --list), not 'nothing'"),
        (["dot", "--lanes", "3"], "lanes must be one of 4, 8, 16, 32, 64, 128, not 3"),
        (["--seed", "-1"], "seed must be from 0 to 9223372036854775807, not -1"),
        (["--count", "0"], "count must be from 1 to 100000000, not 0"),
        (["--jobs", "0"], "jobs must be from 1 to 1024, not 0"),
        (["--slurm", "x=1", "--scheduler", "x"], "scheduler and slurm exclude each other"),
        (["--name", "weight"], "name needs a file of tensors: --tensors FILE"),
    ],
)
def test_bad_arguments(arguments, message, capsys):
    assert main(["sim", *arguments]) == 2
    assert capsys.readouterr().err == f"mxdot: error: {message}\n"


def test_missing_compiler(monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert main(["sim", "dot", "--format", "e2m1", "--lanes", "4"]) == 2
    assert capsys.readouterr().err.startswith("mxdot: error: g++ not found; ")


def test_list(capsys):
    assert main(["sim", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(regression_units.default_matrix())
    assert lines[0].startswith(regression_units.default_matrix()[0].name)


def test_a_dry_run_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sim", "--only", "exact-e*", "--dry-run", "--jobs", "3"]) == 0
    *lines, total = capsys.readouterr().out.splitlines()
    names = {line.split()[-1] for line in lines}
    assert names == {unit.name for unit in select(regression_units.default_matrix(), ["exact-e*"])}
    assert total.startswith(f"{len(names)} to do, 3 at a time: about ")
    assert list(tmp_path.iterdir()) == []


def command_of(monkeypatch, arguments: Sequence[str]) -> tuple[list[Unit], Settings]:
    """The regression that `mxdot sim` with these arguments would run."""
    asked = []

    def keep(units, settings, backend):
        asked.append((list(units), settings))
        return True

    monkeypatch.setattr(regression, "run_regression", keep)
    assert main(["sim", *arguments]) == 0
    return asked[0]


def test_command_to_repeat_one_of_the_matrix(monkeypatch):
    units, chosen = command_of(monkeypatch, ["--seed", "9", "--count", "500"])
    assert [unit.name for unit in units] == [
        unit.name for unit in regression_units.default_matrix()
    ]
    assert chosen.repeat.endswith(" sim --only {name} --count 500 --seed {seed} --waves")
    assert chosen.bulk == 500


@pytest.mark.parametrize(
    ("arguments", "traffic"),
    [
        ([], QUICK_TRAFFIC),
        (["--only", "hopper*"], QUICK_TRAFFIC),
        (["--full"], TRAFFIC),
        (["dot"], TRAFFIC),
        (["--full", "--traffic", "7"], 7),
    ],
)
def test_traffic_of_a_quick_regression_is_less(monkeypatch, arguments, traffic):
    assert QUICK_TRAFFIC < TRAFFIC
    assert command_of(monkeypatch, arguments)[1].traffic == traffic


def test_command_to_repeat_a_unit(monkeypatch):
    arguments = ["dot", "--format", "e2m1,int8", "--stages", "2", "--no-c", "--seed", "9"]
    units, chosen = command_of(monkeypatch, arguments)
    assert [str(unit.config) for unit in units] == ["e2m1,int8 aligned:13 x32 stages 2 no-c"]
    words = "sim dot --format e2m1,int8 --stages 2 --no-c --seed {seed} --waves"
    assert chosen.repeat.endswith(words)
    again, repeated = command_of(monkeypatch, words.format(seed=9).split()[1:])
    assert again == units
    assert repeated.seed == chosen.seed


def test_a_random_seed_is_handed_to_every_job(monkeypatch, tmp_path):
    jobs = []

    def keep(tasks, backend, start):
        for task in tasks:
            jobs.append(task.job)
            yield task, Outcome(task.key, task.label, asdict(good(task.label)))

    monkeypatch.setattr(regression, "random_seed", lambda: 5)
    monkeypatch.setattr(regression, "results", keep)
    run_regression([SMALL], Settings(directory=tmp_path, repeat="x --only {name} --seed {seed}"))
    assert [job.seed for job in jobs] == [5]
    assert jobs[0].repeat == f"x --only {SMALL.name} --seed 5"


def test_full(monkeypatch):
    units, chosen = command_of(monkeypatch, ["--full", "--waves"])
    assert len(units) == len(every_unit())
    assert chosen.waves
    assert "--full --only" in chosen.repeat
