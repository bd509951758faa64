"""Verdict on the coverage of one unit: reached, constant, with a reason, or a hole."""

import re
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from ...synth.tools import run_abc, run_yosys
from ..formal import aig
from .points import Count, Counts, Point, read
from .reasons import Reason, explained

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


@dataclass(frozen=True)
class Covered:
    """Coverage of one unit's Verilog. source: the Verilog; constants: points that cannot change."""

    name: str
    source: str
    counts: Counts
    constants: frozenset[Point]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, without the paths of instances."""
        return {
            "source": self.source,
            "counts": [[*astuple(point), count.hits] for point, count in self.counts.items()],
            "constants": sorted(astuple(point) for point in self.constants),
        }

    @classmethod
    def of_dict(cls, name: str, values: dict[str, Any]) -> "Covered":
        """The coverage of which `to_dict` made `values`."""
        counts = {Point(*point): Count(hits) for *point, hits in values["counts"]}
        constants = frozenset(Point(*point) for point in values["constants"])
        return cls(name, values["source"], counts, constants)


@dataclass(frozen=True)
class Judged(Covered):
    """One unit. reasons: of points that have one; holes: the others that were not reached."""

    reasons: dict[Point, Reason]
    holes: tuple[Point, ...]

    def row(self, kind: str) -> tuple[int, int, int, int, int]:
        """Points of a kind: all, reached, constant, with a reason, holes."""
        every = [(point, count) for point, count in self.counts.items() if point.kind == kind]
        return (
            len(every),
            sum(count.hits > 0 for _, count in every),
            sum(point.kind == kind for point in self.constants),
            sum(point.kind == kind for point in self.reasons),
            sum(point.kind == kind for point in self.holes),
        )


def measured(name: str, verilog: Path, files: Sequence[Path], directory: Path) -> Covered:
    """The coverage that Verilator wrote of a unit's Verilog, whose top is the file's name.

    ValueError for files without points of it; errors of tools as `constant`'s.
    """
    counts = read(files, verilog)
    if not counts:
        raise ValueError(f"coverage of {name} must have points of {verilog.name}, not none")
    source = verilog.read_text(encoding="utf-8")
    lines = source.splitlines()
    nets = {
        point: {_net(instance, bit) for instance in count.instances}
        for point, count in counts.items()
        if point.kind == "toggle"
        and not count.hits
        and (bit := _from_zero(point.bit, lines[point.line - 1]))
    }
    still = constant(verilog, verilog.stem, set().union(*nets.values()), directory)
    constants = frozenset(point for point, bits in nets.items() if bits <= still)
    return Covered(name, source, counts, constants)


def judge(covered: Covered, reasons: Sequence[Reason]) -> Judged:
    """The verdict on a unit's coverage."""
    missed = [point for point, count in covered.counts.items() if not count.hits]
    open_points = [point for point in missed if point not in covered.constants]
    lines = covered.source.splitlines()
    with_reason, holes = explained(reasons, covered.name, open_points, lines)
    return Judged(**vars(covered), reasons=with_reason, holes=tuple(holes))


def _from_zero(bit: str, declaration: str) -> str:
    """The bit of a net, counted from 0, as Yosys does, whatever the net's range in the Verilog
    begins with; "" of a memory, whose words are no nets."""
    match = re.fullmatch(r"([^\[]+)\[(\d+)\]", bit)
    if match is None:
        return "" if "[" in bit else bit
    lowest = re.search(r"\[\d+:(\d+)\]", declaration)
    return f"{match[1]}[{int(match[2]) - int(lowest[1] if lowest else 0)}]"


def _net(instance: str, bit: str) -> str:
    """The bit below the unit's top: after the bench's `dut`, or the simulation's own top."""
    parts = instance.split(".")
    below = parts[parts.index("dut") + 1 :] if "dut" in parts else parts[2:]
    return ".".join([*below, bit])


def constant(verilog: Path, top: str, bits: Collection[str], directory: Path) -> set[str]:
    """Bits out of `bits`, `path.to.net[3]` below the top, that never change from registers of 0 on.

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
