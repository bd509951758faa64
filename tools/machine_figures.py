"""Losses of each machine on the study's data, and its area as a unit: writes docs/machines.csv.

    python tools/machine_figures.py [FILE]

The table of docs/machines.md is made of it (tools/tables.py); `make figures` runs it. It takes some
eight minutes, most of it synthesis, whose results are kept as those of `mxdot compare`.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

from mxdot.compare.accuracy import evaluate
from mxdot.hw.verilog import generate
from mxdot.model import MACHINES, DotConfig
from mxdot.synth import SYNTHESES, Flow, measure

FILE = Path(__file__).parent.parent / "docs" / "machines.csv"
DATA = ("normal", "log-normal", "outliers", "cancellation")
LENGTHS = (1024, 16384)
COUNT = 16
TOP = "mxdot_dot"


def losses(name: str, data: str) -> list[str]:
    """SQNR in dB against `exact`, to whole dB, at each length."""
    measured = evaluate(name, MACHINES[name].operands[0], data, LENGTHS, count=COUNT)
    return [f"{one.sqnr_accumulator_db:.0f}" for one in measured]


def own_unit(name: str) -> DotConfig:
    """A dot unit with the machine's operands and lanes."""
    machine = MACHINES[name]
    return DotConfig(machine.operands[0], accumulator=machine, **machine.own_unit)


def verilogs() -> Iterator[str]:
    """Verilog of each machine's unit."""
    return (generate(own_unit(name), TOP) for name, row in MACHINES.items() if row.has_unit)


def unit(name: str, cache: Path = SYNTHESES) -> list[str]:
    """The machine's own unit, its area in NAND2 and that of a lane; empty without a unit."""
    if not MACHINES[name].has_unit:
        return ["", "", ""]
    config = own_unit(name)
    area = measure(generate(config, TOP), TOP, Flow(sections=False), cache_dir=cache).area
    return [f"{config.lanes} lanes", f"{area:,.0f}", f"{area / config.lanes:,.0f}"]


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Losses and area of each machine.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help="docs/machines.csv")
    file_name = parser.parse_args().file
    header = ["machine", *(f"{data} {length}" for data in DATA for length in LENGTHS)]
    header += ["unit", "NAND2", "NAND2 a lane"]
    rows = [[name, *(text for data in DATA for text in losses(name, data))] for name in MACHINES]
    rows = [[*row, *unit(row[0])] for row in rows]
    with file_name.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    main()
