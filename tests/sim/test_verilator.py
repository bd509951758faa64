"""The Verilator toolchain: builds, and cocotb tests in them, on a stand-in for a unit."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mxdot.sim.bench import bulk
from mxdot.sim.engine import toolchain, verilator
from mxdot.sim.engine.toolchain import BuildError, ToolError
from mxdot.sim.engine.verilator import Build, SimulationError
from mxdot.util.cache import seal
from standin.build import Blocks, build_standin


@pytest.fixture(scope="module")
def standin(simulation_dir: Path) -> Build:
    return build_standin(simulation_dir / "standin")


@pytest.fixture
def run(standin: Build, tmp_path: Path):
    def run(test: str, **options) -> verilator.Results:
        return standin.run(
            "standin.bench", results_xml=tmp_path / "results.xml", test_filter=test, **options
        )

    return run


def test_cocotb_drives_the_unit_cycle_by_cycle(run):
    results = run("computes", seed=1)
    assert (results.tests, results.failures, results.passed) == (1, 0, True)
    assert "Seeding Python random module with 1" in results.log_file.read_text()


def test_settings_reach_the_test(run):
    env, plusargs = {"STANDIN": "set by the caller"}, {"standin": 7}
    assert run("settings_arrive", env=env, plusargs=plusargs).passed


def test_a_failing_test_is_counted(run):
    results = run("fails")
    assert (results.tests, results.failures, results.passed) == (1, 1, False)
    assert "AssertionError" in results.log_file.read_text()


def test_no_test_at_all_does_not_pass(run):
    results = run("no such test")
    assert (results.tests, results.passed) == (0, False)


def test_a_hanging_simulation_is_stopped(run):
    for limit in (2, 20):  # the longer one where other work kept it from getting to the test
        with pytest.raises(
            SimulationError, match=f"ended with the time limit of {limit} s\n"
        ) as end:
            run("hangs", time_limit=limit)
        if "hangs" in str(end.value):
            return
    pytest.fail(str(end.value))


def test_settings_of_an_outer_cocotb_do_not_leak(run, monkeypatch):
    monkeypatch.setenv("COCOTB_TEST_FILTER", "fails")
    monkeypatch.setenv("COCOTB_TEST_MODULES", "nowhere")
    monkeypatch.setenv("WAVES", "1")
    assert run("computes").passed


# -------------------------------------------------------------------------------------- building


def test_an_unchanged_design_is_not_built_again(standin, simulation_dir):
    before = standin.executable.stat().st_mtime_ns
    assert build_standin(simulation_dir / "standin").executable.stat().st_mtime_ns == before


@pytest.fixture
def cache(standin, tmp_path, monkeypatch) -> Path:
    """A cache with Verilator's runtime, but without its headers and cocotb's main program."""
    cache = tmp_path / "cache"
    shutil.copytree(toolchain.CACHE, cache, ignore=shutil.ignore_patterns("*.h*", "*.o", ".*"))
    monkeypatch.setattr(toolchain, "CACHE", cache)
    return cache


KEPT = {".a", ".o", ".h", ".gch"}


@pytest.fixture
def build_least(tmp_path):
    """Builds the least of designs that take the runtime of units, under a name."""
    source = tmp_path / "least.v"
    source.write_text("module least; initial #1 $finish; endmodule\n")

    def build_least(name: str) -> Build:
        return verilator.build(source, "least", tmp_path / name)

    return build_least


def test_headers_and_main_are_compiled_once(cache, build_least, monkeypatch):
    """The compiler reads the headers' text only if the precompiled file is no use to it."""
    monkeypatch.setattr(toolchain, "_HEADERS", ("verilated.h",))  # compiled sooner than all
    with ThreadPoolExecutor() as pool:
        list(pool.map(build_least, ["one", "two"]))
    (main,) = cache.glob("*.o")
    (headers,) = cache.glob("*.h")
    (compiled,) = cache.glob("*.gch")
    assert compiled.name == f"{headers.name}.gch"
    made = main.stat().st_mtime_ns
    headers.write_text("#error the text was read\n")
    seal(headers)
    build_least("three")
    assert main.stat().st_mtime_ns == made
    compiled.write_text("of another compiler")
    seal(compiled)
    with pytest.raises(BuildError, match="error the text was read"):
        build_least("four")
    headers.write_text('#include "verilated.h"\n')
    seal(headers)
    build_least("four")  # goes without the precompiled file
    assert compiled.read_text() == "of another compiler"


def test_files_cut_short_are_made_again(cache, build_least):
    """After a power loss a file can end in the middle."""
    build_least("whole")
    contents = {path: path.read_bytes() for path in cache.iterdir() if path.suffix in KEPT}
    for path, content in contents.items():
        path.write_bytes(content[: len(content) // 2])
    executable = build_least("again").executable
    # Others than these belong to builds with other switches.
    made = {path for path, content in contents.items() if path.read_bytes() == content}
    assert {path.suffix for path in made} >= {".a", ".o", ".h"}
    assert any(path.stat().st_size > len(contents[path]) // 2 for path in cache.glob("*.gch"))
    subprocess.run([executable, "+bulk_"], check=True)


def test_a_simulation_cut_short_is_built_again(build_least):
    executable = build_least("build").executable
    content = executable.read_bytes()
    executable.write_bytes(content[: len(content) // 2])
    assert build_least("build").executable == executable
    subprocess.run([executable, "+bulk_"], check=True)


def test_headers_that_do_not_compile_leave_nothing_behind(cache, build_least, monkeypatch):
    monkeypatch.setattr(toolchain, "_HEADERS", ("nowhere.h",))
    with pytest.raises(BuildError, match=r"Verilator's headers failed\n(.|\n)*nowhere"):
        build_least("build")
    assert not list(cache.glob("*.gch"))
    assert not list(cache.glob(".*"))


def test_a_module_that_is_compiled_separately(simulation_dir, tmp_path):
    built = build_standin(simulation_dir / "separate", separate=["mxdot_dot"])
    assert list((simulation_dir / "separate").rglob("libmxdot_dot.a"))
    blocks = Blocks(3000, seed=2)
    records = blocks.write(tmp_path / "records")
    bulk.run(built, records, tmp_path / "results", gap=40, stall=40)
    np.testing.assert_array_equal(
        bulk.read_results(tmp_path / "results")[:, 0], blocks.expected()[0]
    )


def test_a_design_error_shows_the_log(tmp_path):
    source = tmp_path / "bad.v"
    source.write_text("module bad(input clk); assign nothing = ; endmodule\n")
    with pytest.raises(BuildError, match=r"Verilator on bad failed\n.*syntax error"):
        verilator.build(source, "bad", tmp_path / "build")


def test_lint(tmp_path):
    source, waivers = tmp_path / "top.v", tmp_path / "top.vlt"
    source.write_text("module top(input [7:0] a, output [6:0] b); assign b = a[6:0]; endmodule\n")
    with pytest.raises(BuildError, match="Warning-UNUSEDSIGNAL"):
        verilator.lint(source, "top")
    waivers.write_text(
        '`verilator_config\nlint_off -rule UNUSEDSIGNAL -file "*top.v" -match "*\'a\'*"\n'
    )
    verilator.lint(source, "top", waivers)


@pytest.mark.parametrize("missing", ["g++", "make", "perl"])
def test_a_missing_tool_is_named(tmp_path, monkeypatch, missing):
    for program in {"g++", "make", "perl"} - {missing}:
        (tmp_path / program).symlink_to(shutil.which(program))
    monkeypatch.setenv("PATH", str(tmp_path))
    message = (
        rf"^{missing.replace('+', '[+]')} not found; it .* \(Debian, Ubuntu: apt install .*\)$"
    )
    with pytest.raises(ToolError, match=message):
        build_standin(tmp_path / "build")
