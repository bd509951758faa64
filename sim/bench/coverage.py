"""Functional coverage of one unit, with cocotb-coverage: data features and stream events.

The data features are the subject's, sampled for every item that went through. Bins that the
configuration cannot reach are no part of the goal, which is every other bin.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from cocotb_coverage.coverage import CoverageDB, CoverPoint, coverage_section
from pyuvm import uvm_component, uvm_subscriber, uvm_tlm_analysis_fifo

from ..engine.job import CycleReport
from .context import context_of, drain
from .protocol import StreamEvent

ROOT = "mxdot"
GOAL = 100.0  # percent of the bins that can be reached
SHOWN_BINS = 8


class Tally:
    """Cover points of a group, and the number of hits of each of their bins.

    cocotb-coverage compares every sample with every bin of every point, which takes longer than the
    simulation. It gets all samples as one, and then the tally's counts.
    """

    def __init__(self, group: str, goals: Mapping[str, Sequence[object]]) -> None:
        self.goals = goals
        self.points = {
            name: CoverPoint(
                f"{ROOT}.{group}.{name}",
                xf=lambda sample, name=name: sample[name],
                rel=lambda seen, wanted: wanted in seen,
                bins=list(bins),
                inj=False,
            )
            for name, bins in goals.items()
        }
        self.counts: dict[str, Counter[object]] = {name: Counter() for name in goals}

    def add(self, name: str, bins: Iterable[object]) -> None:
        """Count the bins that samples of a point hit, each once per sample; bins of no goal too."""
        if name in self.counts:
            self.counts[name].update(bins)

    @property
    def is_complete(self) -> bool:
        """True when every bin has been hit."""
        return all(self.counts[name][one] for name, bins in self.goals.items() for one in bins)

    def sample(self) -> None:
        """Hand the counts to cocotb-coverage."""

        @coverage_section(*self.points.values())
        def at_once(found: Mapping[str, Counter[object]]) -> None:
            pass

        at_once(self.counts)
        for name, point in self.points.items():
            hits = point.detailed_coverage
            for wanted in hits:
                hits[wanted] += max(0, self.counts[name][wanted] - 1)


class EventTally(Tally):
    """A tally of stream events, which come one by one."""

    def add_event(self, event: StreamEvent) -> None:
        self.counts["cycle"][event.source, event.sink] += 1
        for name in ("gap", "taken", "reset"):
            value = getattr(event, name)
            if value:
                self.add(name, (value,))
        for name, bins in event.own.items():
            self.add(name, bins)


class Coverage(uvm_component):
    """Samples in the check phase; the run fails below the goal."""

    def build_phase(self) -> None:
        self.context = context_of(self)
        self.batches = uvm_tlm_analysis_fifo("batches", self)
        self.data = Tally("data", self.context.subject.goals())
        self.stream = EventTally("stream", self.context.subject.event_goals())
        self.events = uvm_subscriber.uvm_AnalysisImp("events", self, self.stream.add_event)

    def check_phase(self) -> None:
        """Sample all items, write the coverage files, and compare with the goal."""
        for batch, outcome in drain(self.batches):
            for name, hits in self.context.subject.hits(batch, outcome).items():
                if len(hits) != len(batch):
                    items = self.context.subject.items
                    self.context.error(f"coverage of {name}: {len(hits)} of {len(batch)} {items}")
                self.data.add(name, chain.from_iterable(hits))
        self.data.sample()
        self.stream.sample()
        missed = conclude(self.context.job.directory, self.context.report)
        if missed:
            self.context.error(missed)


def conclude(directory: Path, report: CycleReport) -> str | None:
    """Write the coverage files and the report's figures; a text of what is missed, None when the
    goal is met."""
    database = CoverageDB()
    database.export_to_yaml(str(directory / "coverage.yml"))
    database.export_to_xml(str(directory / "coverage.xml"))
    report.coverage = database[ROOT].cover_percentage
    report.missed = [
        f"{name.removeprefix(ROOT + '.')}: {wanted}"
        for name, item in database.items()
        if isinstance(item, CoverPoint)
        for wanted, count in item.detailed_coverage.items()
        if not count
    ]
    if report.coverage >= GOAL:
        return None
    missed = "; ".join(report.missed[:SHOWN_BINS])
    more = len(report.missed) - SHOWN_BINS
    text = f"coverage {report.coverage:.1f}% is below the goal of {GOAL:.0f}%: missed {missed}"
    return text + (f"; and {more} more bins" if more > 0 else "")
