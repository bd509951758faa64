"""`mxdot sim soak --random`: draws from every option, counts pairs, goes on, repeats failures."""

import os
import random
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from here import HERE
from mxdot.cli import main, soak
from mxdot.model.accumulators.machine import any_operands
from mxdot.model.units import KINDS
from mxdot.sim.engine import regression
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.unit import UnitResult
from mxdot.util.cache import locked
from mxdot.util.keys import fingerprint
from mxdot.verify.soak import random_units
from mxdot.verify.soak.random_units import (
    ABSENT,
    Drawn,
    classes_of,
    draw,
    pairs_of,
    text_of,
    value_class,
    words_of,
)

COUNT = 60


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_drawn_given_and_left_out(kind):
    units = [draw(kind, number) for number in range(COUNT)]
    assert draw(kind, 1) == units[1]
    options = KINDS[kind].options()
    given = {keyword for _, values in units for keyword in values}
    assert given >= options.keys() - {"d_bytes"}  # it needs initial_c
    config, values = units[0]
    assert len(pairs_of(kind, values)) == len(options) * (len(options) - 1) // 2
    assert random_units.config_of(kind, values) == config


def test_pairs_that_no_unit_had(tmp_path):
    drawn = Drawn(tmp_path / "random.json")
    drawn.pairs["dot"].update(pairs_of("dot", {"lanes": "4", "micro": "--micro"}))
    drawn.pairs["dot"].update(pairs_of("dot", {"lanes": "8"}))
    assert f"--lanes 8 & --micro {ABSENT}" not in drawn.uncovered("dot")
    assert "--lanes 8 & --micro --micro" in drawn.uncovered("dot")
    drawn.save()
    assert Drawn.load(drawn.path, "") == drawn


@pytest.mark.parametrize("kind", KINDS)
def test_one_unit_leaves_values_of_every_option(kind, tmp_path):
    drawn = Drawn(tmp_path / "random.json")
    _, given = draw(kind, 0)
    drawn.pairs[kind].update(pairs_of(kind, given))
    uncovered = drawn.uncovered(kind)
    flags = {value.split(" ")[0] for pair in uncovered for value in pair.split(" & ")}
    assert flags == {option.flag for option in KINDS[kind].options().values()}
    assert not drawn.pairs[kind].keys() & {*uncovered}


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_drawn_are_among_those_to_cover(kind):
    rng = random.Random(1)
    for option in KINDS[kind].options().values():
        texts = [text_of(kind, option, rng) for _ in range(200)]
        assert {value_class(option, text) for text in texts} <= {*classes_of(kind, option)}


def test_units_are_the_same_in_every_process():
    code = (
        "from mxdot.model.units import KINDS; from mxdot.verify.soak.random_units import draw; "
        f"print([draw(kind, number)[1] for kind in KINDS for number in range({COUNT})])"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE, check=True,
        ).stdout
        for seed in "12"
    )  # fmt: skip
    assert first == second


def test_another_file(tmp_path):
    (tmp_path / "random.json").write_text("{}")
    with pytest.raises(ValueError, match=r"random\.json must hold what was drawn"):
        Drawn.load(tmp_path / "random.json", "code")


def test_other_code_counts_anew_and_simulates_again_what_failed(tmp_path):
    drawn = Drawn(tmp_path / "random.json", "old", passed=7, failed=[["dot", 3]])
    drawn.begun, drawn.numbers["dot"] = [["dot", 5]], 6
    drawn.save()
    assert Drawn.load(drawn.path, "old") == drawn
    new = Drawn.load(drawn.path, "new")
    assert new == Drawn(drawn.path, "new", drawn.numbers, begun=[["dot", 3], ["dot", 5]])


@pytest.fixture
def ran(monkeypatch):
    """Jobs that ran, of which the first one fails."""
    jobs: list[UnitJob] = []

    def run(job):
        jobs.append(job)
        time.sleep(0.1)
        errors = ["wrong"] * (len(jobs) == 1)
        return UnitResult(job.name, str(job.config), 5, errors=errors)

    monkeypatch.setattr(regression, "run_unit", run)
    monkeypatch.setattr(regression, "unit_processes", lambda _: HERE)
    return jobs


SOAK = ["sim", "soak", "--random", "--hours", "0.0001", "--count", "5"]


def test_a_failure_prints_the_command_that_repeats_it(tmp_path, monkeypatch, capsys, ran):
    monkeypatch.chdir(tmp_path)
    assert main(SOAK) == 1
    said = capsys.readouterr().out
    (command,) = re.findall(r"repeat with: mxdot (.*)", said)
    assert "wrong" in said
    assert said.splitlines()[-1].endswith(": 1 FAILED")
    assert (tmp_path / "build" / "soak" / "random-uncovered.txt").is_file()
    assert main([*command.split(), "--list"]) == 0
    assert str(ran[0].config) in capsys.readouterr().out


def test_the_next_run_goes_on(tmp_path, monkeypatch, capsys, ran):
    monkeypatch.chdir(tmp_path)
    main(SOAK)
    first = len(ran)
    assert main(SOAK) == 1  # the failed unit is not forgotten
    assert len({(job.config.kind, job.seed) for job in ran}) == len(ran) > first
    assert f"{len(ran)} units with" in capsys.readouterr().out
    monkeypatch.setattr(random_units, "fingerprint", lambda _: "other code")
    count = len(ran)
    assert main(SOAK) == 0
    assert ran[count].config == ran[0].config
    assert f"{len(ran) - count} units with" in capsys.readouterr().out
    assert not [*(tmp_path / "build" / "soak" / "runs").iterdir()]


def test_units_that_were_begun_come_first(tmp_path, monkeypatch, ran):
    def interrupted(_):
        raise KeyboardInterrupt

    run = regression.UnitTask.run
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(regression.UnitTask, "run", interrupted)
    assert main(SOAK) == 130
    drawn = Drawn.load(Path("build/soak/random.json"), fingerprint(regression.CODE))
    assert len(drawn.begun) == sum(drawn.numbers.values()) == 1
    monkeypatch.setattr(regression.UnitTask, "run", run)
    assert main(SOAK) == 1
    assert [ran[0].config.kind, ran[0].seed] == drawn.begun[0]


def test_two_runs_do_not_count_in_one_file(tmp_path, monkeypatch, capsys, ran):
    monkeypatch.chdir(tmp_path)
    with locked(Path("build/soak/random.lock")):
        assert main(SOAK) == 2
    assert "build/soak/random.json is another run's" in capsys.readouterr().err
    assert not ran


@pytest.mark.parametrize("words", [["--full"], ["--seed", "0"]])
def test_options_of_other_soaks(words, capsys, monkeypatch):
    monkeypatch.setattr(random_units, "run", lambda *_: True)
    assert main(["sim", "soak", "--random", *words]) == 2
    assert f"{words[0][2:]} must be left out with random" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_makes_the_unit_that_was_drawn(kind):
    made = 0
    for number in range(20):
        config, given = draw(kind, number)
        with any_operands(), suppress(ValueError):  # an option has no effect
            assert soak._unit_of(["sim", kind, *words_of(kind, given)]) == config
            made += 1
    assert made >= 10
