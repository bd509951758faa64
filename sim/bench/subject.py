"""The unit under test, as the environment sees it: all that differs between kinds of units.

The environment handles items (dot products, blocks to quantise): it drives them beat by beat,
assembles the beats that the pins accepted and delivered, and compares with the model. A kind of
unit is a subclass of `Subject` named in its row of sim/kinds.py.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType, ModuleType
from typing import Any, final

import numpy as np
from cocotb.handle import LogicObject
from cocotb.triggers import RisingEdge

from ..engine.job import UnitJob
from ..kinds import kind_of, named

IDLE = "idle"
"""State of an empty unit: no beat of an item, no result to give."""

Bins = Mapping[str, set[object]]
Goals = Mapping[str, Sequence[object]]
Hits = Mapping[str, Sequence[set[object]]]


class Pins:
    """The pins that every unit has.

    Values read after a rising edge are those before it, as the unit's registers saw them.
    """

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.clk: LogicObject = dut.clk
        self.rst: LogicObject = dut.rst
        self.in_valid: LogicObject = dut.in_valid
        self.in_ready: LogicObject = dut.in_ready
        self.out_valid: LogicObject = dut.out_valid
        self.out_ready: LogicObject = dut.out_ready
        self.edge = RisingEdge(dut.clk)


def any_alias(number: int, count: int, rng: Random) -> int:
    """A number that selects entry `number` of `count`: each one past the last selects the last."""
    return rng.randrange(number, 1 << (count - 1).bit_length()) if number == count - 1 else number


LONG_AGO = -(10**9)
"""A cycle before all others."""


class Timeline(ABC):
    """Times at which a unit takes beats and gives results.

    They hold while nothing stalls the unit; with `runs_on` also while it is stalled.
    """

    runs_on = False
    """True when beats go on inside while a result waits, so that all times hold then too."""

    before = 0
    """Registers in which a beat may wait while nothing is stalled."""
    after = 1
    """Registers after them."""
    interval = 1
    """The most cycles between two beats while nothing is stalled."""
    due: deque[int]
    """Cycles in which results come."""
    taken = LONG_AGO
    """Cycle in which the last result was taken."""

    @abstractmethod
    def reset(self) -> None:
        """The unit is empty."""

    def lacks_room(self, now: int, first: bool) -> bool:
        """True when only results that wait keep this beat waiting now."""
        return False

    @abstractmethod
    def must_accept(self, now: int, first: bool) -> bool:
        """True when the unit has room for this beat now; `first` of its item."""

    @abstractmethod
    def accept(self, now: int, first: bool, last: bool) -> None:
        """A beat was accepted, the first or last of its item."""

    def take(self, now: int) -> None:
        """The oldest result was taken."""
        self.due.popleft()
        self.taken = now


class Watcher:
    """Coverage of the input stream that only some kinds of unit have."""

    goals: Goals = MappingProxyType({})
    """Bins that the unit can reach."""

    def reset(self) -> None:
        """The unit is empty."""

    def accept(self, first: bool, last: bool, at_once: bool) -> Bins:
        """A beat was accepted, the first or last of its item, `at_once` after another."""
        return {}

    def wait(self, first: bool, for_room: bool) -> Bins:
        """A beat was not accepted. first: of its item. for_room: for want of room alone."""
        return {}


class Assembler(ABC):
    """Makes items of the beats that pass on the pins."""

    @abstractmethod
    def reset(self) -> None:
        """The unit is empty."""

    @abstractmethod
    def beat(self) -> Any:
        """The item that the beat on the pins completes, or None."""


class Subject(ABC):
    """One unit, its pins, and the items that it takes."""

    pins: Any
    """`Pins`, or the kind's own."""
    item: ModuleType
    """The kind's item.py; `batch_of` and `plain` are used here."""
    features: ModuleType
    """The kind's features.py: `goals` and `hits`."""

    def __init__(self, job: UnitJob, dut: Any) -> None:
        self.job, self.config = job, job.config
        self.items = self.config.items
        """Name of its items, in words."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """The most items that the unit can hold."""

    @property
    @abstractmethod
    def held_beats(self) -> int:
        """The most beats that the unit can hold."""

    @property
    def has_several_beats(self) -> bool:
        """True when items have several beats."""
        return True

    @abstractmethod
    def traffic(self) -> list[Any]:
        """Items to send, in any order."""

    @abstractmethod
    def beats(self, item: Any) -> int:
        """Number of beats of an item."""

    @abstractmethod
    def drive(self, item: Any, index: int, rng: Random) -> None:
        """Put a beat on the pins, except in_valid."""

    @abstractmethod
    def marks(self) -> tuple[bool, bool]:
        """Two booleans: the beat on the pins is the first, and the last, of its item."""

    @abstractmethod
    def payload(self) -> tuple[int, ...]:
        """The output beat on the pins, except out_valid."""

    @abstractmethod
    def sent(self) -> Assembler:
        """An assembler of the items that the unit accepts."""

    @abstractmethod
    def delivered(self, payload: Callable[[], tuple[int, ...]]) -> Assembler:
        """An assembler of the results that it delivers; `payload` reads the beat of the cycle."""

    @abstractmethod
    def timeline(self) -> Timeline:
        """When things happen while nothing is stalled."""

    def watcher(self) -> Watcher:
        """Coverage of its own."""
        return Watcher()

    @abstractmethod
    def group(self, item: Any) -> Any:
        """A key: items of one group make a batch."""

    def batch(self, items: list[Any]) -> Any:
        """A batch of items of one group, as the model takes it."""
        return self.item.batch_of(self.config, items)

    @abstractmethod
    def result(self, outcome: Any, row: int, item: Any) -> Any:
        """A result of the model for an item, as `delivered` makes it."""

    def plain(self, item: Any) -> dict[str, Any]:
        """An item as plain values of JSON."""
        return self.item.plain(item)

    def goals(self) -> Goals:
        """Bins of each feature of the items that the unit can reach."""
        return self.features.goals(self.config)

    def hits(self, batch: Any, outcome: Any) -> Hits:
        """Bins that each item of a batch hits."""
        return self.features.hits(self.config, batch, outcome)

    @final
    def event_goals(self) -> Goals:
        """Bins of stream events that the unit can reach: common ones, and the watcher's."""
        return {**self.watcher().goals, **self._common_event_goals()}

    def _common_event_goals(self) -> Goals:
        """Bins of every kind of unit.

        Input is blocked while the output is stalled; otherwise only where beats of an item wait for
        each other.
        """
        several, waits = self.has_several_beats, self.timeline().interval > 1
        sinks = ("idle", "taken", "stalled")
        cycles = [(source, sink) for source in ("idle", "accepted") for sink in sinks]
        if self.held_beats == 1:  # the only register is full while its result is stalled
            cycles.remove(("accepted", "stalled"))
        cycles += [("blocked", sink) for sink in sinks if waits or sink == "stalled"]
        return {
            "cycle": cycles,
            "gap": ["none", "between items"] + ["inside an item"] * several,
            "taken": ["at once", "1 cycle", "2 to 7 cycles", "8 or more"],
            "reset": [IDLE, "result stalled"]
            + ["partial item"] * several
            + ["result on its way"] * (self.config.latency > 1),  # else it is on the pins at once
        }


def subject_of(job: UnitJob, dut: Any) -> Subject:
    """The subject of a job in the simulator."""
    make: Callable[..., Subject] = named(kind_of(job.config).subject)
    return make(job, dut)


ROUNDS = 16
MORE = 1000
"""Items of a round."""


def reaching(
    config: Any,
    item: ModuleType,
    features: ModuleType,
    batches: Sequence[Any],
    more: Callable[[int], Sequence[Any]],
) -> list[Any]:
    """`batches`, and items of further rounds that hit a goal which is missed.

    item, features: the kind's item.py and features.py. more: the traffic of a round, about `MORE`
    items.
    """
    goals = features.goals(config)
    missed = {(name, wanted) for name, bins in goals.items() for wanted in bins}
    made = list(batches)
    for batch in batches:
        for row in _hits(config, item, features, batch):
            missed -= row
    for number in range(ROUNDS):
        if not missed:
            break
        for batch in more(number):
            rows = []
            for place, row in enumerate(_hits(config, item, features, batch)):
                if row & missed:
                    missed -= row
                    rows.append(place)
            if rows:
                made.append(batch.take(np.array(rows)))
    return made


def _hits(config: Any, item: ModuleType, features: ModuleType, batch: Any) -> list[set[Any]]:
    """(feature, bin) that each item hits by the golden model."""
    hit_bins: list[set[Any]] = [set() for _ in range(len(batch))]
    for name, hits in features.hits(config, batch, item.predict(config, batch)).items():
        for row, bins in zip(hit_bins, hits, strict=True):
            row |= {(name, one) for one in bins}
    return hit_bins
