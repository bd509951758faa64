"""The dot unit as a subject: its pins, dot products beat by beat, and when they come."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from cocotb.handle import LogicObject

from ...model import DotConfig
from ...model.trace import FLAG_NAMES
from ..bench import subject
from ..bench.subject import (
    LONG_AGO,
    MORE,
    Assembler,
    Bins,
    Goals,
    Subject,
    Watcher,
    any_alias,
    reaching,
)
from ..engine.job import UnitJob
from . import features, item
from .item import Batch, Bundle, DotResults, Product, bundles, products
from .stimulus import traffic
from .tensors import tensor_traffic

TENSOR_BLOCKS = 1000
APART, NEXT, CHAINED = "another slot", "same slot, next product", "same slot, same product"

FIRST, LATER = "a first block", "a chained block"


class DotPins(subject.Pins):
    """The unit's pins by name; None for optional pins that the unit has not."""

    def __init__(self, dut: Any, config: DotConfig) -> None:
        super().__init__(dut)
        self.in_first: LogicObject = dut.in_first
        self.in_last: LogicObject = dut.in_last
        names = ("a", "b", "scale_a", "scale_b", *config.side_inputs)
        self.block: list[LogicObject] = [getattr(dut, f"in_{name}") for name in names]
        self.modes, self.count = len(config.formats), config.interleave
        self.in_c = dut.in_c if config.load_c else None
        self.in_mode = dut.in_mode if config.mode_bits else None
        slots = ("in_slot", "out_slot") if config.slot_bits else ()
        self.slots: dict[str, LogicObject] = {name: getattr(dut, name) for name in slots}
        self.out_result = dut.out_result
        names = FLAG_NAMES if config.status else ()
        self.out_flags: list[LogicObject] = [getattr(dut, f"out_{name}") for name in names]

    def drive(self, product: Product, index: int, rng: Random) -> None:
        """Put a block of the product on the pins, except in_valid."""
        for pin, bits in zip(self.block, product.blocks[index], strict=True):
            pin.value = bits
        self.in_first.value = index == 0
        self.in_last.value = index == len(product.blocks) - 1
        if self.in_c is not None:
            # Used with the first block only: others carry noise.
            self.in_c.value = rng.getrandbits(32) if index else product.c
        if self.in_mode is not None:
            self.in_mode.value = any_alias(product.mode, self.modes, rng)
        if self.slots:
            self.slots["in_slot"].value = any_alias(product.slot, self.count, rng)

    def marks(self) -> tuple[bool, bool]:
        """in_first and in_last."""
        return bool(int(self.in_first.value)), bool(int(self.in_last.value))

    def slot(self) -> int:
        """Number of the dot product in flight to which the block on the pins belongs."""
        return min(int(self.slots["in_slot"].value), self.count - 1) if self.slots else 0

    def mode(self) -> int:
        """Number of the format pair of the block on the pins."""
        return 0 if self.in_mode is None else min(int(self.in_mode.value), self.modes - 1)

    def result(self) -> tuple[int, ...]:
        """Result bits and flags on the pins, and the slot where there are several."""
        flags = 0
        for bit, pin in enumerate(self.out_flags):
            flags |= int(pin.value) << bit
        slot = [int(self.slots["out_slot"].value)] if self.slots else []
        return int(self.out_result.value), flags, *slot


def capacity(config: DotConfig) -> int:
    """Results for which a unit has room: one per register, and one in the queue of an interleaved
    unit."""
    return config.latency + (config.interleave > 1)


class Timeline(subject.Timeline):
    """Times at which blocks enter the loop and results come out.

    A unit with products in flight runs on when it is stalled, as long as there is room for results.
    """

    def __init__(self, config: DotConfig, slot: Callable[[], int] = int) -> None:
        """slot: slot of the beat on the pins."""
        self.slot = slot
        sections, registered = config.pipeline.sections, config.pipeline.registered
        loop = next((i for i, s in enumerate(sections) if s.loop), len(sections))
        self.runs_on = config.interleave > 1
        self.before = 0 if self.runs_on else sum(i < loop for i in registered)
        """Registers before the loop, in which blocks wait for it."""
        self.after = config.latency - self.before
        self.capacity = capacity(config)
        self.interval = config.interval
        every = config.accumulator.promotes_every
        self.group = max(1, every // config.lanes) if every else 0
        """Blocks after which the loop starts afresh; 0 for never."""
        self.reset()

    def reset(self) -> None:
        self.entries: deque[int] = deque()  # of blocks that may still wait for the loop
        self.last = LONG_AGO
        """Cycle in which the last block entered the loop; per slot the cycle, and blocks of its
        product so far."""
        self.entered: dict[int, int] = {}
        self.places: dict[int, int] = {}
        self.due: deque[int] = deque()  # when results come

    def entry(self, now: int, first: bool) -> int:
        """Cycle in which a block accepted now enters the loop."""
        slot = self.slot()
        place = 0 if first else self.places.get(slot, 0)
        chained = place % self.group if self.group else not first
        own = self.entered.get(slot, LONG_AGO) + self.interval if chained else LONG_AGO
        return max(now + self.before, self.last + 1, own)

    def full(self, now: int) -> bool:
        """True when there is no room for another result of products in flight."""
        # The place of a result that is taken is free in the next cycle.
        return self.runs_on and len(self.due) + (self.taken == now) == self.capacity

    def lacks_room(self, now: int, first: bool) -> bool:
        """True for a block whose slot is ready for it, when there is no room."""
        return self.full(now) and self.entry(now, first) == now

    def must_accept(self, now: int, first: bool) -> bool:
        """True when the unit has room for this block now."""
        if self.full(now):
            return False
        if self.before == 0:
            return self.entry(now, first) == now
        while self.entries and self.entries[0] < now:
            self.entries.popleft()
        return len(self.entries) < self.before or self.entries[0] == now

    def accept(self, now: int, first: bool, last: bool) -> None:
        entry, slot = self.entry(now, first), self.slot()
        self.places[slot] = 1 if first else self.places.get(slot, 0) + 1
        self.entered[slot] = self.last = entry
        if self.before:
            self.entries.append(entry)
        if last:
            self.due.append(entry + self.after)


class Sent(Assembler):
    """Dot products of the accepted blocks."""

    def __init__(self, pins: DotPins) -> None:
        self.pins = pins
        self.reset()

    def reset(self) -> None:
        self.begun: dict[int, Product] = {}

    def beat(self) -> Product | None:
        pins, slot = self.pins, self.pins.slot()
        block = tuple(int(pin.value) for pin in pins.block)
        if int(pins.in_first.value):
            c = 0 if pins.in_c is None else int(pins.in_c.value)
            self.begun[slot] = Product(pins.mode(), c, (), slot)
        product = self.begun[slot]
        self.begun[slot] = product = replace(product, blocks=(*product.blocks, block))
        return product if int(pins.in_last.value) else None


class Delivered(Assembler):
    """(result, flags) of each beat, and the slot where there are several."""

    def __init__(self, payload: Callable[[], tuple[int, ...]]) -> None:
        self.payload = payload

    def reset(self) -> None: ...

    def beat(self) -> tuple[int, ...]:
        return self.payload()


def slot_goals(config: DotConfig) -> Goals:
    """The bins of slots that `config` can hit."""
    if config.interleave == 1:
        return {}
    slots = list(range(config.interleave))
    # A block that begins a partial sum waits for none.
    chains = config.interval == 1 or config.accumulator.promotes_every is not None
    return {
        "slot": slots,
        "next_block": [APART, NEXT] + [CHAINED] * chains,
        "end": ["alone", "while others run"],
        "order_of_results": ["as begun", "before an older product"],
        "begins": ["where one has ended", "where a reset has cut one"],
        "waits_for_room": [FIRST, LATER],
    }


class Slots(Watcher):
    """Coverage of dot products in flight together. slot: of the beat on the pins."""

    def __init__(self, slot: Callable[[], int], goals: Goals) -> None:
        self.slot, self.goals = slot, goals
        self.begun: dict[int, int] = {}  # by slot, when its product began: in products
        self.reset()

    def reset(self) -> None:
        self.cut = set(self.begun)
        self.begun = {}
        self.products = 0
        self.last = -1  # the slot of the block before

    def accept(self, first: bool, last: bool, at_once: bool) -> Bins:
        slot = self.slot()
        bins: dict[str, set[object]] = {"slot": {slot}}
        if at_once:
            bins["next_block"] = {APART if slot != self.last else NEXT if first else CHAINED}
        if first:
            cut = slot in self.cut
            bins["begins"] = {"where a reset has cut one" if cut else "where one has ended"}
            self.cut.discard(slot)
            self.begun[slot] = self.products
            self.products += 1
        if last:
            began = self.begun.pop(slot)
            bins["end"] = {"while others run" if self.begun else "alone"}
            older = any(other < began for other in self.begun.values())
            bins["order_of_results"] = {"before an older product" if older else "as begun"}
        self.last = slot
        return bins

    def wait(self, first: bool, for_room: bool) -> Bins:
        """A beat waits for room for a result, of any product, and not for its slot."""
        return {"waits_for_room": {FIRST if first else LATER}} if for_room else {}


def batches(job: UnitJob) -> list[Batch]:
    """Every sequence, and real tensors, which together reach every goal of the unit."""
    config: DotConfig = job.config
    made = traffic(config, job.rng("traffic"), job.traffic) + tensor_traffic(job, TENSOR_BLOCKS)
    return reaching(
        config, item, features, made, lambda i: traffic(config, job.rng(f"traffic {i}"), MORE)
    )


class DotSubject(Subject):
    """A `DotUnit`. Dot products in flight together are sent; an item is one of them, a beat a
    block."""

    config: DotConfig
    item, features = item, features

    def __init__(self, job: UnitJob, dut: Any) -> None:
        super().__init__(job, dut)
        self.pins = DotPins(dut, job.config)

    @property
    def capacity(self) -> int:
        return capacity(self.config)

    @property
    def held_beats(self) -> int:
        return self.config.latency

    def traffic(self) -> list[Bundle]:
        """Every sequence, and real tensors, in bundles."""
        items = [item for batch in batches(self.job) for item in products(self.config, batch)]
        return bundles(items, self.config.interleave, self.job.rng("bundles"))

    def beats(self, item: Bundle) -> int:
        return len(item.order)

    def drive(self, item: Bundle, index: int, rng: Random) -> None:
        place, block = item.order[index]
        self.pins.drive(item.products[place], block, rng)

    def marks(self) -> tuple[bool, bool]:
        return self.pins.marks()

    def payload(self) -> tuple[int, ...]:
        return self.pins.result()

    def sent(self) -> Sent:
        return Sent(self.pins)

    def delivered(self, payload: Callable[[], tuple[int, ...]]) -> Delivered:
        return Delivered(payload)

    def timeline(self) -> Timeline:
        return Timeline(self.config, self.pins.slot)

    def watcher(self) -> Watcher:
        if not self.config.slot_bits:
            return Watcher()
        return Slots(self.pins.slot, slot_goals(self.config))

    def group(self, item: Product) -> tuple[int, int]:
        return item.mode, len(item.blocks)

    def result(self, outcome: DotResults, row: int, item: Product) -> tuple[int, ...]:
        slot = [item.slot] if self.config.slot_bits else []
        return int(outcome.result[row]), int(outcome.flags[row]), *slot
