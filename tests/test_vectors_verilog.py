"""The example bench, plain Verilog without Python, passes on the files that `mxdot vectors` writes.

Compiled by Verilator as a program of its own; the files are read when it runs.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.sim.dot.readmemh import save_hex
from mxdot.sim.dot.vectors import draw, evaluate
from mxdot.sim.engine.verilator import lint
from verilog_bench import compile_bench

ROOT = Path(__file__).parent.parent
BENCH = ROOT / "docs" / "examples" / "readmemh_tb.v"
WAIVERS = ROOT / "hw" / "verilator.vlt"

UNITS = {
    "every port": DotConfig(formats="e4m3,e5m2xe4m3,e2m1", accumulator="hopper", lanes=8),
    "fewest ports": DotConfig(
        formats="e3m2", accumulator="fixed:40:-20", lanes=4, out="bfloat16", status=False,
        load_c=False, stages=1,
    ),
    "several scales": DotConfig(
        "e2m1", 8, "blackwell", 5, scales="e4m3", scale_block=4
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=UNITS)
def bench(request, tmp_path_factory) -> tuple[DotConfig, Path]:
    """A unit, its vectors and the compiled bench in one directory."""
    config = UNITS[request.param]
    directory = tmp_path_factory.mktemp("readmemh")
    save_hex(evaluate([config], *draw(config, 600, 6, seed=1), {"command": "tests"}), directory)
    shutil.copy(BENCH, directory)
    (directory / "dot.v").write_text(generate(config))
    compile_bench(directory, "readmemh_tb", [BENCH.name, "dot.v"])
    return config, directory


def run(directory: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["obj/bench"], cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )


def test_bench_passes(bench):
    _, directory = bench
    done = run(directory)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("PASS: 600 dot products\n")


def test_bench_is_clean_under_lint(bench):
    _, directory = bench
    # One file, so that the include is found beside it.
    both = directory / "both.v"
    macros, tb, unit = (directory / f for f in ("vectors.vh", "readmemh_tb.v", "dot.v"))
    text = tb.read_text().replace('`include "vectors.vh"', macros.read_text())
    both.write_text(text + unit.read_text())
    lint(both, "readmemh_tb", WAIVERS)


@pytest.mark.parametrize("name", ["expected.hex", "a.hex", "scale_b.hex", "control.hex"])
def test_bench_fails_on_changed_vectors(bench, name):
    """The files decide: with one of them in reverse, results differ or never come."""
    config, directory = bench
    kept = (directory / name).read_bytes()
    lines = kept.splitlines(keepends=True)
    (directory / name).write_bytes(b"".join(lines[::-1]))
    try:
        done = run(directory)
    finally:
        (directory / name).write_bytes(kept)
    assert done.returncode != 0, config
    assert "FAIL" in done.stdout
    assert "PASS" not in done.stdout
