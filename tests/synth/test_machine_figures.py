"""The areas of docs/machines.csv, beside what synthesis gives today."""

import csv
from pathlib import Path

import machine_figures
import pytest

from mxdot.model import MACHINES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rows():
    with (ROOT / "docs" / "machines.csv").open(encoding="utf-8", newline="") as file:
        return {row["machine"]: row for row in csv.DictReader(file)}


def test_every_machine_has_its_unit(rows):
    assert list(rows) == list(MACHINES)
    for name, machine in MACHINES.items():
        unit, area, each = (rows[name][key] for key in ("unit", "NAND2", "NAND2 a lane"))
        if not machine.has_unit:
            assert (unit, area, each) == ("", "", "")
            continue
        lanes = machine.own_unit["lanes"]
        assert unit == f"{lanes} lanes"
        whole, one = (int(text.replace(",", "")) for text in (area, each))
        assert abs(whole / lanes - one) <= 1


@pytest.mark.slow
def test_an_area_is_what_synthesis_gives(rows, tmp_path):
    row = rows["volta"]
    expected = [row["unit"], row["NAND2"], row["NAND2 a lane"]]
    assert machine_figures.unit("volta", tmp_path) == expected


@pytest.mark.parametrize(
    ("name", "lanes"), [("volta", 4), ("hopper-mma", 32), ("blackwell-mxf4nvf4", 64)]
)
def test_lanes_of_a_machines_own_unit(name, lanes):
    """Lanes of one step, of two steps that share permuted elements, and of joined groups."""
    assert MACHINES[name].own_unit["lanes"] == lanes
