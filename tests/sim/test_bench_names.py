"""Names of units: files of any configuration can be made under them, and they differ."""

import pytest

from matrices import every_unit
from mxdot.model import MX_FORMATS, DotConfig, DotQuantizeConfig, QuantizeConfig
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.regression_units import LONGEST, Unit, file_name

EVERY_PAIR = ",".join(f"{a}x{b}" for a in MX_FORMATS for b in MX_FORMATS)


def with_dot(**options) -> list:
    """A unit of each kind that has lanes, of all 49 format pairs."""
    dot = DotConfig(EVERY_PAIR, 4, **options)
    return [dot, DotQuantizeConfig(dot), MatmulConfig(dot, 2, 2)]


UNITS = [
    *with_dot(accumulator="fixed:1024:-1024:wrap", out="bfloat16", status=False),
    *with_dot(accumulator="fixed:1024:-1023:wrap", out="bfloat16", status=False),
    MatmulConfig(DotConfig(EVERY_PAIR), 30, 30, 1024, 2399, 2399, 3999, 2399, initial_c=True),
    QuantizeConfig(",".join(list(MX_FORMATS)[:-1]), 128, "bfloat16", "floor,ceil,even",
                   "stochastic", "element", 128, "lfsr", 2**32 - 1, 5),
]  # fmt: skip


@pytest.mark.parametrize("config", UNITS, ids=lambda c: type(c).__name__)
def test_a_file_can_have_the_name(config, tmp_path):
    name = Unit(config).name
    assert len(name) <= LONGEST
    job = UnitJob(name, config, 1, tmp_path / name)
    assert UnitJob.load(job.write()).config == config


def test_names_differ():
    names = {Unit(config).name for config in UNITS}
    assert len(names) == len(UNITS)
    one, other = (file_name("x" * 150 + last) for last in "ab")
    assert one != other
    assert one == file_name("x" * 150 + "a")


def test_short_names_stay_as_they_are():
    assert file_name("hopper-e4m3-x32-s4") == "hopper-e4m3-x32-s4"
    for unit in every_unit():
        assert unit.name == unit.config.name
