"""Help, completion, suggestions and refusals of options, for every command."""

import argparse
import os
import shlex
import subprocess
import sys

import pytest

from command_line import refusal, run
from mxdot.cli.command import build_parser
from mxdot.cli.completion import complete
from mxdot.cli.parser import EXAMPLE
from mxdot.model.units import KINDS


def parsers(parser=None):
    """Every parser of the command line."""
    parser = parser or build_parser()
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from parsers(each)


@pytest.mark.parametrize("parser", list(parsers()), ids=lambda parser: parser.prog)
def test_help_has_an_example_of_the_command(parser):
    lines = [line.removeprefix(EXAMPLE).strip() for line in (parser.epilog or "").splitlines()]
    commands = [line for line in lines if line.startswith("mxdot ")]
    assert commands
    for command in commands:
        assert command.startswith(parser.prog)
        assert build_parser().parse_args(shlex.split(command)[1:]).run
        assert command in parser.format_help()


def test_names_in_help_are_whole(capsys):
    _, out, _ = run(capsys, "verilog", "dot", "--help")
    assert "blackwell-fp16-float16" in out
    assert "`mxdot machines`" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        ("compar", "nearest: compare, compute"),
        ("verilog quantise", "nearest: quantize"),
        ("verilog --formt e4m3", "nearest: --format"),
        ("verilog --delays asap", "nearest: asap7"),
        ("verilog --result float23", "nearest: float32"),
        ("verilog --accumulator hoper", "nearest: hopper"),
    ],
)
def test_the_nearest_name_is_suggested(capsys, arguments, near):
    assert near in refusal(capsys, *arguments.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "verilog quantize --lfsr-seed 5",
            "lfsr-seed has no effect on this unit, quantize float32",
        ),
        ("verilog dot-quantize --lfsr-seed 5", "lfsr-seed has no effect on this unit, e4m3 "),
        ("run-layer --shape 1,1,32 --sentences 3", "sentences has no effect with shape"),
        ("array --fit --rows 3", "rows has no effect with --fit"),
        ("array --fit --shape 1,1,1", "shape has no effect with --fit"),
        ("probe --unit cuda:list --lanes 8", "lanes has no effect with cuda:list"),
    ],
)
def test_an_option_without_effect_is_refused(capsys, arguments, message):
    assert refusal(capsys, *arguments.split()).startswith(message)


def test_a_default_may_be_said(capsys, tmp_path):
    for kind, config in KINDS.items():
        plain = [
            word
            for option in config.options().values()
            if option.default is not None and not option.is_switch
            for word in option.spelled(option.plain(option.check(option.default)))
        ]
        arguments = ["verilog", kind, *plain, "-o", str(tmp_path / f"{kind}.v")]
        if "--lanes" in plain and kind != "quantize":
            arguments += ["--lanes", "4"]
        status, _, err = run(capsys, *arguments)
        assert status == 0
        assert [line for line in err.splitlines() if not line.startswith("note: ")] == []


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("mxdot mach", ["machines"]),
        ("mxdot compute --machine rtx4090-", ["rtx4090-fp8", "rtx4090-fp16", "rtx4090-bf16",
                                              "rtx4090-tf32"]),
        ("mxdot verilog dot --accumulator cdna3", ["cdna3-fp16", "cdna3-xf32", "cdna3-fp8"]),
        ("mxdot verilog --format e3", ["e3m2"]),
        ("mxdot compare --process gates,s", ["gates,sky130"]),
        ("mxdot sim --netlist ih", ["ihp"]),
    ],
)  # fmt: skip
def test_completion(line, names, tmp_path):
    pytest.importorskip("argcomplete")
    asked = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_COMP_WORDBREAKS": " =",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "names"),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "mxdot.cli"], env=asked, check=True, timeout=120)
    found = (tmp_path / "names").read_text().split("\n")
    assert [name.strip() for name in found] == names


def test_nothing_is_completed_without_a_shell_that_asks(monkeypatch):
    monkeypatch.delenv("_ARGCOMPLETE", raising=False)
    assert complete(build_parser()) is None


def test_a_reader_that_has_enough_is_no_error():
    command = f"{sys.executable} -m mxdot.cli machines | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("hopper ")
    assert done.stderr == ""
