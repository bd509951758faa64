"""The documentation of the matrix unit: its commands, diagram and bytes are the unit's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from matmul_waves import UNIT, draw
from mxdot.model import E4M3, MXArray
from mxdot.model.units.matmul.layout import pack_a
from mxdot.model.units.matmul.registers import REGISTERS
from mxdot.sim.engine.toolchain import find_tools
from mxdot.sim.engine.verilator import lint
from verilog_bench import linked, runtime
from verilog_text import header_ports

ROOT = Path(__file__).parents[2]
CHAPTER = (ROOT / "docs" / "matrix-unit.md").read_text(encoding="utf-8")
BENCH = ROOT / "examples" / "matmul_tb.v"
# The Verilator of the tests was built on another machine: what its makefile should have found here.
MAKE = {
    "AR": "ar", "CXX": "g++", "LINK": "g++", "PYTHON3": sys.executable, "OPT_FAST": "-O0",
    "OPT_SLOW": "-O0", "OPT_GLOBAL": "-O0", "VM_PARALLEL_BUILDS": "0",
    "CFG_CXXFLAGS_STD_NEWEST": "-std=gnu++20", "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
    "CFG_CXXFLAGS_PCH_I": "-include",
}  # fmt: skip


def commands() -> list[str]:
    """The lines of the chapter's first block of commands."""
    block = re.search(r"```sh\n(.*?)```", CHAPTER, flags=re.S)
    assert block is not None
    return block[1].replace("\\\n", " ").splitlines()


# The unit, but that the last bit of every other result is inverted where `+wrong` is given.
UNSOUND = """
  wire [63:0] sound;
  reg wrong;
  initial wrong = $test$plusargs("wrong") != 0;
  assign m_axis_c_tdata = sound ^ {63'h0, wrong};
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """A tree in which the commands of the documentation work, and have built the bench."""
    directory = tmp_path_factory.mktemp("readme")
    (directory / "examples").mkdir(parents=True)
    (directory / "examples" / BENCH.name).write_text(BENCH.read_text())
    verilog, build, _ = commands()
    succeed(verilog, directory)
    unit = directory / "build" / "matmul.v"
    unit.rename(unit.with_name("sound.v"))
    text = unit.with_name("sound.v").read_text()
    text = text.replace(".m_tdata(m_axis_c_tdata)", ".m_tdata(sound)")
    unit.write_text(text.replace("\n);\n", f"\n);\n{UNSOUND}", 1))
    assert unit.read_text().count("sound") == 3
    archive = runtime(tmp_path_factory.mktemp("runtime"))
    succeed(build, directory, VM_GLOBAL_FAST="", VM_GLOBAL_SLOW="", LDLIBS=linked(archive))
    return directory


def run(command: str, directory: Path, **make: str) -> subprocess.CompletedProcess:
    words = [f"{k}={v}".replace(" ", "\\ ") for k, v in {**MAKE, **make}.items()]
    settings = find_tools().env | {"MAKEFLAGS": " ".join(words)}
    settings["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{settings['PATH']}"
    return subprocess.run(
        command, shell=True, cwd=directory, env=os.environ | settings, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
    )  # fmt: skip


def succeed(command: str, directory: Path, **make: str) -> str:
    done = run(command, directory, **make)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_commands_of_the_readme_end_with_pass(directory):
    assert succeed(commands()[-1], directory).startswith("PASS: 24 results, 12 steps in ")


def test_the_bench_notices_a_wrong_unit(directory):
    done = run(f"{commands()[-1]} +wrong", directory)
    assert done.returncode != 0
    assert "FAIL: 12 results differ" in done.stdout


def test_the_bench_is_clean_under_lint(directory, tmp_path):
    both = tmp_path / "both.v"
    both.write_text(BENCH.read_text() + (directory / "build" / "sound.v").read_text())
    lint(both, "matmul_tb", ROOT / "hw" / "verilator.vlt")


def test_the_bench_connects_every_port(directory):
    body = re.search(r"mxdot_matmul unit \((.*?)\);", BENCH.read_text(), flags=re.S)
    assert body is not None
    connected = re.findall(r"\.(\w+)\(", body[1])
    unit = (directory / "build" / "sound.v").read_text()
    assert sorted(connected) == sorted(header_ports(unit))


def test_the_bench_has_the_offsets_of_the_map():
    offsets = dict(re.findall(r"\b([A-Z_]+) = 8'h([0-9A-F]{2})", BENCH.read_text()))
    assert len(offsets) == 8
    for name, offset in offsets.items():
        assert REGISTERS[name.removesuffix("_AT")].offset == int(offset, 16)


def test_the_timing_diagram_is_that_of_the_unit():
    assert f"```\n{draw()}\n```" in CHAPTER


def test_the_bytes_of_the_example():
    """The two rows of A that the text names, as the lines below it show them."""
    rows = [[1, 2, -1, 0, 3, 0, 0, 1], [0.5, 1, 1, 1, 2, 2, 0, 0]]
    a = MXArray(E4M3.encode(np.array(rows)), np.array([[127, 127], [128, 128]], np.uint8), E4M3, 4)
    for row, exponent in zip(rows, (0, 1), strict=True):
        halves = [", ".join(f"{value:g}" for value in half) for half in (row[:4], row[4:])]
        assert f"({' | '.join(halves)}) x 2^{exponent}" in CHAPTER
    shown = re.findall(r"^((?:[0-9a-f]{2} +)+)k?k = \d", CHAPTER, flags=re.M)
    assert bytes.fromhex("".join(shown)) == pack_a(a, UNIT, 2)
