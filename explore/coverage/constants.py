"""Nets that cannot change: proved by Yosys and ABC, not listed by hand."""

import re
from collections.abc import Collection
from pathlib import Path

from ..cost.tools import run_abc, run_yosys

LIMIT = 120.0  # seconds of each tool
_SCRIPT = """
read_verilog {verilog}
hierarchy -check -top {top}
proc
flatten
setattr -set keep 1 {wires}
expose {wires}
memory_map
opt -full
techmap
opt
dffunmap
setundef -undriven -zero
setundef -init -zero
aigmap
opt_clean
write_aiger -symbols case.aig
"""
_ABC = "read case.aig; zero; strash; scorr; fraig; dc2; write_aiger out.aig"


def constant(verilog: Path, top: str, bits: Collection[str], directory: Path) -> set[str]:
    """Which of these bits, `path.to.net[3]` below the top, never change from registers of 0 on.

    SynthesisError when a tool fails, ModuleNotFoundError without pyosys.
    """
    if not bits:
        return set()
    directory.mkdir(parents=True, exist_ok=True)
    names = sorted({bit.partition("[")[0] for bit in bits})
    wires = " ".join(f"w:{name}" for name in names)
    text = _SCRIPT.format(verilog=verilog.resolve(), top=top, wires=wires)
    run_yosys(text, directory, top, LIMIT)
    run_abc(_ABC, directory, top, LIMIT)
    outputs = literals((directory / "out.aig").read_bytes())
    symbols = re.findall(
        rb"^o(\d+) ([\w.]+(?:\[\d+\])?)$", (directory / "case.aig").read_bytes(), re.M
    )
    still = {name.decode() for place, name in symbols if outputs[int(place)] < 2}
    return still & set(bits)


def literals(aiger: bytes) -> list[int]:
    """The literals of the outputs of a binary AIGER file; 0 and 1 are constants."""
    header, _, rest = aiger.partition(b"\n")
    _, _, inputs, latches, outputs, *_ = header.split()
    del inputs
    lines = rest.split(b"\n", int(latches) + int(outputs))
    return [int(line) for line in lines[int(latches) : int(latches) + int(outputs)]]
