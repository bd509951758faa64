"""The smallest operands that still fail, found by replaying them through the built simulation.

An item that fails alone after a reset becomes simpler as long as it fails alone. One that needs
others keeps those without which nothing fails.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...sim.engine.stream_unit import AT_ONCE, Replayed, StallChances, StreamUnit, parts
from ...sim.engine.verilator import Build, SimulationError

Item = dict[str, Any]

TRIED_SEEDS = 8  # of gaps and stalls, for a failure that needs items before it
FEW = 8  # items of which every single one and every pair is tried
CONFIRMED = 4  # simpler items of a round that may turn out to fail among others only


@dataclass(frozen=True)
class Stimulus:
    """Items for a unit after a reset, and the timing of its streams."""

    items: list[Item]
    timing: StallChances = AT_ONCE


class Minimiser:
    """Replays of one unit, for at most `seconds`."""

    def __init__(self, unit: StreamUnit, build: Build, seconds: float = 300.0) -> None:
        self.unit, self.build = unit, build
        self.end = time.monotonic() + seconds

    def smallest(self, stimulus: Stimulus, wrong: int) -> Stimulus | None:
        """The least that was seen to fail; of `stimulus`, item `wrong` failed in a longer run.

        None when nothing of it fails.
        """
        alone = Stimulus([stimulus.items[wrong]])
        if self._fails(alone):
            return self._simplest_alone(alone)
        for seed in range(TRIED_SEEDS):
            timings = [
                StallChances(
                    stimulus.timing.gap, stimulus.timing.stall, stimulus.timing.seed + seed
                )
            ]
            for timing in [*timings, *[AT_ONCE] * (seed == 0)]:
                together = Stimulus(stimulus.items, timing)
                if self._fails(together):
                    return self._simplest_together(self._fewest(together))
        return None

    def _replay(self, stimulus: Stimulus) -> Replayed | None:
        """Results of a replay; None when the simulation does not end."""
        try:
            return self.unit.replay(self.build, stimulus.items, stimulus.timing)
        except SimulationError:
            return None

    def _fails(self, stimulus: Stimulus) -> bool:
        replayed = self._replay(stimulus)
        return replayed is None or replayed.failed

    @property
    def _in_time(self) -> bool:
        return time.monotonic() < self.end

    def _simplest_alone(self, stimulus: Stimulus) -> Stimulus:
        """All simpler items go through the unit in one run; the simplest wrong one is next."""
        while self._in_time:
            simpler = self._simpler(stimulus.items[0])
            replayed = self._replay(Stimulus(simpler)) if simpler else None
            wrong = replayed.wrong if replayed is not None else range(len(simpler))
            tried = (Stimulus([simpler[i]]) for i in list(wrong)[:CONFIRMED])
            confirmed = next(filter(self._fails, tried), None)
            if confirmed is None:
                return stimulus
            stimulus = confirmed
        return stimulus

    def _simpler(self, item: Item) -> list[Item]:
        """Simpler items, the simplest first."""
        most = self.unit.complexity(item)
        made = {str(other): other for other in self.unit.simpler(item)}.values()
        ranked = [(self.unit.complexity(other), other) for other in made]
        ranked = [(cost, other) for cost, other in ranked if cost < most]
        return [other for _, other in sorted(ranked, key=lambda pair: pair[0])]

    def _fewest(self, stimulus: Stimulus) -> Stimulus:
        """Items without which nothing fails."""

        def without(items: Sequence[Item]) -> list[list[Item]]:
            last = [list(items[-count:]) for count in (2, 4, 8, 16, 32) if count < len(items)]
            kept = [places for places in parts(range(len(items))) if places]
            if len(items) > FEW:
                kept = [places for places in kept if len(places) > 2]
            return [*last, *([items[i] for i in places] for places in kept)]

        return self._repeatedly(stimulus, without)

    def _simplest_together(self, stimulus: Stimulus) -> Stimulus:
        """Each item by itself simpler."""

        def changed(items: Sequence[Item]) -> list[list[Item]]:
            return [
                [*items[:i], other, *items[i + 1 :]]
                for i, item in enumerate(items)
                for other in self._simpler(item)[:CONFIRMED]
            ]

        return self._repeatedly(stimulus, changed)

    def _repeatedly(
        self, stimulus: Stimulus, smaller: Callable[[Sequence[Item]], list[list[Item]]]
    ) -> Stimulus:
        while self._in_time:
            tried = (Stimulus(items, stimulus.timing) for items in smaller(stimulus.items))
            in_time = (other for other in tried if self._in_time)
            failing = next(filter(self._fails, in_time), None)
            if failing is None:
                return stimulus
            stimulus = failing
        return stimulus
