"""Units that compute something else, for benches to catch."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module, Signal

from mxdot.hw.dot.alignment_shifter import AlignShifter, places_around
from mxdot.hw.dot.unit import DotUnit
from mxdot.hw.quantize.unit import QuantizeUnit
from mxdot.hw.verilog import generate
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.unit import UnitResult, run_unit


def overridden(patch: pytest.MonkeyPatch, component: type, override) -> None:
    """Let `override(component, m)` add statements, which win over those of the component."""
    right = component.elaborate  # type: ignore[attr-defined]

    def elaborate(self, platform) -> Module:
        m = right(self, platform)
        override(self, m)
        return m

    patch.setattr(component, "elaborate", elaborate)


def breaks(*components: type) -> Callable[[Callable], Callable[[pytest.MonkeyPatch], None]]:
    """Of `override(component, m)`, what makes such units wrong: a function of pytest's patch."""

    def breaking(override: Callable) -> Callable[[pytest.MonkeyPatch], None]:
        @wraps(override)
        def broken(patch: pytest.MonkeyPatch) -> None:
            for component in components:
                overridden(patch, component, override)

        return broken

    return breaking


@breaks(AlignShifter)
def off_by_one_shift(shift, m):
    """Products five places below the largest are shifted by four."""
    _, above = places_around(shift.widths)
    word = (shift.significand << above) >> 4
    with m.If(shift.distance == 5):
        m.d.comb += shift.word.eq(word ^ shift.inverts.replicate(len(shift.word)))


@breaks(AlignShifter)
def dropped_sticky_bit(shift, m):
    m.d.comb += shift.sticky.eq(0)


@breaks(DotUnit, QuantizeUnit)
def lost_under_backpressure(unit, m):
    m.d.comb += unit.i.ready.eq(1)


@breaks(DotUnit, QuantizeUnit)
def never_ready(unit, m):
    m.d.comb += unit.i.ready.eq(0)


@breaks(DotUnit, QuantizeUnit)
def never_valid(unit, m):
    m.d.comb += unit.o.valid.eq(0)


@breaks(DotUnit)
def hangs_after_nan(unit, m):
    """After the first NaN scale of a: nothing in and nothing out."""
    stuck = Signal()
    with m.If(unit.i.valid & (unit.i.payload.scale_a == 0xFF)):
        m.d.sync += stuck.eq(1)
    with m.If(stuck):
        m.d.comb += [unit.i.ready.eq(0), unit.o.valid.eq(0)]


@breaks(DotUnit)
def unstable_result(unit, m):
    count = Signal(4)
    m.d.sync += count.eq(count + 1)
    with m.If(count == 0):
        m.d.comb += unit.o.payload.result[0].eq(1)


def at_once(*wrongs: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    """What makes units wrong in all these ways."""

    def broken(patch: pytest.MonkeyPatch) -> None:
        for wrong in wrongs:
            wrong(patch)

    broken.__name__ = "-".join(wrong.__name__ for wrong in wrongs)
    return broken


def wrong_verilog(wrong: Any, config: Any, directory: Path) -> Path:
    """The file of the unit that is `config` with what `wrong` patches."""
    verilog = directory / f"{wrong.__name__}.v"
    with pytest.MonkeyPatch.context() as patch:
        wrong(patch)
        verilog.write_text(generate(config))
    return verilog


def run_small(config: Any, directory: Path, builds: Path, **options: Any) -> UnitResult:
    """Run the bench in `directory` with seed 1; simulations are kept in `builds`."""
    repeat = "mxdot sim --seed 1"
    return run_unit(UnitJob("small", config, 1, directory, builds=builds, repeat=repeat, **options))


def run_wrong(wrong: Any, config: Any, directory: Path, builds: Path, **options: Any) -> UnitResult:
    """Run it on the unit that is `config` with what `wrong` patches; it must not pass."""
    verilog = wrong_verilog(wrong, config, directory)
    builds /= f"{config.kind}-{wrong.__name__}"
    result = run_small(config, directory, builds, verilog=verilog, **options)
    assert not result.passed
    return result
