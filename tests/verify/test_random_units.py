"""`mxdot sim soak --random`: draws from every option, counts pairs, goes on, repeats failures."""

import os
import random
import subprocess
import sys
import time

import pytest

from here import HERE
from mxdot.cli import main
from mxdot.model.units import KINDS
from mxdot.util import workers
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
    assert Drawn.load(drawn.path) == drawn


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
        Drawn.load(tmp_path / "random.json")


def test_a_failure_prints_the_command_and_the_next_run_goes_on(tmp_path, monkeypatch, capsys):
    ran: list[list[str]] = []

    def fails(words):
        ran.append(words)
        time.sleep(0.1)
        return subprocess.CompletedProcess(words, len(ran) == 1, "", "wrong")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(random_units, "simulated", fails)
    monkeypatch.setattr(workers, "processes", lambda _: HERE)
    assert main(["sim", "soak", "--random", "--hours", "0.0001", "--count", "5"]) == 1
    assert f"repeat with: mxdot {' '.join(ran[0])}" in capsys.readouterr().out
    assert main(["sim", "soak", "--random", "--hours", "0.0001", "--count", "5"]) == 0
    assert len({" ".join(command) for command in ran}) == len(ran)
    assert (tmp_path / "build" / "soak" / "random-uncovered.txt").is_file()


def test_units_that_were_begun_come_first(tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(random_units, "simulated", interrupted)
    with pytest.raises(KeyboardInterrupt):
        random_units.run(tmp_path, 1, 5, "mxdot", HERE)
    drawn = Drawn.load(tmp_path / "random.json")
    assert len(drawn.begun) == sum(drawn.numbers.values()) == 1
    assert [[task.kind, task.number] for task in drawn.tasks(0, 5)] == drawn.begun


@pytest.mark.parametrize("words", [["--full"], ["--seed", "0"]])
def test_options_of_other_soaks(words, capsys, monkeypatch):
    monkeypatch.setattr(random_units, "run", lambda *_: True)
    assert main(["sim", "soak", "--random", *words]) == 2
    assert f"{words[0][2:]} must be left out with random" in capsys.readouterr().err


def test_words_are_those_of_the_command_line(capsys):
    config, values = draw("quantize", 0)
    assert main(["sim", "quantize", *words_of("quantize", values), "--list"]) == 0
    assert str(config) in capsys.readouterr().out
