"""Units that compute something else, for benches to catch."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module

from mxdot.hw.dot.alignment_shifter import AlignShifter, places_around
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


def breaks(component: type) -> Callable[[Callable], Callable[[pytest.MonkeyPatch], None]]:
    """Of `override(component, m)`, what makes such units wrong: a function of pytest's patch."""

    def breaking(override: Callable) -> Callable[[pytest.MonkeyPatch], None]:
        @wraps(override)
        def broken(patch: pytest.MonkeyPatch) -> None:
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


def at_once(*wrongs: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    """What makes units wrong in all these ways."""

    def broken(patch: pytest.MonkeyPatch) -> None:
        for wrong in wrongs:
            wrong(patch)

    broken.__name__ = "-".join(wrong.__name__ for wrong in wrongs)
    return broken


def run_small(config: Any, directory: Path, builds: Path, **options: Any) -> UnitResult:
    """Run the bench in `directory` with seed 1; simulations are kept in `builds`."""
    repeat = "mxdot sim --seed 1"
    return run_unit(UnitJob("small", config, 1, directory, builds=builds, repeat=repeat, **options))


def run_wrong(wrong: Any, config: Any, directory: Path, builds: Path, **options: Any) -> UnitResult:
    """Run it on the unit that is `config` with what `wrong` patches; it must not pass."""
    verilog = directory / "wrong.v"
    with pytest.MonkeyPatch.context() as patch:
        wrong(patch)
        verilog.write_text(generate(config))
    builds /= f"{config.kind}-{wrong.__name__}"
    result = run_small(config, directory, builds, verilog=verilog, **options)
    assert not result.passed
    return result
