"""Functional coverage of one unit, with cocotb-coverage: data features and stream events.

The data features are the subject's, sampled for every item that went through. Bins that the
configuration cannot reach are no part of the goal, which is every other bin.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cocotb_coverage.coverage import CoverageDB, CoverPoint, coverage_section
from pyuvm import uvm_component, uvm_tlm_analysis_fifo

from ..engine.job import CycleReport
from .context import context_of, drain
from .protocol import Event

ROOT = "mxdot"
GOAL = 100.0  # percent of the bins that can be reached
SHOWN_BINS = 8


def section(group: str, goals: Mapping[str, Sequence[object]]) -> Any:
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
        self.batches = uvm_tlm_analysis_fifo("batches", self)
        self.events = uvm_tlm_analysis_fifo("events", self)
        self.subject = self.context.subject
        self.sample_data = section("data", self.subject.goals())
        self.sample_event = section("stream", self.subject.event_goals())

    def check_phase(self) -> None:
        """Sample what was seen, write the coverage files, and compare with the goal."""
        for batch, outcome in drain(self.batches):
            found = self.subject.hits(batch, outcome)
            for values in zip(*found.values(), strict=True):
                self.sample_data(dict(zip(found, values, strict=True)))
        for event in drain(self.events):
            self.sample_event(_event_bins(event))
        missed = conclude(self.context.job.directory, self.context.report)
        if missed:
            self.context.error(missed)


def conclude(directory: Path, report: CycleReport) -> str | None:
    """Write the files and the report's figures; when the goal is not met, what is missed."""
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


def _event_bins(event: Event) -> dict[str, set[object]]:
    bins: dict[str, set[object]] = {"cycle": {(event.source, event.sink)}, **event.own}
    for name in ("gap", "taken", "reset"):
        value = getattr(event, name)
        if value:
            bins[name] = {value}
    return bins
