"""The table of delays of sections in other processes, beside what synthesis gives today."""

import pytest
import section_delays

from mxdot.model.pipeline.delays import DELAYS, RATIOS
from mxdot.synth.processes import PROCESSES


def test_every_process_and_unit_is_in_the_table():
    assert sorted(DELAYS) == sorted(PROCESSES)
    assert all(
        [*units] == [str(unit) for unit in section_delays.UNITS] for units in RATIOS.values()
    )


def test_the_table_is_about_what_is_measured():
    """Approximate on purpose: registers keep their places while sections change a little."""
    unit = section_delays.UNITS[0]
    found = section_delays.ratios(unit, "gt2n")
    assert found == pytest.approx(RATIOS["gt2n"][str(unit)], rel=0.2)
