"""Shared by the components of the bench: the unit, its pins in each cycle, pauses, and errors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, TypeVar

from pyuvm import ConfigDB, uvm_component, uvm_tlm_analysis_fifo

from ..engine.job import CycleReport, ErrorLog, UnitJob
from .subject import Pins, Subject

LONGEST_PAUSE = 1000  # cycles: well below those after which the bench calls a unit hung


@dataclass
class PauseChances:
    """Pauses at the ends of the streams: chances per cycle, and the mean length of a pause."""

    gap: float = 0.0
    stall: float = 0.0
    length: float = 1.0

    def pause(self, rng: Random, chance: float) -> int:
        """Cycles to wait: 0, or with `chance` 1 to `LONGEST_PAUSE`, `length` on average."""
        if rng.random() >= chance:
            return 0
        if self.length <= 1:
            return 1
        return min(1 + int(rng.expovariate(1 / (self.length - 0.5))), LONGEST_PAUSE)


@dataclass
class Context:
    """Handed to every component through the ConfigDB as "context"."""

    subject: Subject
    timing: PauseChances = field(default_factory=PauseChances)
    report: CycleReport = field(default_factory=CycleReport)
    _payload: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        self.errors = ErrorLog(self.report)

    @property
    def job(self) -> UnitJob:
        return self.subject.job

    @property
    def pins(self) -> Pins:
        return self.subject.pins

    def payload(self) -> tuple[int, ...]:
        """The output beat on the pins, read once in a cycle."""
        if self._payload is None:
            self._payload = self.subject.payload()
        return self._payload

    def forget_payload(self) -> None:
        """Begin a new cycle."""
        self._payload = None

    def random(self, purpose: str) -> Random:
        """Random numbers for one component."""
        return Random(int(self.job.rng(purpose).integers(2**63)))

    def error(self, text: str) -> None:
        """Note an error: the run goes on, and fails."""
        self.errors.add(text)


def context_of(component: uvm_component) -> Context:
    """The context that all components share."""
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


class Seen(NamedTuple):
    """The pins that every unit has, before a rising edge."""

    rst: bool
    in_valid: bool
    in_ready: bool
    out_valid: bool
    out_ready: bool


class Watch(uvm_component):
    """Reads the pins once in every cycle, and calls `watchers` with them in their order.

    A task per watcher would be woken in every cycle to read the same pins.
    """

    def build_phase(self) -> None:
        self.context = context_of(self)
        self.watchers: list[Callable[[Seen], None]] = []

    async def run_phase(self) -> None:
        pins = self.context.pins
        handles = [getattr(pins, name) for name in Seen._fields]
        while True:
            await pins.edge
            self.context.forget_payload()
            seen = Seen(*[bool(handle.value) for handle in handles])
            for watcher in self.watchers:
                watcher(seen)
