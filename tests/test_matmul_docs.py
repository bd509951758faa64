"""What the documentation says of the matrix unit: commands, diagram and bytes are the unit's."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from matmul_waves import UNIT, draw
from mxdot.hw import generate
from mxdot.model import E4M3, MXArray
from mxdot.model.units.matmul.layout import pack_a
from mxdot.model.units.matmul.registers import REGISTERS
from mxdot.sim.engine.toolchain import find_tools
from mxdot.sim.engine.verilator import lint

ROOT = Path(__file__).parent.parent
CHAPTER = (ROOT / "docs" / "matrix-unit.md").read_text(encoding="utf-8")
BENCH = ROOT / "docs" / "examples" / "matmul_tb.v"
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
    return block[1].splitlines()


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """A tree in which the commands of the documentation work, and have built the bench."""
    directory = tmp_path_factory.mktemp("readme")
    (directory / "docs" / "examples").mkdir(parents=True)
    (directory / "docs" / "examples" / BENCH.name).write_text(BENCH.read_text())
    (directory / ".venv" / "bin").mkdir(parents=True)
    (directory / ".venv" / "bin" / "mxdot").symlink_to(Path(sys.executable).parent / "mxdot")
    for command in commands()[:-1]:
        done = run(command, directory)
        assert done.returncode == 0, done.stdout
    return directory


def run(command: str, directory: Path) -> subprocess.CompletedProcess:
    settings = find_tools().env | {"MAKEFLAGS": " ".join(f"{k}={v}" for k, v in MAKE.items())}
    return subprocess.run(
        command, shell=True, cwd=directory, env=os.environ | settings, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
    )  # fmt: skip


def test_the_commands_of_the_readme_end_with_pass(directory):
    assert len(commands()) == 3
    done = run(commands()[-1], directory)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("PASS: 24 results, 12 steps in ")


def test_the_bench_notices_a_wrong_unit(directory, tmp_path):
    """With the last bit of every other result inverted, the same bench says FAIL.

    Beside a copy of what the commands built, which has Verilator's runtime."""
    built = "build/matmul_tb"
    copy = shutil.copytree(directory / built, tmp_path / "built")
    unit = directory / "build" / "matmul.v"
    sound = unit.read_text()
    changed = sound.replace(".m_tdata(m_axis_c_tdata)", ".m_tdata(sound)").replace(
        "\n);\n", "\n);\n  wire [63:0] sound;\n  assign m_axis_c_tdata = sound ^ 64'h1;\n", 1
    )
    assert changed.count("sound") == 3
    unit.write_text(changed)
    try:
        done = run(commands()[1].replace(f"-Mdir {built}", f"-Mdir {copy}"), directory)
        assert done.returncode == 0, done.stdout
        done = run(f"{copy}/Vmatmul_tb", directory)
    finally:
        unit.write_text(sound)
    assert done.returncode != 0
    assert "FAIL: 12 results differ" in done.stdout


def test_the_bench_is_clean_under_lint(directory, tmp_path):
    both = tmp_path / "both.v"
    both.write_text(BENCH.read_text() + (directory / "build" / "matmul.v").read_text())
    lint(both, "matmul_tb", ROOT / "hw" / "verilator.vlt")


def test_the_bench_connects_every_port():
    """By the ports of a unit with the bench's options."""
    body = re.search(r"mxdot_matmul unit \((.*?)\);", BENCH.read_text(), flags=re.S)
    assert body is not None
    connected = re.findall(r"\.(\w+)\(", body[1])
    ports = re.findall(r"^// (?:in|out) +(?:\[\d+:0\])? +(\w+) ", generate(UNIT), flags=re.M)
    assert sorted(connected) == sorted(ports)


def test_the_bench_has_the_offsets_of_the_map():
    found = dict(re.findall(r"\b([A-Z_]+) = 8'h([0-9A-F]{2})", BENCH.read_text()))
    assert len(found) == 8
    for name, offset in found.items():
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
