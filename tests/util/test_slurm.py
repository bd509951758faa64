"""Slurm through submitit, whose local executor takes the place of a cluster."""

import os
import sys

import pytest

from compare_fakes import Job
from mxdot.model import DotConfig
from mxdot.sim.engine.regression import Settings, run_regression
from mxdot.sim.engine.regression_units import Unit
from mxdot.util.jobs import results
from mxdot.util.workers import slurm

pytest.importorskip("submitit")
pytestmark = pytest.mark.filterwarnings("default")  # those of submitit are not ours


@pytest.fixture
def local(tmp_path, monkeypatch):
    """A backend in a directory of its own; jobs find the modules of the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return slurm("partition=none,timeout_min=5", 2, cluster="local")


@pytest.mark.slow
def test_every_task_has_one_outcome(tmp_path, local):
    log = tmp_path / "log"
    faults = {"good": "", "bad": "raise", "dies": "die", "last": ""}
    tasks = [Job(name, log, fault=fault) for name, fault in faults.items()]
    outcomes = {task.label: outcome for task, outcome in results(tasks, local)}
    assert outcomes["good"].value == {"name": "good"}
    assert outcomes["bad"].error == "this point\\x1b[2J"
    assert outcomes["dies"].error is not None
    assert outcomes["last"].ok
    assert sorted(line.split()[0] for line in log.read_text().splitlines()) == sorted(faults)
    assert list((tmp_path / "build" / "slurm").iterdir()) == []


@pytest.mark.slow
def test_a_regression_brings_its_files_back(tmp_path, local, capsys):
    unit = Unit(DotConfig("e2m1", 4, "exact", stages=2), 100)
    settings = Settings(1, traffic=50, waves=True, directory=tmp_path / "sim")
    assert run_regression([unit], settings, local)
    (directory,) = (tmp_path / "sim" / "runs").glob(f"*/{unit.name}")
    assert {"coverage.yml", "cycle.fst", "mxdot_dot.v"} <= {p.name for p in directory.iterdir()}
    assert (tmp_path / "sim" / "coverage.yml").is_file()


@pytest.mark.parametrize("text", ["", "fast", "partition=", "partition=a,,"])
def test_options_that_cannot_be_read(text):
    with pytest.raises(ValueError, match="slurm must be partition=NAME"):
        slurm(text)
