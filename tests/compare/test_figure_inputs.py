"""Inputs of figures that `mxdot compare` makes: digests change with results alone."""

import figure_inputs
import pytest
from figure_rows import FIGURES

from mxdot.util.store import Store

COMMAND = "mxdot compare --format e2m1 --accumulator exact --lanes 4 --process gates -o x "
QUICK = COMMAND + "--data normal --lengths 32"


@pytest.fixture
def digests(tmp_path, monkeypatch):
    monkeypatch.setattr(figure_inputs, "TEXTS", Store(tmp_path))

    def digests(command):
        return {name: part.digest() for name, part in figure_inputs.compared(command).items()}

    return digests


def test_each_input_has_its_own_digest(digests):
    first = digests(QUICK)
    assert first.keys() == {"Verilog", "library", "flow", "data", "code"}
    assert digests(QUICK) == first
    changes = {
        QUICK + " --stages 1": {"Verilog"},
        QUICK.replace("gates", "asap7"): {"library", "flow"},
        QUICK + " --no-energy": {"flow"},
        QUICK.replace("normal", "uniform"): {"data"},
        QUICK.replace("32", "64"): {"data"},
    }
    for command, names in changes.items():
        found = digests(command)
        assert {name for name in found if found[name] != first[name]} == names, command


def test_what_is_not_measured_has_no_input(digests):
    assert digests(COMMAND + "--data none").keys() == {"Verilog", "library", "flow"}


def test_verilog_is_generated_once(digests, monkeypatch):
    first = digests(QUICK)
    monkeypatch.setattr(figure_inputs, "_text_of", lambda task: lambda: 1 / 0)
    assert digests(QUICK) == first


@pytest.mark.parametrize("name", ["clock", "units", "narrow"])
def test_inputs_of_studies(name):
    """Their files are read, and every task has its place; nothing is generated."""
    (figure,) = (figure for figure in FIGURES if figure.name == name)
    assert {"Verilog", "library", "flow"} <= figure.inputs().keys()
