"""Functional coverage of one unit, with cocotb-coverage: data features and stream events.

The data features are those of sim/features.py, sampled for every dot product that went through.
Bins that the configuration cannot reach are no part of the goal, which is every other bin.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cocotb_coverage.coverage import CoverageDB, CoverPoint, coverage_section
from pyuvm import uvm_component, uvm_tlm_analysis_fifo

from ...model import DotConfig
from .. import features
from .context import context_of, drain
from .protocol import Event, Timeline

ROOT = "mxdot"
GOAL = 100.0  # percent of the bins that can be reached
SHOWN_BINS = 8


def event_goals(config: DotConfig) -> dict[str, list[object]]:
    """The bins of stream events that `config` can hit."""
    cycles: list[object] = [
        (source, sink) for source in ("idle", "accepted") for sink in ("idle", "taken", "stalled")
    ]
    if config.latency == 1:  # the only register is full while its result is stalled
        cycles.remove(("accepted", "stalled"))
    cycles.append(("blocked", "stalled"))
    if Timeline(config).interval > 1:
        cycles += [("blocked", "idle"), ("blocked", "taken")]
    resets: list[object] = ["idle", "partial product", "result stalled"]
    if config.latency > 1:  # else a result is on the pins at once
        resets.append("result on its way")
    return {
        "cycle": cycles,
        "gap": ["none", "inside a product", "between products"],
        "taken": ["at once", "1 cycle", "2 to 7 cycles", "8 or more"],
        "reset": resets,
    }


def _section(group: str, goals: Mapping[str, Sequence[object]]) -> Any:
    """A sampling function of a mapping from point to the set of bins hit."""

    def point(name: str, bins: Sequence[object]) -> CoverPoint:
        return CoverPoint(
            f"{ROOT}.{group}.{name}",
            xf=lambda sample: sample.get(name, ()),
            rel=lambda seen, wanted: wanted in seen,
            bins=list(bins),
            inj=False,
        )

    @coverage_section(*(point(name, bins) for name, bins in goals.items()))
    def sample(found: dict[str, Any]) -> None:
        pass

    return sample


class Coverage(uvm_component):
    """Samples in the check phase; the run fails below the goal."""

    def build_phase(self) -> None:
        """Make the streams and the cover points."""
        self.context = context_of(self)
        self.products = uvm_tlm_analysis_fifo("products", self)
        self.events = uvm_tlm_analysis_fifo("events", self)
        self.sample_data = _section("data", features.goals(self.context.config))
        self.sample_event = _section("stream", event_goals(self.context.config))

    def check_phase(self) -> None:
        """Sample what was seen, write the coverage files, and compare with the goal."""
        for batch, outcome in drain(self.products):
            found = features.hits(self.context.config, batch, outcome)
            for values in zip(*found.values(), strict=True):
                self.sample_data(dict(zip(found, values, strict=True)))
        for event in drain(self.events):
            self.sample_event(_event_bins(event))
        database = CoverageDB()
        directory = self.context.job.directory
        database.export_to_yaml(str(directory / "coverage.yml"))
        database.export_to_xml(str(directory / "coverage.xml"))
        report = self.context.report
        report.coverage = database[ROOT].cover_percentage
        report.missed = [
            f"{name.removeprefix(ROOT + '.')}: {wanted}"
            for name, item in database.items()
            if isinstance(item, CoverPoint)
            for wanted, count in item.detailed_coverage.items()
            if not count
        ]
        if report.coverage < GOAL:
            missed = "; ".join(report.missed[:SHOWN_BINS])
            more = len(report.missed) - SHOWN_BINS
            self.context.error(
                f"coverage {report.coverage:.1f}% is below the goal of {GOAL:.0f}%: missed {missed}"
                + (f"; and {more} more bins" if more > 0 else "")
            )


def _event_bins(event: Event) -> dict[str, set[object]]:
    bins: dict[str, set[object]] = {"cycle": {(event.source, event.sink)}}
    for name in ("gap", "taken", "reset"):
        value = getattr(event, name)
        if value:
            bins[name] = {value}
    return bins
