"""A unit in CXXRTL: the Verilog as it is delivered, read by Yosys, as C++, compiled and run."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...model.errors import identifier
from ...sim.bench.layout import Field, Layout
from ...sim.engine.cache import digest, locked
from ...sim.engine.toolchain import BuildError, execute, find_tools, makeable
from ...sim.engine.verilator import SimulationError
from ..cost.errors import SynthesisError
from ..cost.tools import cxxrtl_headers, run_yosys, yosys_version

DRIVER = Path(__file__).with_name("driver.cc")
LIMIT = 300.0  # seconds of Yosys
_FLAGS = ("-std=c++17", "-O1", "-w")
_PORT = re.compile(r"^\t/\*(?:input|output)\*/ (?:value|wire)<(\d+)> (\w+);$", re.MULTILINE)


@dataclass(frozen=True)
class CxxrtlBuild:
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
        """As `mxdot.sim.bench.bulk.Streaming`; SimulationError for a crash or the time limit."""
        numbers = map(str, (gap, stall, seed, timeout))
        command = [str(self.executable), str(records), str(results), *numbers]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=time_limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            reason = f"the time limit of {time_limit} s"
            raise SimulationError(f"the simulator ended with {reason}") from None
        if done.returncode:
            raise SimulationError(f"the simulator ended with {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)


def build(top: str, verilog: Path, directory: Path, layout: Layout) -> CxxrtlBuild:
    """The simulation of module `top`; at once when nothing changed since the last time.

    BuildError for Verilog that Yosys or the compiler refuses, ToolError without a compiler.
    """
    tools, headers = find_tools(), makeable(cxxrtl_headers())
    directory = makeable(directory)
    parts = [yosys_version(), tools.versions, identifier("top", top), repr(layout), *_FLAGS]
    sources = [path.read_text() for path in (verilog, DRIVER, Path(__file__))]
    key, stamp = digest(parts + sources), directory / "key"
    found = CxxrtlBuild(directory / "sim")
    with locked(directory / "lock"):
        if stamp.is_file() and stamp.read_text() == key and found.executable.is_file():
            return found
        stamp.unlink(missing_ok=True)
        shutil.copyfile(verilog, directory / "design.v")
        commands = ["read_verilog design.v", f"hierarchy -check -top {top}"]
        script = "\n".join([*commands, "write_cxxrtl -g0 design.cc", ""])
        try:
            run_yosys(script, directory, str(verilog), LIMIT)
        except SynthesisError as error:
            raise BuildError(str(error)) from None
        design = (directory / "design.cc").read_text()
        (directory / "pins.h").write_text(pins(top, design, layout))
        shutil.copyfile(DRIVER, directory / "driver.cc")
        command = ["g++", *_FLAGS, f"-I{headers}", str(directory / "driver.cc")]
        execute([*command, "-o", str(found.executable)], tools, "the compilation")
        stamp.write_text(key)
    return found


def pins(top: str, design: str, layout: Layout) -> str:
    """The header that knows a unit's ports; ValueError for one whose width is another."""
    _, _, struct = design.partition(f"struct {_mangled(top)} : public module {{")
    widths = {name: int(bits) for bits, name in _PORT.findall(struct.partition("\n};")[0])}
    inputs, outputs = (_present(fields, widths) for fields in (layout.inputs, layout.outputs))
    ends = f"design.{_mangled(layout.ends)}.get<bool>()" if layout.ends else "1"
    lines = [
        f"using Design = cxxrtl_design::{_mangled(top)};",
        f"constexpr size_t RECORD_BYTES = {layout.record_bytes}, RESULT_WORDS = {layout.words};",
        "void put_record(Design &design, const uint8_t *record) {",
        *(f"  put(design.{name}, record, {place});" for name, place in inputs),
        "}",
        f"long results_of_record(const Design &design) {{ return {ends}; }}",
        "void take_result(const Design &design, uint32_t *words) {",
        *(f"  words[{place // 32}] |= {1 << place % 32}u;" for place in layout.ones),
        *(f"  take(design.{name}, words, {place});" for name, place in outputs),
        "}",
    ]
    return "\n".join([*lines, ""])


def _present(fields: Iterable[Field], widths: dict[str, int]) -> list[tuple[str, int]]:
    """Names and places of the ports that the unit has."""
    there = []
    for port, place, bits in fields:
        name = _mangled(port)
        if name in widths:
            if widths[name] != bits:
                raise ValueError(f"{port} must have {bits} bits, not {widths[name]}")
            there.append((name, place))
    return there


def _mangled(name: str) -> str:
    """As CXXRTL calls a public name."""
    return "p_" + name.replace("_", "__")
