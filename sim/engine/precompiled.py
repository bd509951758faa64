"""What every design needs, compiled once: Verilator's runtime and headers, the main program."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from ...util.cache import digest, is_whole, locked, seal
from ...util.files import beside, write_file
from .toolchain import CFLAGS, Tools, execute

CACHE = Path("build/verilator-runtime")
"""Where they are kept, relative to the current directory."""

_HEADERS = ("verilated.h", "verilated_dpi.h", "verilated_timing.h", "verilated_vpi.h")


def runtime(objects: Path, tools: Tools, make: Sequence[str], included: Path) -> Path:
    """Verilator's own runtime as an archive, compiled once per set of switches.

    It is most of the work in a small build, and the same for every design. included: `headers`,
    which save time where they were compiled under the runtime's own switches.
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
            with beside(archive) as whole:
                whole.unlink()  # ar would add to it
                execute(["ar", "rcs", str(whole), *files], tools, "ar")
            seal(archive)
    return archive


def headers(objects: Path, tools: Tools, make: Sequence[str]) -> Path:
    """Verilator's headers for -include, precompiled once per set of switches.

    Reading them is half of a small build. A compiler that cannot take the precompiled file, as
    under the switches of slow functions, reads the headers instead; of half a file it would fail.
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
            with beside(compiled) as whole:
                shutil.move(objects / target, whole)
            seal(text)
            seal(compiled)
    return text


def including(make: Sequence[str], text: Path) -> list[str]:
    """`make`, which has a USER_CPPFLAGS, for C++ that includes `headers` before anything else."""
    flags = "USER_CPPFLAGS="
    return [f"{item} -include {text}" if item.startswith(flags) else item for item in make]


def main(objects: Path, tools: Tools, make: Sequence[str], source: Path, included: Path) -> None:
    """The main program in `objects`, compiled once per set of switches and model header.

    It sees no more of a design than that header, the same for all tops without ports.
    """
    texts = [path.read_text() for path in (source, included, objects / "Vtop.h")]
    kept = CACHE.resolve() / f"{digest([*_switches(objects, tools, make), *texts])[:16]}.o"
    name = f"{source.stem}.o"
    with locked(kept.parent / "lock"):
        if not is_whole(kept):
            execute([*make, name], tools, "the compilation of the main program")
            with beside(kept) as whole:
                shutil.copy(objects / name, whole)
            seal(kept)
    shutil.copyfile(kept, objects / name)  # later than the source: make leaves it


def _switches(objects: Path, tools: Tools, make: Sequence[str]) -> list[str]:
    """All that decides how a C++ file is compiled."""
    classes = (objects / "Vtop_classes.mk").read_text()
    switches = re.findall(r"^VM_(?!PARALLEL)\w+ = \d$", classes, re.MULTILINE)
    variables = [item for item in make if "=" in item]
    return [tools.versions, str(tools.root), CFLAGS, *variables, *switches]
