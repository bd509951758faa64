"""A regression that was killed goes on where it ended; over a cluster it loses no unit."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from compare import some
from here import HERE, share_builds
from mxdot.model import DotConfig
from mxdot.sim.engine import regression
from mxdot.sim.engine.regression import Settings, run_regression
from mxdot.sim.engine.regression_units import Unit
from mxdot.util.store import Outcome
from processes import descendants, ended

SMALL = [
    Unit(DotConfig("e2m1", 4, rule, stages=stages), 200)
    for rule, stages in (("exact", 1), ("exact", 2), ("aligned:13", 1), ("fixed:24:-6", 1))
]
SCRIPT = """
import sys
from pathlib import Path
from mxdot.sim.engine.regression import Settings, run_regression, unit_processes
from test_bench_resume import SMALL

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run_regression(SMALL, Settings(traffic=50, directory=folder), unit_processes(1))
"""


@contextmanager
def killed_after(results: int, directory: Path, kill):
    """Call `kill` when a regression in `directory` has so many results."""
    ended = threading.Event()

    def watch():
        while not ended.wait(0.05):
            if len(list(directory.glob("runs/*/results/*.json"))) >= results:
                kill()
                return

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    ended.set()
    thread.join()


def names(directory: Path) -> list[str]:
    cases = ET.parse(directory / "results.xml").iter("testcase")
    return [case.get("name", "") for case in cases]


@pytest.mark.parametrize("number", some([signal.SIGKILL, signal.SIGTERM], 2))
def test_a_killed_run_goes_on(tmp_path, simulation_dir, number, capsys, monkeypatch):
    directory = tmp_path / "sim"
    share_builds(directory, simulation_dir / "runs")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    places = [str(Path(__file__).parent), *filter(None, sys.path)]
    process = subprocess.Popen(
        [sys.executable, script, directory],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        stderr=subprocess.DEVNULL,
    )
    workers = set()

    def kill():
        workers.update(descendants(process.pid))
        process.send_signal(number)

    with killed_after(2, directory, kill):
        assert process.wait(300) != 0
    assert ended(workers)
    kept = {path: path.read_text() for path in directory.glob("runs/*/results/*.json")}
    assert 2 <= len(kept) < 4

    # Other settings, another seed and --fresh begin anew.
    (run,) = {path.parents[1] for path in kept}
    for change in ({"traffic": 60}, {"seed": 1}, {"fresh": True}):
        changed = Settings(**{"traffic": 50, "directory": directory, **change})
        assert not regression._Regression(SMALL, changed, HERE).goes_on(run)

    capsys.readouterr()
    begun = []
    told = regression.results

    def watched(tasks, *arguments):
        begun.extend(tasks)
        return told(tasks, *arguments)

    monkeypatch.setattr(regression, "results", watched)
    assert run_regression(SMALL, Settings(traffic=50, directory=directory), HERE)
    output = capsys.readouterr().out
    assert re.search(rf"^goes on with seed \d+: {len(kept)} of 4 units done", output)
    assert len(begun) == 4 - len(kept)
    assert all(path.read_text() == text for path, text in kept.items())
    assert len(list(run.glob("results/*.json"))) == 4
    assert names(directory) == [unit.name for unit in SMALL]
    assert "4 units, " in output
    # The run is complete: the next one has a seed of its own.
    assert not regression._Regression(SMALL, Settings(directory=directory), HERE).goes_on(run)


def test_units_that_failed_run_again(tmp_path, simulation_dir, capsys, monkeypatch):
    share_builds(tmp_path, simulation_dir / "runs")
    units, asked = SMALL[:3], []
    told = regression.results

    def interrupted(tasks, *arguments):
        asked.append([task.label for task in tasks])
        for task, outcome in told(tasks, *arguments):
            failed = len(asked) == 1 and task.label == asked[0][0]
            value = outcome.value | {"errors": ["wrong"] if failed else []}
            yield task, type(outcome)(outcome.key, outcome.label, value)
            if len(asked) == 1 and task.label == asked[0][1]:
                raise KeyboardInterrupt

    monkeypatch.setattr(regression, "results", interrupted)
    settings = Settings(5, traffic=50, bulk=100, directory=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_regression(units, settings, HERE)
    assert run_regression(units, settings, HERE)
    assert "goes on with seed 5: 1 of 3 units done" in capsys.readouterr().out
    assert sorted(asked[1]) == sorted([asked[0][0], asked[0][2]])


def test_a_new_run_removes_what_is_left_of_one_that_was_killed(tmp_path, monkeypatch):
    """Before or after it wrote its state; results of a whole run and files of other units stay."""
    finished, runs = [], tmp_path / "runs"

    def interrupted(tasks, *arguments):
        if not finished:
            raise KeyboardInterrupt
        yield from ((task, Outcome(task.key, task.label, error="wrong")) for task in tasks)

    monkeypatch.setattr(regression, "results", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_regression(SMALL[1:2], Settings(1, traffic=50, directory=tmp_path), HERE)
    with pytest.raises(KeyboardInterrupt):
        run_regression(SMALL[:1], Settings(1, traffic=50, directory=tmp_path), HERE)
    others, mine = sorted(runs.iterdir(), key=lambda run: run.stat().st_mtime_ns)
    (runs / "20260101-000000-begun").mkdir()
    finished.append(True)
    run_regression(SMALL[:1], Settings(1, traffic=50, directory=tmp_path), HERE)
    (whole,) = {*runs.iterdir()} - {others}
    assert whole != mine
    assert others.is_dir()
    run_regression(SMALL[:1], Settings(1, traffic=50, directory=tmp_path), HERE)
    assert whole.is_dir()


@pytest.mark.filterwarnings("default")  # those of distributed are not ours
def test_a_regression_over_two_machines_of_which_one_dies(tmp_path, monkeypatch, capsys):
    """Files come back in the results: nothing says that the workers see this directory."""
    pytest.importorskip("distributed")
    from dask_cluster import Cluster
    from mxdot.util.workers import dask

    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster")
    try:
        backend = dask(cluster.address())
        directory = tmp_path / "sim"
        settings = Settings(
            3, traffic=50, directory=directory, generator=(f"{__name__}:one_wrong",)
        )
        with killed_after(1, directory, cluster.workers[0].kill):
            assert not run_regression(SMALL, settings, backend)
        assert cluster.workers[0].poll() is not None
    finally:
        cluster.close()
    output = capsys.readouterr().out
    (run,) = (directory / "runs").iterdir()
    assert names(directory) == [unit.name for unit in SMALL]
    assert output.count("] done ") == 3
    assert f"FAILED: {SMALL[2].name}" in output
    for unit in SMALL:
        if unit is SMALL[2]:
            assert "syntax" in (run / unit.name / "error.log").read_text()
            assert f"log: {run / unit.name / 'error.log'}" in output
        else:
            assert (run / unit.name / "coverage.yml").is_file()
    assert time.time() - run.stat().st_mtime < 600


def one_wrong(config):
    from mxdot.hw.verilog import generate

    return "module mxdot_dot(; endmodule\n" if config == SMALL[2].config else generate(config)
