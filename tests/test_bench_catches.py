"""The bench itself: wrong units and wrong models must each make it fail, and say why."""

from pathlib import Path

import pytest
from amaranth.hdl import Module

from mxdot.hw.lane import ProductLane
from mxdot.hw.scale import ScaleAdder
from mxdot.hw.shift import ShiftRight
from mxdot.hw.unit import DotUnit
from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.sim.job import UnitJob
from mxdot.sim.unit import UnitResult, run_unit

CONFIG = DotConfig(formats="e4m3", lanes=4, accumulator="aligned:13", stages=3)

# Wrong models run in the right unit's build, and so in its directory: one after the other.
in_one_directory = pytest.mark.xdist_group("bench")


def run(directory: Path, **options) -> UnitResult:
    job = UnitJob("small", CONFIG, 1, directory, repeat="mxdot sim --seed 1", **options)
    return run_unit(job)


def overridden(patch: pytest.MonkeyPatch, component: type, override) -> None:
    """Let `override(component, m)` add statements, which win over those of the component."""
    right = component.elaborate  # type: ignore[attr-defined]

    def elaborate(self, platform) -> Module:
        m = right(self, platform)
        override(self, m)
        return m

    patch.setattr(component, "elaborate", elaborate)


def dropped_sticky_bit(patch):
    def override(shift, m):
        m.d.comb += shift.lost.eq(0)

    overridden(patch, ShiftRight, override)


def swapped_sign(patch):
    def override(lane, m):
        m.d.comb += lane.o.sign.eq(lane.a[-1])

    overridden(patch, ProductLane, override)


def off_by_one_shift(patch):
    def override(shift, m):
        with m.If(shift.amount == 5):
            m.d.comb += shift.result.eq(shift.value >> 4)

    overridden(patch, ShiftRight, override)


def lost_nan(patch):
    def override(scale, m):
        m.d.comb += scale.nan.eq(0)

    overridden(patch, ScaleAdder, override)


def lost_under_backpressure(patch):
    def override(unit, m):
        m.d.comb += unit.i.ready.eq(1)

    overridden(patch, DotUnit, override)


@pytest.mark.parametrize(
    ("wrong", "section"),
    [
        (dropped_sticky_bit, None),  # decides a rounding, or nothing but a flag
        (swapped_sign, "section multiply of block 0, product"),
        (off_by_one_shift, "section a"),  # align or accumulate, whichever the product meets first
        (lost_nan, "section accumulate of block 0, c'"),
    ],
)
def test_wrong_unit_is_caught_and_located(wrong, section, simulation_dir, monkeypatch):
    directory = simulation_dir / f"wrong-{wrong.__name__}"
    directory.mkdir(parents=True, exist_ok=True)
    verilog = directory / "wrong.v"
    wrong(monkeypatch)
    verilog.write_text(generate(CONFIG))
    monkeypatch.undo()
    result = run(directory, verilog=verilog, traffic=1000, bulk=5000)
    assert not result.passed
    assert any("results differ from the model's" in error for error in result.errors)
    assert result.mismatches > 0
    for text in ("seed 1", "scale_a 0x", "got  0x", "want 0x", "repeat with: mxdot sim --seed 1"):
        assert text in result.report
    if section is not None:
        assert f"first difference: {section}" in result.report


def test_lost_transaction_is_caught(simulation_dir, monkeypatch):
    directory = simulation_dir / "wrong-lost"
    directory.mkdir(parents=True, exist_ok=True)
    verilog = directory / "wrong.v"
    lost_under_backpressure(monkeypatch)
    verilog.write_text(generate(CONFIG))
    monkeypatch.undo()
    result = run(directory, verilog=verilog, traffic=500)
    assert not result.passed
    assert any("left without a result" in error for error in result.errors)


@in_one_directory
@pytest.mark.parametrize("predictor", ["one_bit_less", "subnormals_flushed"])
def test_wrong_model_is_caught(predictor, simulation_dir):
    result = run(
        simulation_dir / "bench",
        traffic=500,
        bulk=5000,
        predictor=f"wrong_predictors:{predictor}",
    )
    assert not result.passed
    assert result.mismatches > 0
    assert "no stage differs from the golden model" in result.report


@in_one_directory
def test_right_unit_passes(simulation_dir):
    result = run(simulation_dir / "bench", traffic=1500, bulk=5000)
    assert result.errors == []
    assert result.passed
    assert (result.mismatches, result.coverage) == (0, 100.0)
    assert result.products > 6000
    assert result.bulk_rate > 8 * result.cycle_rate
