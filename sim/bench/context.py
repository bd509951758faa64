"""What the components of the bench share: the pins, the job, how traffic is timed, and errors."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from cocotb.handle import LogicObject
from cocotb.triggers import RisingEdge
from pyuvm import ConfigDB, uvm_component, uvm_tlm_analysis_fifo

from ...model import DotConfig
from ...model.trace import FLAG_NAMES
from ..job import CycleReport, UnitJob

KEPT_ERRORS = 2  # of a kind


@dataclass
class Timing:
    """How the ends of the streams behave: chances per cycle, and the mean length of a pause."""

    gap: float = 0.0
    stall: float = 0.0
    length: float = 1.0

    def pause(self, rng: Random, chance: float) -> int:
        """Cycles to wait now: 0, or with `chance` at least 1 and `length` on average."""
        if rng.random() >= chance:
            return 0
        return 1 if self.length <= 1 else 1 + int(rng.expovariate(1 / (self.length - 0.5)))


class Pins:
    """The unit's pins by name, with the optional ones left out where the unit has none.

    Values read after a rising edge are those before it, which is what the unit's registers saw.
    """

    def __init__(self, dut: Any, config: DotConfig) -> None:
        self.dut = dut
        self.clk: LogicObject = dut.clk
        self.rst: LogicObject = dut.rst
        self.in_valid: LogicObject = dut.in_valid
        self.in_ready: LogicObject = dut.in_ready
        self.in_first: LogicObject = dut.in_first
        self.in_last: LogicObject = dut.in_last
        names = ("a", "b", "scale_a", "scale_b", *config.side_inputs)
        self.block: list[LogicObject] = [getattr(dut, f"in_{name}") for name in names]
        self.in_c = dut.in_c if config.load_c else None
        self.in_mode = dut.in_mode if config.mode_bits else None
        self.out_valid: LogicObject = dut.out_valid
        self.out_ready: LogicObject = dut.out_ready
        self.out_result = dut.out_result
        names = FLAG_NAMES if config.status else ()
        self.out_flags: list[LogicObject] = [getattr(dut, f"out_{name}") for name in names]
        self.edge = RisingEdge(dut.clk)

    def result(self) -> tuple[int, int]:
        """Result bits and flags, as they stand."""
        flags = 0
        for bit, pin in enumerate(self.out_flags):
            flags |= int(pin.value) << bit
        return int(self.out_result.value), flags


@dataclass
class Context:
    """Handed to every component through the ConfigDB as "context"."""

    job: UnitJob
    pins: Pins
    timing: Timing = field(default_factory=Timing)
    report: CycleReport = field(default_factory=CycleReport)
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def config(self) -> DotConfig:
        """The unit."""
        return self.job.config

    def random(self, purpose: str) -> Random:
        """Random numbers for one component."""
        return Random(int(self.job.rng(purpose).integers(2**63)))

    def error(self, text: str) -> None:
        """Note an error: the run goes on, and fails. Of a kind, the first two are kept."""
        kind = re.sub(r"\d+", "#", text)
        self.kinds[kind] += 1
        if self.kinds[kind] <= KEPT_ERRORS:
            self.report.errors.append(text)

    def finish(self) -> None:
        """Say how many errors were left out."""
        self.report.errors += [
            f"{count - KEPT_ERRORS} more: {kind}"
            for kind, count in self.kinds.items()
            if count > KEPT_ERRORS
        ]


def context_of(component: uvm_component) -> Context:
    """The shared context."""
    context = ConfigDB().get(component, "", "context")
    assert isinstance(context, Context)
    return context


C = TypeVar("C", bound=uvm_component)


def make(kind: type[C], name: str, parent: uvm_component) -> C:
    """A component from the factory, with its type."""
    component = kind.create(name, parent)
    assert isinstance(component, kind)
    return component


def drain(fifo: uvm_tlm_analysis_fifo) -> Iterator[Any]:
    """Everything that has been written to `fifo`."""
    while fifo.can_get():
        yield fifo.try_get()[1]
