"""tools/faults.py: what it says of programs that keep their files whole, and of others."""

import sys

import fault_cells
import fault_places
import faults
import pytest
from fault_cells import Reference, make_reference, run_cell
from fault_commands import COMMANDS, Command

from mxdot.cli.command import build_parser
from mxdot.sim.engine.regression import select
from mxdot.sim.engine.regression_units import default_matrix

GOOD = """
import os, subprocess, sys, tempfile, time
from pathlib import Path
from mxdot.util.children import terminate_as_interrupt
from mxdot.util.files import write_file
def work():
    text = "all"
    for number in range(3):
        write_file(Path(f"build/results/{number}.json"), "[1]")
        time.sleep(0.05)
    write_file(Path("made.txt"), text)
    print("result: all")
try:
    with terminate_as_interrupt():
        work()
except KeyboardInterrupt:
    sys.exit(130)
"""
HALF = 'made = Path("made.txt"); made.write_text("a"); made.rename(made); made.write_text(text)'
KEPT = 'kept = Path("build/results/0.json")'
STALE = f'{KEPT}; text = "all" if not kept.exists() or kept.read_text() == "[1]" else "other"'
FIRST, MADE = '    text = "all"', 'write_file(Path("made.txt"), text)'
BAD = {
    "half": (MADE, HALF, "kill at a rename", "leaves a wrong or half made.txt"),
    "stale": (FIRST, f"    {STALE}", "all files cut", "the next run makes another made.txt"),
    "temporary": (FIRST, f"{FIRST}; tempfile.mkdtemp()", "Ctrl-C", "temporary files are left"),
    "traceback": (
        "except KeyboardInterrupt", "except ZeroDivisionError",
        "SIGTERM at a rename", "prints a traceback",
    ),
    "runs on": (
        FIRST, f"{FIRST}; subprocess.Popen(['sleep', '30'])", "kill at a rename", "running",
    ),
}  # fmt: skip
"""What is wrong in place of what, the fault that shows it, and what is said."""


def command(script):
    return Command("one", "two", "^result.*", ("made.txt",), program=("-c", script))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    return Reference(folder, **make_reference(command(GOOD), folder, sys.executable))


def problems(script, fault, reference, seed=1):
    found = run_cell("program", command(script), fault, seed, reference, sys.executable)
    return "; ".join(found)


@pytest.mark.parametrize(
    "fault", ["kill at a rename", "SIGTERM", "Ctrl-C at a rename", "a file cut", "two at once"]
)
def test_a_program_that_minds_its_files_passes(fault, reference):
    assert problems(GOOD, fault, reference) == ""


@pytest.mark.parametrize("name", BAD)
def test_a_program_that_does_not_is_caught(name, reference, monkeypatch):
    """By one of the first seeds."""
    monkeypatch.setattr(fault_places, "PATIENCE", 0.5)
    right, wrong, fault, says = BAD[name]
    assert right in GOOD
    script = GOOD.replace(right, wrong)
    assert any(says in problems(script, fault, reference, seed) for seed in range(12))


def test_every_command_has_its_cells():
    every = list(fault_cells.cells(""))
    assert {command for command, _ in every} == COMMANDS.keys()
    assert {fault for _, fault in every} == fault_cells.FAULTS.keys()
    assert len(list(fault_cells.cells("verilog:"))) == len(fault_cells.FAULTS) - 2


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_command_line_takes_every_command(command):
    for words in (command.words, command.other):
        args = build_parser().parse_args(words.split())
        if args.command == "sim" and args.kind == "soak":
            assert select(default_matrix(), args.only)


@pytest.mark.parametrize(
    ("name", "text", "is_whole"),
    [
        ("a.xml", '<a time="2"><failure/></a>', True), ("a.xml", "<a><failure/>", False),
        ("a.json", '{"passed": false}', True), ("a.json", '{"passed":\n', False),
        ("a.csv", "a,seconds\n1,2\n", True), ("a.txt", "a\n", True), ("a.txt", "a", False),
    ],
)  # fmt: skip
def test_a_report_of_a_failure_is_no_half_file(name, text, is_whole, tmp_path):
    (tmp_path / name).write_text(text)
    assert fault_places.whole(name, fault_places.content(tmp_path / name)) is is_whole


def test_the_matrix_as_a_table():
    rows = faults.table({("sim", "kill"): True, ("sim", "SIGTERM"): False}).splitlines()
    assert rows[0] == "| fault | sim |"
    assert {"| kill | ok |", "| SIGTERM | FAIL |", "| clock back |  |"} <= set(rows)
