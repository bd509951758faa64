"""Nets that cannot change: proved by Yosys and ABC, not listed by hand."""

from collections.abc import Collection
from pathlib import Path

from ...synth.tools import run_abc, run_yosys
from ..formal import aig

LIMIT = 120.0  # seconds of each tool
_SCRIPT = f"""
read_verilog {{verilog}}
hierarchy -check -top {{top}}
proc
flatten
setattr -set keep 1 {{wires}}
expose {{wires}}
{aig.PASSES}
setundef -init -zero
write_aiger -symbols case.aig
"""
_ABC = "read case.aig; zero; strash; scorr; fraig; dc2; write_aiger -s out.aig"


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
    outputs = aig.read(directory / "out.aig").outputs
    return {bit for bit in bits if outputs.get(aig.named(bit)) in (aig.FALSE, aig.TRUE)}
