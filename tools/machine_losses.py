"""What each machine loses on dot products of the study's data: writes docs/machines.csv.

    python tools/machine_losses.py

The table of docs/machines.md is made of it (tools/tables.py). Some two minutes.
"""

import csv
from pathlib import Path

from mxdot.explore.accuracy import evaluate
from mxdot.model import MACHINES

FILE = Path(__file__).parent.parent / "docs" / "machines.csv"
DATA = ("normal", "log-normal", "outliers", "cancellation")
LENGTHS = (1024, 16384)
COUNT = 16


def losses(name: str, data: str) -> list[str]:
    """SQNR in dB against `exact`, to whole dB, at each length."""
    measured = evaluate(name, MACHINES[name].operands[0], data, LENGTHS, count=COUNT)
    return [f"{one.sqnr_accumulator_db:.0f}" for one in measured]


def main() -> None:
    """Write the file."""
    columns = [f"{data} {length}" for data in DATA for length in LENGTHS]
    rows = [[name, *(text for data in DATA for text in losses(name, data))] for name in MACHINES]
    with FILE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["machine", *columns], *rows])


if __name__ == "__main__":
    main()
