"""The command line: text, refusals and temporary files."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import pytest

from command_line import of_process, refusal, run
from mxdot.cli import main
from mxdot.cli.command import COMMANDS
from mxdot.cli.program import quoted
from mxdot.model import MACHINES
from mxdot.model.units import KINDS
from mxdot.util.files import replacing, write_file


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--lanes 3", "lanes must be one of 4, 8, 16, 32, 64, 128, not 3"),
        (
            "--format e9m9",
            (
                "formats must be one of e4m3, e5m2, e3m2, e2m3, e2m1, int8, int4, e4m3fnuz, "
                "e5m2fnuz, fp16, bf16, tf32, int5, int3, not"
            ),
        ),
        ("--accumulator int32", "accumulator int32 takes integer formats only"),
        ("--accumulator fixed:48", "accumulator must be one of exact, aligned:F[:R], fused:F"),
        ("--accumulator aligned:65", "F of aligned must be from 0 to 64, not 65"),
        ("--stages 30", "stages of accumulator aligned:13 must be from 1 to 29, not 30"),
        ("--result float64", "out must be one of float32, bfloat16, float16, int32, FORMAT:"),
        ("--top 1unit", "top must be a Verilog identifier (letters, digits, _, $), not '1unit'"),
        ("--lanes many", "argument --lanes: invalid int value: 'many'"),
        ("adder", "argument KIND: invalid choice: 'adder' (choose from "),
        ("matmul --micro", "unrecognized arguments: --micro"),
        ("--colour red", "unrecognized arguments: --colour red"),
    ],
)
def test_verilog_refuses_in_one_line(capsys, arguments, message):
    assert refusal(capsys, "verilog", *arguments.split()).startswith(message)


def test_without_a_command_it_says_what_there_is(capsys):
    status, out, err = run(capsys)
    assert (status, err) == (0, "")
    assert all(f"    {name}" in out for name in COMMANDS)
    assert run(capsys, "--help") == (0, out, "")


@pytest.mark.parametrize("command", ["verilog", "sim"])
def test_every_kind_has_its_own_options(capsys, command):
    flags = {option.flag for kind in KINDS.values() for option in kind.options().values()}
    for kind, config in KINDS.items():
        status, out, _ = run(capsys, command, kind, "--help")
        assert status == 0
        assert {flag for flag in flags if f"\n  {flag} " in out} == {
            option.flag for option in config.options().values()
        }


def test_a_comparison_lists_the_options_of_a_unit(capsys):
    _, out, _ = run(capsys, "compare", "units", "--help")
    for option in KINDS["dot"].options().values():
        assert f"\n  {option.flag} " in out


def test_help_names_every_machine(capsys):
    _, out, _ = run(capsys, "verilog", "dot", "--help")
    assert set(MACHINES) <= set(re.split("[,:;(]", "".join(out.split())))  # lines break at hyphens


@pytest.mark.parametrize(
    ("arguments", "parser"),
    [
        ("verilog quantize --lanes 32", "verilog quantize"),
        ("verilog --colour red", "verilog dot"),
        ("compare --colour red", "compare units"),
        ("compare errors mxfp4 --colour red", "compare errors"),
        ("--colour", ""),
    ],
)
def test_an_unknown_option_points_to_the_help_that_lists_the_others(capsys, arguments, parser):
    said = refusal(capsys, *arguments.split())
    assert said.startswith("unrecognized arguments: --")
    assert said.endswith(f" (see {f'mxdot {parser}'.strip()} --help)")


def test_unknown_command(capsys):
    said = refusal(capsys, "simulate")
    assert said.startswith("argument COMMAND: invalid choice: 'simulate'")


def test_verilog_to_a_file(capsys, tmp_path):
    path = tmp_path / "new" / "dot.v"
    arguments = ["verilog", "--lanes", "4", "--accumulator", "hopper", "--stages", "1"]
    status, out, _ = run(capsys, *arguments, "-o", str(path))
    assert status == 0
    assert out == f"{path}: mxdot_dot, e4m3 hopper x4 stages 1, latency 1, interval 1\n"
    text = path.read_text()
    assert "// accumulator  hopper: fused:13 in steps of 32 terms" in text
    assert "module mxdot_dot (" in text
    assert [p.name for p in path.parent.iterdir()] == ["dot.v"]


def test_verilog_to_standard_output_in_another_name(capsys):
    arguments = ["verilog", "--lanes", "4", "--top", "mine", "--no-c", "--no-status"]
    status, out, _ = run(capsys, *arguments)
    assert status == 0
    assert "module mine (" in out
    assert " in_c;" not in out
    assert "out_invalid" not in out


def test_a_file_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert refusal(capsys, "verilog", "--lanes", "4", "-o", tmp_path / "file" / "dot.v")


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "text"
    write_file(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "half \ud800")
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["text"]


def test_links_and_pipes_stay(tmp_path):
    file, link, pipe = (tmp_path / name for name in ("file", "link", "pipe"))
    file.write_text("before")
    link.symlink_to(file)
    write_file(link, "after")
    assert link.is_symlink()
    assert file.read_text() == "after"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, "text")
    assert os.read(reader, 9) == b"text"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device: "),
        (OSError("9 requested and 0 written"), "9 requested and 0 written: "),  # ndarray.tofile
    ],
)
def test_a_file_without_room_is_named(error, message, tmp_path):
    path = tmp_path / "records"
    with pytest.raises(OSError, match=re.escape(f"{message}{str(path)!r}")), replacing(path):
        raise error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("plugins", ["", "nix.sub"])  # no module of that name
def test_a_missing_file_is_named(capsys, tmp_path, monkeypatch, plugins):
    monkeypatch.setenv("MXDOT_PLUGINS", plugins)
    path = tmp_path / "missing.json"
    assert refusal(capsys, "sim", "replay", path) == f"{path}: No such file or directory"


def test_a_missing_package_is_named(tmp_path):
    (tmp_path / "amaranth.py").write_text("raise ModuleNotFoundError(name='amaranth')")
    done = subprocess.run(
        [sys.executable, "-m", "mxdot.cli", "verilog"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "mxdot: error: verilog needs the Python package amaranth, which is not installed: "
        "pip install 'mxdot[hw]'\n"
    )


def test_version(capsys):
    status, out, _ = run(capsys, "--version")
    assert status == 0
    assert out.startswith("mxdot 0.1.0")


ODD_FOLDER = "a\x1b[2Jb\nc"


@pytest.mark.parametrize(
    "arguments",
    [
        ["verilog", "--lanes", "4", "--accumulator", "float32", "-o"],
        ["vectors", "--lanes", "4", "--count", "2", "--out"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_names_of_files_are_echoed_without_control_characters(
    arguments, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *arguments, f"{ODD_FOLDER}/x")
    assert (status, err) == (0, "")
    assert out.startswith(r"a\x1b[2Jb\nc/x: ")
    assert out.count("\n") == 1
    assert (tmp_path / ODD_FOLDER / "x").is_file()


@pytest.mark.parametrize("word", ["plain", "a b", "a'b", "a\x1b[2J\nb", "it's\\\x07", "\u2028"])
def test_commands_to_paste_have_no_control_characters(word):
    text = quoted(word)
    assert text.isprintable()
    done = subprocess.run(["bash", "-c", f"printf %s {text}"], capture_output=True, check=True)
    assert done.stdout.decode() == word


@pytest.mark.parametrize("option", ["--list", "--dry-run"])
@pytest.mark.parametrize("command", ["sim", "sim dot", "verify formal", "verify coverage"])
def test_json_of_no_results_is_refused(command, option, tmp_path, capsys):
    file = tmp_path / "x.json"
    said = refusal(capsys, *command.split(), option, "--json", file)
    assert said == f"json has no effect with {option}, which runs nothing"
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("verilog -o", "output"),
        ("vectors --out", "output"),
        ("probe --unit exact -o", "output"),
        ("run-layer --shape 1,1,32 --json", "json"),
    ],
)
def test_a_file_inside_a_file_is_refused_before_any_work(arguments, name, tmp_path, capsys):
    (tmp_path / "afile").write_text("")
    assert refusal(capsys, *arguments.split(), tmp_path / "afile/b/x.v") == (
        f"{name} must be a file in a directory, and {tmp_path}/afile is none: "
        f"{tmp_path}/afile/b/x.v"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        "sim",
        "verify formal --only nothing",
        "compute --machine h100-fp8 x.npy y.npy",
        "energy --flow gates",
    ],
)
def test_json_that_cannot_be_written_is_refused_before_any_work(
    arguments, tmp_path, monkeypatch, capsys
):
    """Root may write everywhere, so the answer of the operating system is a stand-in."""
    asked = []
    monkeypatch.setattr("os.access", lambda *question: asked.append(question))
    file = tmp_path / "a" / "x.json"
    said = refusal(capsys, *arguments.split(), "--json", file)
    assert said == f"json must be a file that can be written, not {file}"
    assert asked == [(tmp_path, os.W_OK)]


EXAMPLE = Path(__file__).parents[2] / "examples" / "e4m3_mac.v"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("compute --machine ada x.npy -o {x}.json --json {x}.json", "output and json"),
        ("probe --unit exact -o {x}.json --json {x}.json", "output and json"),
        ("vectors -o {x}.npz --hex {x}.npz", "output and hex"),
        ("energy --component {x}.json --json {x}.json", "component and json"),
    ],
)
def test_one_file_for_two_outputs_is_refused(arguments, names, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    other = arguments.format(x="x").replace(" x.", " ./sub/../x.", 1)
    for words in (arguments.format(x="x"), other):
        said = refusal(capsys, *words.split())
        assert said.startswith(f"{names} must be different files, not both x.")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("vectors --hex", "hex"),
        (f"synth {EXAMPLE} --top m --cache", "cache"),
        ("energy --flow gates --cache", "cache"),
    ],
)
def test_a_file_for_a_directory_is_refused_before_any_work(arguments, name, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    said = refusal(capsys, *arguments.split(), file)
    assert said == f"{name} must be a directory that can be written, not {file}"


@pytest.mark.parametrize("period", ["nan", "0", "1e9"])
def test_a_clock_that_no_unit_has_is_refused_before_synthesis(
    period, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(import_module("mxdot.synth.energy"), "measure_netlist", None)
    words = ["energy", "--process", "asap7", "--cache", tmp_path, "--clock-ps", period]
    said = refusal(capsys, *words)
    assert said == f"clock_ps must be from 1 to 1e9, not {float(period):g}"


def test_no_sizes_of_arrays(tmp_path, capsys):
    said = refusal(capsys, "array", "--sizes", "", "-o", tmp_path)
    assert said == "sizes must be numbers like NxN, not ''"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [("vectors --hex", "hex"), ("array -o", "output"), ("compare -o", "output")],
)
def test_a_directory_inside_a_file_is_refused_before_any_work(arguments, name, tmp_path, capsys):
    (tmp_path / "afile").write_text("")
    said = refusal(capsys, *arguments.split(), tmp_path / "afile/b")
    assert said.startswith(f"{name} must be a directory that can be written, not ")


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (["--accumulator", "exact", "--stages", "4"], "4 stages are no faster than 2: the loop of"),
        (["--accumulator", "exact", "--stages", "2"], None),
        (["--accumulator", "fixed:32:-16", "--stages", "4"], None),
    ],
)
def test_stages_that_buy_no_clock(options, note, tmp_path, capsys):
    assert main(["verilog", "--lanes", "4", *options, "-o", str(tmp_path / "dot.v")]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 1
    if note is None:
        assert shown.err == ""
    else:
        assert shown.err.startswith(f"note: {note}")
        assert "--interleave" in shown.err
        assert shown.err.count("\n") == 1


# The process -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["machines", "verilog", "export --c", "compare columns"])
def test_a_closed_standard_output_is_refused(command):
    assert of_process("-m", "mxdot.cli", *command.split(), closed=True) == (
        2,
        "",
        "mxdot: error: standard output must be open, not closed\n",
    )


INTERRUPTED = """
import builtins, os, signal, sys
name, usual = sys.argv.pop(1), builtins.__import__
sys.argv[0] = "mxdot"
def interrupting(module, *rest):
    if module == name:
        os.kill(os.getpid(), signal.SIGINT)
    return usual(module, *rest)
from mxdot.cli import main
builtins.__import__ = interrupting
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["numpy", "numpy.__config__", "argparse"])
def test_an_interrupted_start(module):
    """NumPy makes an ImportError of what interrupts its import."""
    done = of_process("-c", INTERRUPTED, module, "verilog")
    assert done == (130, "", "mxdot: interrupted\n")


def test_the_entry_imports_nothing_before_it_minds_interrupts():
    text = (
        "import sys, mxdot.cli\nprint([n for n in sys.modules if n.startswith(('mxdot', 'num'))])"
    )
    done = of_process("-c", text)
    assert done[1] in ("['mxdot', 'mxdot.cli']\n", "['numbers', 'mxdot', 'mxdot.cli']\n")


HALF = """
import sys
from amaranth.hdl import Module
from mxdot.cli import main
from mxdot.hw import verilog
usual = verilog.module_text
def interrupted(*arguments):
    usual(*arguments)
    half = Module()
    raise KeyboardInterrupt
verilog.module_text = interrupted
sys.argv = ["mxdot", "verilog", "matmul", "--rows", "2", "--columns", "2"]
sys.exit(main())
"""


def test_half_of_a_unit_gives_no_warnings():
    assert of_process("-c", HALF) == (130, "", "mxdot: interrupted\n")


# Temporary files ---------------------------------------------------------------------------------

KILLED = """
import os, signal, sys, tempfile
from mxdot.cli import command, main
sys.argv = ["mxdot", "machines"]
command._run = lambda args: (tempfile.mkdtemp(), os.kill(os.getpid(), signal.SIGKILL))
main()
"""


@pytest.fixture
def short():
    """A directory of a short name, as those of users are."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def test_temporary_files_go_with_their_command(short):
    environment = os.environ | {"TMPDIR": str(short)}
    killed = subprocess.run([sys.executable, "-c", KILLED], env=environment)
    assert killed.returncode == -signal.SIGKILL
    (left,) = short.iterdir()
    assert len(list(left.iterdir())) == 2  # its lock and what it made
    command = [sys.executable, "-m", "mxdot.cli", "machines"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert list(short.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_no_obstacle(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path / "none")}
    command = [sys.executable, "-m", "mxdot.cli", "machines"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
