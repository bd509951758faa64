"""Two runs of one unit at the same time in one checkout, and the directories that runs have."""

from pathlib import Path

import pytest

from here import HERE, share_builds
from mxdot.model import DotConfig, DotQuantizeConfig, QuantizeConfig
from mxdot.model.units import UnitConfig
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.sim.engine.job import CycleReport
from mxdot.sim.engine.regression import Settings, run_regression
from mxdot.sim.engine.regression_units import Unit
from mxdot.sim.engine.verilator import Build
from mxdot.util.runs import own_directory

DOT = DotConfig("e2m1", 4, "exact", stages=2)
UNITS: list[UnitConfig] = [
    DOT,
    QuantizeConfig("e4m3", 4),
    DotQuantizeConfig(DotConfig("e4m3", 4, "exact"), "e4m3", 4),
    MatmulConfig(DOT, 1, 1, depth=4),
]


@pytest.fixture
def directory(tmp_path, simulation_dir):
    """A directory for runs, whose units are built where other tests find them."""
    share_builds(tmp_path, simulation_dir / "runs")
    return tmp_path


def run(directory: Path, config: UnitConfig, seed: int, **options) -> bool:
    return run_regression([Unit(config)], Settings(seed, directory=directory, **options), HERE)


def another_run_within(monkeypatch, simulator: type, method: str, another) -> list[bool]:
    """The verdict of `another()`, which runs between a simulation's end and its judgement."""
    verdicts: list[bool] = []
    simulate = getattr(simulator, method)

    def simulate_and_run(*arguments, **options):
        simulated = simulate(*arguments, **options)
        if not verdicts:
            verdicts.append(False)
            verdicts[0] = another()
        return simulated

    monkeypatch.setattr(simulator, method, simulate_and_run)
    return verdicts


@pytest.mark.parametrize(
    ("config", "seed"), [(DOT, 11), *((config, 21) for config in UNITS)],
    ids=lambda value: getattr(value, "kind", value),
)  # fmt: skip
def test_a_run_in_bulk_beside_another(directory, monkeypatch, config, seed):
    def another() -> bool:
        return run(directory, config, seed, traffic=0, bulk=300)

    verdicts = another_run_within(monkeypatch, Build, "run_alone", another)
    assert run(directory, config, 11, traffic=0, bulk=200)
    assert verdicts == [True]


def test_a_run_cycle_by_cycle_beside_another(directory, monkeypatch):
    def another() -> bool:
        return run(directory, DOT, 21, traffic=700, bulk=0)

    verdicts = another_run_within(monkeypatch, Build, "run", another)
    assert run(directory, DOT, 11, traffic=600, bulk=0)
    assert verdicts == [True]
    reports = (directory / "runs").glob(f"*/{DOT.name}/cycle.json")
    first, second = sorted(CycleReport.load(path).compared for path in reports)
    assert first < second


def broken(config: UnitConfig) -> str:
    return "module mxdot_dot(; endmodule\n"


def test_a_broken_build_leaves_that_of_a_run(directory, monkeypatch):
    """It fails while another run still has simulations to start."""

    def another() -> bool:
        generator = (f"{__name__}:broken",)
        return run(directory, DOT, 21, traffic=0, bulk=100, generator=generator)

    verdicts = another_run_within(monkeypatch, Build, "run", another)
    assert run(directory, DOT, 11, traffic=600, bulk=100)
    assert verdicts == [False]


def test_files_of_a_run_are_named(directory, capsys):
    assert run(directory, DOT, 1, traffic=0, bulk=100)
    (files,) = (directory / "runs").iterdir()
    assert f"files in {files}\n" in capsys.readouterr().out
    assert (files / "results.xml").read_text() == (directory / "results.xml").read_text()
    assert (files / DOT.name / "mxdot_dot.v").is_file()


def test_directories_of_ended_runs_do_not_pile_up(tmp_path):
    runs = tmp_path / "runs"
    with own_directory(runs, kept=2) as first:
        ended = []
        for _ in range(4):
            with own_directory(runs, kept=2) as directory:
                ended.append(directory)
        assert {first, *ended[-1:]} < set(runs.iterdir())
        assert len(list(runs.iterdir())) == 3
    with own_directory(runs, kept=0) as only:
        assert list(runs.iterdir()) == [only]
    assert list(runs.iterdir()) == []
