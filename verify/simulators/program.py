"""Parts of both simulators: a C++ program that Yosys makes of the Verilog, compiled and run."""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...sim.engine.toolchain import BuildError, execute, find_tools, makeable
from ...sim.engine.verilator import SimulationError
from ...synth.errors import SynthesisError
from ...synth.tools import run_yosys, yosys_version
from ...util import children
from ...util.cache import digest, is_whole, linked, locked, seal

LIMIT = 1200.0  # seconds of Yosys, on a machine that does other work


@dataclass(frozen=True)
class Program:
    """A compiled simulation."""

    executable: Path

    def stream(
        self,
        records: Path,
        results: Path,
        *,
        gap: int,
        stall: int,
        seed: int,
        timeout: int,
        time_limit: float | None,
    ) -> dict[str, Any]:
        """Run like `sim.bench.bulk.Streaming`; SimulationError for a crash or the time limit."""
        numbers = map(str, (gap, stall, seed, timeout))
        command = [str(self.executable), str(records), str(results), *numbers]
        try:
            done = children.run(command, text=True, timeout=time_limit)
        except subprocess.TimeoutExpired:
            reason = f"the time limit of {time_limit} s"
            raise SimulationError(f"the simulator ended with {reason}") from None
        if done.returncode:
            raise SimulationError(f"the simulator ended with {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)


def built(
    verilog: Path,
    directory: Path,
    driver: Path,
    flags: Sequence[str],
    script: Sequence[str],
    own: Sequence[object],
    write: Callable[[Path], None],
    executable: Path | None = None,
) -> Program:
    """The simulation in `directory`; at once when nothing changed since the last time.

    script: of Yosys, which reads design.v. write: what makes C++ of what Yosys wrote, in the
    directory that it is given, for `driver` to include. own: what else the program depends on.
    executable: a name of the run's own for it, which another run cannot replace.
    BuildError for Verilog that Yosys or the compiler refuses, ToolError without a compiler.
    """
    tools, directory = find_tools(), makeable(directory)
    parts = [yosys_version(), tools.versions, *flags, *script, *map(str, own)]
    sources = [path.read_text() for path in (verilog, driver, Path(__file__))]
    key, made = digest(parts + sources), directory / "sim"
    with locked(directory / "lock"):
        if not is_whole(made, key):
            made.unlink(missing_ok=True)  # runs that link it keep it as it is
            shutil.copyfile(verilog, directory / "design.v")
            try:
                run_yosys("\n".join([*script, ""]), directory, str(verilog), LIMIT)
                write(directory)
            except SynthesisError as error:
                raise BuildError(str(error)) from None
            shutil.copyfile(driver, directory / "driver.cc")
            command = ["g++", *flags, str(directory / "driver.cc"), "-o", str(made)]
            execute(command, tools, "the compilation")
            seal(made, key)
        return Program(made if executable is None else linked(made, executable))
