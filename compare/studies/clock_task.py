"""The search for the smallest unit at a clock, as a task."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...model import DotConfig
from ...synth import Flow
from ...synth.clock import FREE, Clocked, Search
from ...util.jobs import reason
from ...util.keys import fingerprint, task_key
from .clocks import clock_text, reached
from .points import Point
from .tasks import Instruments, chosen_tools, flow_files
from .units import TOP, Generated


@dataclass(frozen=True)
class ClockTask:
    """Search for one unit at one clock of one process.

    The value is a `Cost` as plain JSON types with an entry `clock` (configuration, flow, slack,
    area_error, syntheses) and, where the clock is missed, `missed`: what bounds it and what helps.
    """

    unit: Generated
    process: str
    period_ps: float
    free: tuple[str, ...]
    energy: bool
    cache_dir: Path
    tools: Instruments = field(repr=False)
    wires: str | None = None
    """Value for `Flow.wires`."""
    effort: str | None = None
    """Value for `Search.effort`."""

    @property
    def key(self) -> str:
        flow = Flow.of_process(self.process, wires=self.wires)
        code = fingerprint(self.tools.cost_sources)
        what = [self.described, flow_files(flow), chosen_tools(flow)]
        return task_key("clock", what, self.energy, code)

    @property
    def described(self) -> dict[str, Any]:
        """The question without tools and code; `wires` and `effort` only where they are given."""
        arguments = self.unit.config.arguments | dict.fromkeys((*self.free, "delays"))
        return {
            "unit": arguments,
            "process": self.process,
            "period_ps": self.period_ps,
            "free": list(self.free),
        } | {
            name: value
            for name, value in (("wires", self.wires), ("effort", self.effort))
            if value is not None
        }

    @property
    def label(self) -> str:
        config = self.unit.config
        what = f"{config.formats_text} {config.accumulator} x{config.lanes}"
        wires = f" with wires ({self.wires})" if self.wires is not None else ""
        return f"{what}: {self.process}{wires} at {clock_text(self.period_ps)}"

    @property
    def weight(self) -> float:
        """Seconds, roughly."""
        return 12.0 + 1.7 * self.unit.lanes

    @property
    def estimate(self) -> str:
        """A prediction without a synthesis, in one line."""
        search = self._searching(self.free)
        unit = search.guess
        fastest = search.share(unit) * self.period_ps
        where = f"{unit.stages} stages, {unit.interleave} in flight"
        if search.promising:
            return f"{self.label}: about {search.estimate(unit):,.0f} um2 in {where}"
        return f"{self.label}: missed, about {reached(fastest)} in {where}"

    def run(self) -> Any:
        clocked = self._searching(self.free).run()
        value = clocked.cost.to_dict() | {"clock": self._about(clocked)}
        if not clocked.is_met:
            return value | {"missed": self._missed(clocked)}
        return value | (self._energy(clocked) if self.energy else {})

    def _searching(self, free: tuple[str, ...]) -> Search:
        texts: dict[DotConfig, str] = {}

        def measured(config: DotConfig, flow: Flow) -> Any:
            if config not in texts:
                texts[config] = self.tools.generate(config, TOP)
            return self.tools.measure(texts[config], TOP, flow, cache_dir=self.cache_dir)

        where = self.process, self.period_ps
        return Search(
            self.unit.config, *where, measured, free, wires=self.wires, effort=self.effort
        )

    def _about(self, clocked: Clocked) -> dict[str, Any]:
        return {
            "config": clocked.config.arguments,
            "flow": clocked.flow.to_dict(),
            "slack_ps": clocked.slack_ps,
            "area_error": clocked.area_error,
            "syntheses": clocked.syntheses,
        }

    def _missed(self, clocked: Clocked) -> str:
        assert clocked.cost.delay_ps is not None
        text = (
            f"{clock_text(self.period_ps)} is missed: the fastest unit that was found reaches "
            f"{reached(clocked.cost.delay_ps)}, and {clocked.bound} is slowest"
        )
        fixed = [name for name in FREE if name not in self.free]
        if fixed:
            better = self._searching(FREE).run()
            if better.is_met:
                unit = better.config
                return (
                    f"{text}; --stages {unit.stages} --interleave {unit.interleave} meets it with "
                    f"{better.cost.area:,.0f} {better.cost.unit}"
                )
        return f"{text}; no stages and products in flight of this accumulator meet it"

    def _energy(self, clocked: Clocked) -> dict[str, Any]:
        """Entry `energy`, or `energy_error`: area and delay stand without it."""
        verilog = self.tools.generate(clocked.config, TOP)
        try:
            found = self.tools.energy(
                clocked.config,
                clocked.flow,
                cache_dir=self.cache_dir,
                verilog=verilog,
                clock_ps=self.period_ps,
            )
        except OSError:  # a full disk: the next run tries again
            raise
        except Exception as error:
            return {"energy_error": reason(error)}
        return {"energy": found.to_dict()}


def clock_task(point: Point, cache_dir: Path, tools: Instruments) -> ClockTask | None:
    """Search that `point` needs, if any."""
    if point.clock_ps is None or not isinstance(point.unit, Generated):
        return None
    assert point.flow is not None
    assert point.flow.process is not None
    what = point.unit, point.flow.process, point.clock_ps, point.free, point.energy
    effort = "both" if point.flow.effort == "both" else None
    return ClockTask(*what, cache_dir, tools, point.flow.wires, effort)
