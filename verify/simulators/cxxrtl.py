"""A unit in CXXRTL: the Verilog as it is delivered, which Yosys writes as C++."""

import re
from collections.abc import Iterable
from pathlib import Path

from ...model.errors import identifier
from ...sim.bench.bulk import Field, Layout
from ...sim.engine.toolchain import makeable
from ...synth.tools import cxxrtl_headers
from .program import Program, built

DRIVER = Path(__file__).with_name("cxxrtl.cc")
_FLAGS = ("-std=c++17", "-O1", "-w")
_PORT = re.compile(r"^\t/\*(?:input|output)\*/ (?:value|wire)<(\d+)> (\w+);$", re.MULTILINE)


def build(
    top: str, verilog: Path, directory: Path, layout: Layout, *, executable: Path | None = None
) -> Program:
    """The simulation of module `top`; errors as `program.built`'s."""

    def write(directory: Path) -> None:
        design = (directory / "design.cc").read_text()
        (directory / "pins.h").write_text(pins(top, design, layout))

    script = ["read_verilog design.v", f"hierarchy -check -top {identifier('top', top)}"]
    flags = (*_FLAGS, f"-I{makeable(cxxrtl_headers())}")
    script.append("write_cxxrtl -g0 design.cc")
    own = (top, layout, Path(__file__).read_text())
    return built(verilog, directory, DRIVER, flags, script, own, write, executable)


def pins(top: str, design: str, layout: Layout) -> str:
    """The header with a unit's ports; ValueError for a port of another width."""
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
    """CXXRTL's spelling of a public name."""
    return "p_" + name.replace("_", "__")
