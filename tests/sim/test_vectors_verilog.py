"""The example bench, plain Verilog without Python, passes on the files that `mxdot vectors` writes.

The files are read when it runs.
"""

from pathlib import Path

import pytest

from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.sim.dot.vectors import draw, evaluate, save_hex
from mxdot.sim.engine.verilator import Build, SimulationError, build, lint

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "examples" / "readmemh_tb.v"
WAIVERS = ROOT / "hw" / "verilator.vlt"

UNITS = {
    "every port": DotConfig(formats="e4m3,e5m2xe4m3,e2m1", accumulator="hopper", lanes=4),
    "fewest ports": DotConfig(
        formats="e3m2", accumulator="fixed:40:-20", lanes=4, out="bfloat16", status=False,
        load_c=False, stages=1,
    ),
    "several scales": DotConfig(
        "e2m1", 8, "blackwell", 5, scales="e4m3", scale_block=4
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=UNITS)
def bench(request, simulation_dir, tmp_path_factory) -> tuple[Path, Build]:
    """A directory with a unit, its vectors and the bench; and the simulation of both.v in it."""
    config = UNITS[request.param]
    directory = tmp_path_factory.mktemp("readmemh")
    save_hex(evaluate([config], *draw(config, 600, 6, seed=1), {"command": "tests"}), directory)
    macros, both = directory / "vectors.vh", directory / "both.v"
    # One file, so that the include is found beside it.
    text = BENCH.read_text().replace('`include "vectors.vh"', macros.read_text())
    both.write_text(text + generate(config))
    builds = simulation_dir / f"readmemh-{config.name}"
    return directory, build(both, "readmemh_tb", builds, optimize=False)


def run(bench: tuple[Path, Build]) -> str:
    """Output of the bench in the directory of its files."""
    directory, simulation = bench
    return simulation.run_alone(directory / "log", {"bulk_alone": 1}, time_limit=60)


def test_bench_passes(bench):
    tenths = [f"{count} of 600 dot products" for count in range(60, 601, 60)]
    assert run(bench).splitlines()[:11] == [*tenths, "PASS: 600 dot products"]


def test_bench_is_clean_under_lint(bench):
    directory, _ = bench
    lint(directory / "both.v", "readmemh_tb", WAIVERS)


@pytest.mark.parametrize("name", ["expected.hex", "a.hex", "scale_b.hex", "control.hex"])
def test_bench_fails_on_changed_vectors(bench, name):
    """The files decide: with one of them in reverse, results differ or never come."""
    directory, _ = bench
    kept = (directory / name).read_bytes()
    lines = kept.splitlines(keepends=True)
    (directory / name).write_bytes(b"".join(lines[::-1]))
    try:
        with pytest.raises(SimulationError, match="FAIL: ") as error:
            run(bench)
    finally:
        (directory / name).write_bytes(kept)
    assert "PASS" not in str(error.value)
