"""The smallest unit that runs at a clock, in a few syntheses.

    clocked = Search(config, "asap7", 1000.0, measured).run()

Delays of sections predict the shortest period of a pipeline, and bits in registers its area. The
pipelines are synthesised in the order of the predicted areas. The aim of each synthesis follows
from the delays that earlier aims reached: ABC sees neither flip-flops nor adder cells.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from ..model import DotConfig
from ..model.pipeline.advice import bound, most_in_flight
from ..model.pipeline.delays import DEFAULT_DELAYS, DELAYS
from ..model.pipeline.sections import dot_sections
from .flow import Cost, Flow, library_of
from .processes import PROCESSES

MOST = 8
"""Syntheses of one search."""
NEIGHBOURS = (0.93, 1.07)
"""Aims beside the chosen one; the spread of the three areas is the error bar."""
LEAST_ERROR = 0.01
"""Least error bar, as a share of the area: renaming alone moves an area by about 2%."""
NEAR = 1.04
"""Predicted area, in areas of the best unit, up to which a pipeline is synthesised."""
CLOSE = 0.03
"""Slack, as a share of the period, below which no looser aim is tried."""
GOAL = 0.985
"""Delay that an aim is chosen for, as a share of the period."""
EASY = 0.6
"""Predicted share of the period below which mapping by `balanced` is tried first: it is smaller."""
DOUBTFUL = 0.9
"""Predicted share of the period above which the fastest mapping is tried first."""
PROMISING = 1.08
"""Largest predicted share of the period of a pipeline that is synthesised."""
SHARE, REGISTER_PS = 0.86, 180.0
"""Shortest period = SHARE x slowest stretch + REGISTER_PS (ASAP7): `make area-report ARGS='--clock
--effort speed'` has the delays that these were fitted to, within 17%."""
PRESSURE, RELAXED = 0.28, 0.65
"""Growth of area per share of the period above RELAXED."""
BITS, LOOP_BITS, RESULT_BITS = 110, 140, 37
"""Flip-flops of handshake and result, of a register inside the loop, and of a queued result."""
REGISTER_AREA = 1.55
"""Area per flip-flop with the logic that moves it, in flip-flops."""
LANE_AREA = 500.0
"""Logic per lane, in NAND2, before anything is measured."""
FASTEST_AIM = 1
"""An aim that nothing reaches: ABC maps for speed."""
FLOOR = 0.35
"""Share of the period below which an aim changes nothing."""

Measure = Callable[[DotConfig, Flow], Cost]


@dataclass(frozen=True)
class Trial:
    """One synthesis."""

    config: DotConfig
    flow: Flow
    cost: Cost

    @property
    def delay(self) -> float:
        """Longest path in picoseconds."""
        assert self.cost.delay_ps is not None
        return self.cost.delay_ps

    @property
    def aim(self) -> int:
        """ABC's target in picoseconds."""
        assert self.flow.aim_ps is not None
        return self.flow.aim_ps


@dataclass(frozen=True)
class Clocked:
    """Result of a search: the smallest unit at the clock, or the fastest one that misses it."""

    config: DotConfig
    flow: Flow
    cost: Cost
    period_ps: float
    syntheses: int
    area_error: float | None = None
    """Spread of the areas for three neighbouring aims, at least 1%; None where the clock is missed.
    """

    @property
    def is_met(self) -> bool:
        """True when the unit runs at the clock."""
        return self.slack_ps >= 0

    @property
    def slack_ps(self) -> float:
        """Period less longest path."""
        assert self.cost.delay_ps is not None
        return self.period_ps - self.cost.delay_ps

    @property
    def bound(self) -> str:
        """Name of the slowest part."""
        return bound(self.config)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "config": self.config.arguments,
            "flow": self.flow.to_dict(),
            "cost": self.cost.to_dict(),
            **{
                name: value
                for name, value in asdict(self).items()
                if name not in ("config", "flow", "cost")
            },
        }


def delays_of(process: str) -> str:
    """The value of the option `delays` for registers placed by the process's own delays."""
    return process if process in DELAYS else DEFAULT_DELAYS


def fastest_ps(config: DotConfig) -> float:
    """Prediction of the shortest period, in the process of `config.delays`."""
    parts = config.pipeline.sections
    stated = dot_sections(_with(config, delays=DEFAULT_DELAYS), config.is_cut_finer)
    scale = sum(part.delay for part in parts) / sum(part.delay for part in stated)
    return SHARE * config.pipeline.delay + REGISTER_PS * scale


def registers(config: DotConfig) -> int:
    """Prediction of the number of flip-flops."""
    pipeline = config.pipeline
    bits = BITS + sum(pipeline.sections[place].bits for place in pipeline.registered)
    if pipeline.interval > 1:
        bits += LOOP_BITS * pipeline.interval
    if config.interleave > 1:
        bits += 32 * config.interleave + RESULT_BITS * (config.stages + 1)
    return bits


def _with(config: DotConfig, **changes: Any) -> DotConfig:
    return DotConfig(**{**config.arguments, **changes})


FREE = ("stages", "interleave")
"""Options that a search chooses."""


def pipelines(
    config: DotConfig, process: str, period_ps: float, free: tuple[str, ...] = FREE
) -> Iterator[DotConfig]:
    """Units like `config` that take a block in every cycle, without units that are deeper than the
    clock needs.

    Where stages and products in flight are given, the one unit may take a block less often. free:
    options that may differ from `config`.
    """
    base = _with(config, delays=delays_of(process))
    low, high = base.stage_limits
    turns = range(1, most_in_flight(base) + 1) if "interleave" in free else [base.interleave]
    depths = range(low, high + 1) if "stages" in free else [base.stages]
    best = float("inf")
    for products in turns:
        for stages in depths:
            unit = _with(base, stages=stages, interleave=products)
            if unit.interval > products and "stages" in free:
                break
            if unit.interval != products and len(turns) > 1:
                continue  # more products take a block in every cycle, or fewer keep the loop busy
            yield unit
            fastest = fastest_ps(unit)
            best = min(best, fastest)
            if fastest < RELAXED * period_ps:
                break
        if best < RELAXED * period_ps:
            break


class Search:
    """The search for one configuration; `run` has the result.

    measure: synthesises a unit by a flow with an aim. free: options that may differ from `config`.
    wires: value for `Flow.wires`. effort: `both` for all syntheses that can meet the clock.
    """

    def __init__(
        self,
        config: DotConfig,
        process: str,
        period_ps: float,
        measure: Measure,
        free: tuple[str, ...] = FREE,
        most: int = MOST,
        wires: str | None = None,
        effort: str | None = None,
    ) -> None:
        self.config, self.process, self.period = config, process, period_ps
        self._measure, self.free, self.most = measure, free, most
        self.wires, self.effort = wires, effort
        self.trials: list[Trial] = []

    @cached_property
    def candidates(self) -> list[DotConfig]:
        """Every pipeline, the fastest of those with equal registers."""
        return list(pipelines(self.config, self.process, self.period, self.free))

    @cached_property
    def _flipflop(self) -> float:
        cells = library_of(Flow.of_process(self.process)).cells.values()
        return REGISTER_AREA * min(cell.area for cell in cells if cell.is_flipflop)

    @cached_property
    def _nand2(self) -> float:
        return library_of(Flow.of_process(self.process)).cells[PROCESSES[self.process].nand2].area

    def share(self, unit: DotConfig) -> float:
        """Predicted shortest period as a share of the clock's."""
        return fastest_ps(unit) / self.period

    def estimate(self, unit: DotConfig) -> float:
        """Predicted area, by what was measured if anything was."""
        if self.trials:
            last = self.trials[-1]
            share = 1.0 if last.aim == FASTEST_AIM else self.share(last.config)
            logic = last.cost.area / self._growth(share) - self._held(last.config)
        else:
            logic = LANE_AREA * self._nand2 * unit.lanes
        return (logic + self._held(unit)) * self._growth(self.share(unit))

    def _held(self, unit: DotConfig) -> float:
        return self._flipflop * registers(unit)

    def _growth(self, share: float) -> float:
        """Area of logic that takes this share of the period, in areas of relaxed logic."""
        return 1 + PRESSURE * max(0.0, share - RELAXED)

    @property
    def left(self) -> int:
        """Syntheses that may still run."""
        return self.most - len(self.trials)

    @property
    def best(self) -> Trial | None:
        """The smallest unit that meets the clock."""
        met = [trial for trial in self.trials if trial.delay <= self.period]
        return min(met, key=lambda trial: trial.cost.area, default=None)

    @property
    def promising(self) -> list[DotConfig]:
        """Pipelines that are predicted to meet the clock, or nearly."""
        return [unit for unit in self.candidates if self.share(unit) <= PROMISING]

    @property
    def guess(self) -> DotConfig:
        """The pipeline of the smallest predicted area; the fastest where none meets the clock."""
        key = self.estimate if self.promising else self.share
        return min(self.promising or self.candidates, key=key)

    def run(self) -> Clocked:
        """The smallest unit at the clock, or the fastest where none meets it."""
        promising = self.promising
        while promising and self.left > len(NEIGHBOURS):
            unit = min(promising, key=self.estimate)
            if self.best is not None and self.estimate(unit) > NEAR * self.best.cost.area:
                break
            promising.remove(unit)
            self._unit(unit)
        if self.best is None:
            return self._missed()
        chosen = self.best
        error = self._spread(chosen)
        return self._result(self.best, error)

    def _result(self, trial: Trial, error: float | None) -> Clocked:
        count = len(self.trials)
        return Clocked(trial.config, trial.flow, trial.cost, self.period, count, error)

    def _missed(self) -> Clocked:
        tried = {trial.config for trial in self.trials}
        fastest = min(self.candidates, key=fastest_ps)
        if fastest not in tried and self.left:
            self._try(fastest, "speed", FASTEST_AIM)
        trial = min(self.trials, key=lambda trial: trial.delay)
        if trial.aim != FASTEST_AIM and self.left:
            trial = min(trial, self._try(trial.config, "speed", FASTEST_AIM), key=lambda t: t.delay)
        if trial.delay <= self.period:
            return self._result(trial, self._spread(trial))
        return self._result(trial, None)

    def _try(self, unit: DotConfig, effort: str, aim: float) -> Trial:
        aim = max(FASTEST_AIM, round(aim))
        how = {"effort": effort, "aim_ps": aim, "sections": False, "wires": self.wires}
        flow = Flow.of_process(self.process, **how)
        for trial in self.trials:
            if (trial.config, trial.flow) == (unit, flow):
                return trial
        trial = Trial(unit, flow, self._measure(unit, flow))
        self.trials.append(trial)
        return trial

    def _unit(self, unit: DotConfig) -> None:
        """Synthesise one pipeline for several aims, until its area at the clock is known."""
        if self.effort is not None:
            missed = self._try(unit, self.effort, self.period).delay - self.period
            if missed > 0 and self.left > len(NEIGHBOURS):
                self._try(unit, self.effort, self.period - 2 * missed)
            return
        tries = min(3, self.left - len(NEIGHBOURS))
        aim = self._first_aim(unit)
        if self.share(unit) < EASY:
            tries -= 1
            if self._try(unit, "balanced", aim).delay <= self.period or not tries:
                return
        while tries > 0:
            tries -= 1
            last = self._try(unit, "speed", aim)
            following = self._next_aim(unit)
            if following is None:
                return
            if last.delay > self.period and tries == 1 and self._best_of(unit) is None:
                following = min(following, self._safe(following))
            aim = following

    def _safe(self, aim: float) -> float:
        """A tighter aim: the last one of a pipeline should not miss by a little."""
        return 0.96 * aim

    def _first_aim(self, unit: DotConfig) -> float:
        """An aim for a pipeline of which nothing is measured."""
        share = self.share(unit)
        if share > DOUBTFUL:
            return FASTEST_AIM
        return self.period * max(FLOOR, min(0.75, 1.35 - 0.9 * share))

    def _best_of(self, unit: DotConfig) -> Trial | None:
        met = [t for t in self.trials if t.config == unit and t.delay <= self.period]
        return min(met, key=lambda trial: trial.cost.area, default=None)

    def _next_aim(self, unit: DotConfig) -> float | None:
        """An aim that should just meet the clock; None where nothing is left to try."""
        trials = [t for t in self.trials if t.config == unit and t.flow.effort == "speed"]
        met = [t for t in trials if t.delay <= self.period]
        missed = [t for t in trials if t.delay > self.period]
        goal = GOAL * self.period
        loosest = max(met, key=lambda t: (t.delay, t.aim), default=None)
        if loosest is not None and loosest.delay >= (1 - CLOSE) * self.period:
            return None
        tightest = min(missed, key=lambda t: t.delay, default=None)
        if loosest is None:
            assert tightest is not None
            if tightest.aim == FASTEST_AIM:
                return None
            aim = self._effective(tightest) - (tightest.delay - goal) / 0.7
            return aim if aim > FLOOR * self.period else FASTEST_AIM
        if any(t.delay < loosest.delay and t.cost.area <= loosest.cost.area for t in met):
            return None  # a looser aim gives no smaller unit
        if tightest is None:
            return min(self.period, self._effective(loosest) + (goal - loosest.delay) / 0.7)
        low, high = self._effective(loosest), self._effective(tightest)
        if high - low < 0.02 * self.period:
            return None
        part = (goal - loosest.delay) / (tightest.delay - loosest.delay)
        return low + min(0.9, max(0.1, part)) * (high - low)

    def _effective(self, trial: Trial) -> float:
        return max(FLOOR * self.period, trial.aim)

    def _spread(self, chosen: Trial) -> float:
        """Spread of the areas of one pipeline for three neighbouring aims, or the least error."""
        aim, areas = self._effective(chosen), [chosen.cost.area]
        alike = [
            t
            for t in self.trials
            if (t.config, t.flow.effort) == (chosen.config, chosen.flow.effort) and t != chosen
        ]
        for factor in NEIGHBOURS:
            side = [t for t in alike if 0.01 < (t.aim / aim - 1) / (factor - 1) < 1.5]
            if side:
                areas.append(min(side, key=lambda t: abs(t.aim / aim - factor)).cost.area)
            elif self.left:
                areas.append(self._try(chosen.config, chosen.flow.effort, factor * aim).cost.area)
        return max(max(areas) - min(areas), LEAST_ERROR * chosen.cost.area)
