"""The Verilator toolchain and bulk mode, on a stand-in unit whose answers are easy to predict."""

import shutil
import subprocess
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mxdot.sim.bench import bulk
from mxdot.sim.dot.build import BENCH
from mxdot.sim.dot.bulk import write_records
from mxdot.sim.engine import precompiled, verilator
from mxdot.sim.engine.toolchain import BuildError, ToolError
from mxdot.sim.engine.verilator import BENCH_TOP, Build, SimulationError

STANDIN = Path(__file__).parent / "standin" / "standin.v"
WAVE_HEADERS = Path(verilator.__file__).parent / "wave_headers"


def build_standin(directory: Path, source: Path = STANDIN, **options) -> Build:
    return verilator.build(source, BENCH_TOP, directory, extra_sources=[BENCH], **options)


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


class Blocks:
    """Random blocks in chains of random length, and what the stand-in makes of them."""

    def __init__(self, count: int, seed: int):
        rng = np.random.default_rng(seed)
        self.a, self.b = rng.integers(0, 256, (2, count, 32), dtype=np.uint8)
        self.scale_a, self.scale_b = rng.integers(0, 256, (2, count), dtype=np.uint8)
        self.c = rng.integers(0, 2**32, count, dtype=np.uint32)
        self.last = rng.random(count) < 0.3
        self.last[-1] = True
        self.first = np.r_[True, self.last[:-1]]

    def write(self, path: Path) -> Path:
        fields = (self.a, self.b, self.scale_a, self.scale_b, self.c, self.first, self.last)
        write_records(path, *fields)
        return path

    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        """(result, flags) per dot product."""
        terms = (self.a.astype(np.int64) * self.b).sum(axis=1) + self.scale_a + self.scale_b
        chain = np.cumsum(self.first) - 1
        sums = np.zeros(chain[-1] + 1, np.int64)
        np.add.at(sums, chain, terms + np.where(self.first, self.c, 0))
        result = (sums % 2**32).astype(np.uint32)
        nan = ((self.scale_a == 255) | (self.scale_b == 255))[self.last]
        return result, (nan | (result & 15) << 1).astype(np.uint8)


# ------------------------------------------------------------------------------ tests per cycle


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
    # Long enough to get as far as the test on a machine with other work.
    with pytest.raises(SimulationError, match=r"ended with the time limit of 8 s\n(.|\n)*hangs"):
        run("hangs", time_limit=8)


def test_settings_of_an_outer_cocotb_do_not_leak(run, monkeypatch):
    monkeypatch.setenv("COCOTB_TEST_FILTER", "fails")
    monkeypatch.setenv("COCOTB_TEST_MODULES", "nowhere")
    monkeypatch.setenv("WAVES", "1")
    assert run("computes").passed


# ------------------------------------------------------------------------------------ bulk mode


@pytest.mark.parametrize(("gap", "stall"), [(0, 0), (80, 0), (0, 80), (128, 128), (255, 0)])
def test_bulk_results_in_order_under_gaps_and_stalls(standin, tmp_path, gap, stall):
    blocks = Blocks(3000, seed=gap + stall)
    records = blocks.write(tmp_path / "records")
    report = bulk.run(standin, records, tmp_path / "results", gap=gap, stall=stall, seed=3)
    got = bulk.read_results(tmp_path / "results")
    result, flags = blocks.expected()
    np.testing.assert_array_equal(got, np.stack([result, flags], axis=1))
    assert (report.blocks, report.results) == (3000, len(result))
    if gap == stall == 0:
        assert report.cycles <= 3000 + 4  # one block per cycle, and the pipeline's latency
    else:
        assert report.cycles > 3000 * 1.1


def test_bulk_outruns_a_python_loop(standin, run, tmp_path):
    records = Blocks(100_000, seed=1).write(tmp_path / "records")
    reports = [bulk.run(standin, records, tmp_path / "results") for _ in range(3)]
    rate = tmp_path / "rate"
    run("speed", env={"STANDIN_REPORT": str(rate)}, plusargs={"cycles": 5000})
    # The best of three: another program may have held the processor.
    assert max(report.blocks / report.seconds for report in reports) > 8 * float(rate.read_text())


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("assign in_ready = stage_ready", "assign in_ready = 0", "no transfer for 500 cycles"),
        ("<= stage_valid && stage_last", "<= 0", "no transfer for 500 cycles"),
        ("stage_ready = !stage_valid || out_ready || !out_valid", "stage_ready = 1", "no transfer"),
        ("<= stage_valid && stage_last", "<= stage_valid", "more results than dot products"),
        ("endmodule", "initial #40 $finish;\nendmodule", "broke off without a report"),
        ("endmodule", "initial #40 $fatal(1);\nendmodule", "the simulator ended with"),
        ("endmodule", "initial #40 while (1);\nendmodule", "the time limit of 5 s"),
    ],
    ids=[
        "never ready",
        "no result",
        "lost under backpressure",
        "spurious results",
        "ends early",
        "gives up",
        "never ends",
    ],
)
def test_bulk_notices_a_broken_unit(simulation_dir, tmp_path, request, good, bad, message):
    text = STANDIN.read_text()
    assert good in text
    source = tmp_path / "broken.v"
    source.write_text(text.replace(good, bad))
    name = request.node.callspec.id.replace(" ", "-")
    build = build_standin(simulation_dir / name, source)
    blocks = Blocks(2000, seed=5)
    records, results = blocks.write(tmp_path / "records"), tmp_path / "results"
    with pytest.raises(SimulationError, match=message):
        bulk.run(build, records, results, stall=100, timeout=500, time_limit=5)


def test_registers_without_a_reset_start_with_any_value(simulation_dir, tmp_path):
    stale = """
  reg [31:0] stale;
  always @(posedge clk) if (in_valid && in_a == 0) stale <= 0;
endmodule"""
    text = (
        STANDIN.read_text().replace("endmodule", stale).replace("<= next;", "<= next ^ stale;", 1)
    )
    source = tmp_path / "stale.v"
    source.write_text(text)
    build = build_standin(simulation_dir / "stale", source)
    blocks = Blocks(50, seed=5)
    records, results = blocks.write(tmp_path / "records"), tmp_path / "results"
    want, _ = blocks.expected()
    found = []
    for seed in (1, 1, 2):
        bulk.run(build, records, results, seed=seed)
        (value,) = set(bulk.read_results(results)[:, 0] ^ want)
        found.append(value)
    assert found[0] == found[1]  # repeated by the seed
    assert len({0, *found}) == 3


def test_bulk_refuses_a_truncated_file(standin, tmp_path):
    records = Blocks(10, seed=1).write(tmp_path / "records")
    records.write_bytes(records.read_bytes()[:-5])
    with pytest.raises(SimulationError, match="/records ends inside a record after 9 bl"):
        bulk.run(standin, records, tmp_path / "results")


def test_bulk_refuses_a_missing_file(standin, tmp_path):
    with pytest.raises(SimulationError, match="cannot be opened"):
        bulk.run(standin, tmp_path / "nothing", tmp_path / "results")


def test_bulk_takes_no_error_for_the_end_of_a_file(standin, tmp_path):
    """A folder can be opened, and no byte of it can be read."""
    with pytest.raises(SimulationError, match=f"{tmp_path} cannot be read after 0 blocks"):
        bulk.run(standin, tmp_path, tmp_path / "results")


@pytest.mark.parametrize("chances", [{"gap": 256}, {"stall": 256}])
def test_bulk_refuses_a_bad_chance(standin, tmp_path, chances):
    with pytest.raises(ValueError, match=r"(gap|stall) must be from 0 to 255, not 256"):
        bulk.run(standin, tmp_path / "records", tmp_path / "results", **chances)


@pytest.mark.parametrize(("a_bits", "b_bits"), [(8, 8), (6, 4), (4, 6)])
@pytest.mark.parametrize("lanes", [4, 32])
def test_record_layout(tmp_path, a_bits, b_bits, lanes):
    rng = np.random.default_rng(lanes)
    a = rng.integers(0, 1 << a_bits, (3, lanes), dtype=np.uint8)
    b = rng.integers(0, 1 << b_bits, (3, lanes), dtype=np.uint8)
    path = tmp_path / "records"
    first, last, mode = [1, 0, 0], [0, 0, 1], [5, 6, 7]
    write_records(
        path, a, b, [1, 2, 3], 254, 0xDEADBEEF, first, last, mode, a_bits=a_bits, b_bits=b_bits
    )

    def vector(codes, width):
        value = sum(int(code) << i * width for i, code in enumerate(codes))
        return value.to_bytes(lanes * width // 8, "little")

    want = b""
    for i in range(3):
        little = vector(a[i], a_bits) + vector(b[i], b_bits) + bytes([i + 1, 254])
        little += bytes.fromhex("efbeadde") + bytes([mode[i] << 2 | last[i] << 1 | first[i]])
        want += little[::-1]
    assert path.read_bytes() == want


def test_records_refuse_bad_shapes_and_modes(tmp_path):
    a = np.zeros((3, 32), np.uint8)
    with pytest.raises(ValueError, match=r"not \(3, 32\) and \(3, 16\)"):
        write_records(tmp_path / "records", a, a[:, :16], 0, 0, 0, 1, 1)
    with pytest.raises(ValueError, match="mode must be from 0 to 63, not 64"):
        write_records(tmp_path / "records", a, a, 0, 0, 0, 1, 1, 64)
    assert not (tmp_path / "records").exists()


def test_results_refuse_a_truncated_file(tmp_path):
    path = tmp_path / "results"
    path.write_bytes(bytes(12))
    with pytest.raises(ValueError, match="ends inside a result"):
        bulk.read_results(path)


# -------------------------------------------------------------------------------------- building


def test_an_unchanged_design_is_not_built_again(standin, simulation_dir):
    before = standin.executable.stat().st_mtime_ns
    assert build_standin(simulation_dir / "standin").executable.stat().st_mtime_ns == before


@pytest.fixture
def cache(standin, tmp_path, monkeypatch) -> Path:
    """A cache with Verilator's runtime, but without its headers and cocotb's main program."""
    cache = tmp_path / "cache"
    shutil.copytree(precompiled.CACHE, cache, ignore=shutil.ignore_patterns("*.h*", "*.o", ".*"))
    monkeypatch.setattr(precompiled, "CACHE", cache)
    return cache


def test_headers_and_main_are_compiled_once(cache, tmp_path):
    """The compiler reads the headers' text only if the precompiled file is no use to it."""
    before = set(cache.iterdir())
    with ThreadPoolExecutor() as pool:
        list(pool.map(build_standin, [tmp_path / "one", tmp_path / "two"]))
    (main,) = cache.glob("*.o")
    headers, compiled = sorted(set(cache.iterdir()) - before - {main})
    assert compiled.name == f"{headers.name}.gch"
    made = main.stat().st_mtime_ns
    headers.write_text("#error the text was read\n")
    build_standin(tmp_path / "three")
    assert main.stat().st_mtime_ns == made
    compiled.write_text("of another compiler")
    with pytest.raises(BuildError, match="error the text was read"):
        build_standin(tmp_path / "four")
    headers.write_text('#include "verilated.h"\n')
    build_standin(tmp_path / "four")  # goes without the precompiled file
    assert compiled.read_text() == "of another compiler"


def test_headers_that_do_not_compile_leave_nothing_behind(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(precompiled, "_HEADERS", ("nowhere.h",))
    with pytest.raises(BuildError, match=r"Verilator's headers failed\n(.|\n)*nowhere"):
        build_standin(tmp_path / "build")
    assert not list(cache.glob("*.gch"))
    assert not list(cache.glob(".*"))


def test_a_module_that_is_compiled_separately(simulation_dir, tmp_path):
    built = build_standin(
        simulation_dir / "separate", separate=["mxdot_dot"], parameters={"LANES": 32}
    )
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


# ----------------------------------------------------------------------------------------- waves


def test_waves_are_recorded(simulation_dir, tmp_path):
    build = build_standin(simulation_dir / "standin-waves", waves=True)
    waves = tmp_path / "dump.fst"
    records = Blocks(100, seed=1).write(tmp_path / "records")
    bulk.run(build, records, tmp_path / "results", waves=waves)
    # An FST file starts with the header block: type 0, length 329.
    assert waves.read_bytes()[:9] == bytes(7) + (329).to_bytes(2, "big")
    assert waves.stat().st_size > 100 * 64  # both operands of every block at least


def test_waves_need_a_build_for_waves(run, tmp_path):
    with pytest.raises(ValueError, match="built without waves"):
        run("computes", waves=tmp_path / "dump.fst")


@pytest.mark.parametrize("size", [0, 1, 14, 15, 16, 269, 270, 271, 0xFFFF, 0x10000, 200_000])
def test_headers_that_stand_in_for_compression(stored, size):
    data = np.random.default_rng(size).bytes(size)
    assert zlib.decompress(stored("zlib", data)) == data
    assert lz4_literals(stored("lz4", data)) == data


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Runs data through the stand-ins for compress2 and LZ4_compress_default."""
    directory = tmp_path_factory.mktemp("stored")
    (directory / "main.cpp").write_text("""
#include "lz4.h"
#include "zlib.h"
#include <iostream>
#include <iterator>
#include <string>
int main(int, char** argv) {
    const std::string in{std::istreambuf_iterator<char>{std::cin}, {}};
    std::string out;
    if (argv[1] == std::string{"zlib"}) {
        uLongf size = compressBound(in.size());
        out.resize(size);
        if (compress2((Bytef*)out.data(), &size, (const Bytef*)in.data(), in.size(), 9)) return 1;
        out.resize(size);
    } else {
        out.resize(LZ4_compressBound(in.size()));
        out.resize(LZ4_compress_default(in.data(), out.data(), in.size(), out.size()));
    }
    std::cout << out;
}
""")
    command = ["g++", "-std=c++20", "-Wall", f"-I{WAVE_HEADERS}", "main.cpp", "-o", "main"]
    subprocess.run(command, cwd=directory, check=True)

    def stored(name: str, data: bytes) -> bytes:
        command = [directory / "main", name]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout

    return stored


def lz4_literals(block: bytes) -> bytes:
    """Decodes an LZ4 block that is one sequence of literals."""
    size, at = block[0] >> 4, 1
    if size == 15:
        while block[at] == 255:
            at += 1
        size += sum(block[1 : at + 1])
        at += 1
    assert len(block) == at + size
    return block[at:]
