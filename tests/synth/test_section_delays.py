"""The table of delays of sections in other processes, beside what synthesis gives today."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from mxdot.model.pipeline.delays import DELAYS, RATIOS
from mxdot.synth.processes import PROCESSES

TOOL = Path(__file__).parents[2] / "tools" / "section_delays.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("section_delays", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_process_and_unit_is_in_the_table(tool):
    assert sorted(DELAYS) == sorted(PROCESSES)
    assert all([*units] == [str(unit) for unit in tool.UNITS] for units in RATIOS.values())


def test_the_table_is_about_what_is_measured(tool):
    """Approximate on purpose: registers keep their places while sections change a little."""
    unit = tool.UNITS[0]
    found = tool.ratios(unit, "gt2n")
    assert found == pytest.approx(RATIOS["gt2n"][str(unit)], rel=0.2)
