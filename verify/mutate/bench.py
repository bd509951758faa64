"""Judges mutants by the bench of `mxdot sim`: a short run in bulk, a longer one, cycle by cycle."""

import hashlib
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...model.units import UnitConfig
from ...sim.engine.job import UnitJob
from ...sim.engine.regression import run_unit
from ...sim.engine.unit import UnitResult
from ...sim.kinds import kind_of, named
from ...util.data.tensors import REAL_FILE
from ..small_units import Unit
from .design import SELECT, Design

_KEPT = 64
_predicted: OrderedDict[bytes, Any] = OrderedDict()


def predict(config: UnitConfig, batch: Any) -> Any:
    """The golden model's prediction, kept: every mutant is given the same items."""
    key = hashlib.sha256(pickle.dumps((config, batch))).digest()
    if key not in _predicted:
        _predicted[key] = named(kind_of(config).predictor)(config, batch)
        if len(_predicted) > _KEPT:
            _predicted.popitem(last=False)
    return _predicted[key]


@dataclass(frozen=True)
class Stage:
    """A run of the bench: items in bulk, with real tensors or without, and cycle by cycle."""

    name: str
    bulk: int
    tensors: bool
    traffic: int


def stages(unit: Unit) -> tuple[Stage, ...]:
    """The cheapest first."""
    return (
        Stage("bulk", unit.few, False, 0),
        Stage("longer bulk", unit.many, True, 0),
        Stage("cycle by cycle", 0, False, unit.traffic),
    )


def run(
    design: Design, number: int, stage: Stage, seed: int, directory: Path, builds: Path
) -> UnitResult:
    """One run of the bench with one mutant, or with the unit as it is when `number` is 0.

    builds: folder of simulations, which runs may share. ToolError without a simulator, and without
    a compiler for it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / SELECT).write_text(f"{number}\n")
    job = UnitJob(
        name=design.unit.name,
        config=design.unit.config,
        seed=seed,
        directory=directory,
        traffic=stage.traffic,
        bulk=stage.bulk,
        verilog=design.verilog,
        predictor=f"{__name__}:predict",
        tensors=REAL_FILE if stage.tensors else None,
        builds=builds,
        explains=False,
    )
    return run_unit(job)
