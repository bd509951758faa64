"""The quantiser as a subject: its pins, blocks beat by beat, and the times of their codes."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from ...model import QuantizeConfig
from ..bench import subject
from ..bench.subject import MORE, Assembler, Subject, any_alias, reaching
from ..engine.job import UnitJob
from . import features, item
from .choices import trials
from .item import Batch, Beat, Block, CodesBeat, QuantizeResults, blocks, result
from .stimulus import traffic


class QuantizePins(subject.Pins):
    """The unit's pins by name; None for optional pins that the unit has not."""

    def __init__(self, dut: Any, config: QuantizeConfig) -> None:
        super().__init__(dut)
        self.in_values = dut.in_values
        self.in_random = dut.in_random if config.word_bits else None
        self.in_mode = dut.in_mode if config.mode_bits else None
        self.in_rule = dut.in_rule if config.rule_bits else None
        self.in_outer = dut.in_outer if config.outer_bits else None
        self.micro_at = config.lanes * config.bits
        self.mode_at = self.micro_at + config.micro_bits
        self.out_micro = dut.out_micro if config.micro_bits else None
        self.out_mode = dut.out_mode if config.selector_bits else None
        self.out_codes, self.out_scale = dut.out_codes, dut.out_scale
        self.out_last = dut.out_last if config.beats > 1 else None

    def codes(self) -> CodesBeat:
        """The beat of codes on the pins; of a block of one beat it is the last."""
        last = 1 if self.out_last is None else int(self.out_last.value)
        micro = 0 if self.out_micro is None else int(self.out_micro.value)
        mode = 0 if self.out_mode is None else int(self.out_mode.value)
        codes = int(self.out_codes.value) | micro << self.micro_at | mode << self.mode_at
        return codes, int(self.out_scale.value), last


class Timeline(subject.Timeline):
    """A beat enters in every cycle, and a beat of codes leaves, after those of the block before."""

    def __init__(self, config: QuantizeConfig) -> None:
        self.beats, self.latency = config.beats, config.latency
        self.after = config.latency + config.beats
        self.reset()

    def reset(self) -> None:
        self.due: deque[int] = deque()
        self.previous = -1
        self.place = 0  # beats of the block so far

    def must_accept(self, now: int, first: bool) -> bool:
        return True

    def accept(self, now: int, first: bool, last: bool) -> None:
        self.place = (self.place + 1) % self.beats
        if last:
            for _ in range(self.beats):
                self.previous = max(self.previous + 1, now + self.latency)
                self.due.append(self.previous)


class Sent(Assembler):
    """Blocks of the accepted beats, numbered from the reset."""

    def __init__(self, pins: QuantizePins, config: QuantizeConfig) -> None:
        self.pins, self.count = pins, config.beats
        self.modes, self.rules = config.modes, len(config.scale_rules)
        self.reset()

    def reset(self) -> None:
        self.beats: list[Beat] = []
        self.number = 0

    def beat(self) -> Block | None:
        pins = self.pins
        word = 0 if pins.in_random is None else int(pins.in_random.value)
        self.beats.append((int(pins.in_values.value), word))
        if len(self.beats) < self.count:
            return None
        mode = 0 if pins.in_mode is None else min(int(pins.in_mode.value), self.modes - 1)
        rule = 0 if pins.in_rule is None else min(int(pins.in_rule.value), self.rules - 1)
        outer = 0 if pins.in_outer is None else int(pins.in_outer.value)
        block = Block(mode, rule, tuple(self.beats), self.number, outer)
        self.beats, self.number = [], self.number + 1
        return block


class Delivered(Assembler):
    """The beats of codes of each block."""

    def __init__(self, codes: Callable[[], tuple[int, ...]], count: int) -> None:
        """codes: reads the beat of codes on the pins. count: beats of a block."""
        self.codes, self.count = codes, count
        self.reset()

    def reset(self) -> None:
        self.beats: list[tuple[int, ...]] = []

    def beat(self) -> list[tuple[int, ...]] | None:
        self.beats.append(self.codes())
        if len(self.beats) < self.count:
            return None
        beats, self.beats = self.beats, []
        return beats


def batches(job: UnitJob) -> list[Batch]:
    """Every sequence; together they reach every goal of the unit."""
    config: QuantizeConfig = job.config
    made = traffic(config, job.rng("traffic"), job.traffic)

    def more(number: int) -> list[Batch]:
        return traffic(config, job.rng(f"traffic {number}"), MORE) + trials(config)

    return reaching(config, item, features, made, more)


class QuantizeSubject(Subject):
    """A `QuantizeUnit`; an item is a block."""

    config: QuantizeConfig
    item, features = item, features

    def __init__(self, job: UnitJob, dut: Any) -> None:
        super().__init__(job, dut)
        self.pins = QuantizePins(dut, job.config)
        self.line = Timeline(job.config)

    @property
    def capacity(self) -> int:
        """A block in each register, and one of several beats in the ring."""
        return self.config.latency + 1

    @property
    def held_beats(self) -> int:
        """A beat in each register; several beats of a block also wait in the ring."""
        return self.config.latency + self.has_several_beats * self.config.beats

    @property
    def has_several_beats(self) -> bool:
        return self.config.beats > 1

    def traffic(self) -> list[Block]:
        return [block for batch in batches(self.job) for block in blocks(self.config, batch)]

    def beats(self, item: Block) -> int:
        return len(item.beats)

    def drive(self, item: Block, index: int, rng: Random) -> None:
        """Put a beat on the pins; inputs of a block count with its last beat, else are noise."""
        pins, last = self.pins, index == len(item.beats) - 1
        pins.in_values.value, word = item.beats[index]
        if pins.in_random is not None:
            pins.in_random.value = word
        for pin, choice in (
            (pins.in_mode, any_alias(item.mode, self.config.modes, rng)),
            (pins.in_rule, any_alias(item.rule, len(self.config.scale_rules), rng)),
            (pins.in_outer, item.outer),
        ):
            if pin is not None:
                pin.value = choice if last else rng.getrandbits(len(pin))

    def marks(self) -> tuple[bool, bool]:
        """Two booleans, by the count of beats since the reset."""
        place = self.line.place
        return place == 0, place == self.config.beats - 1

    def payload(self) -> CodesBeat:
        return self.pins.codes()

    def sent(self) -> Sent:
        return Sent(self.pins, self.config)

    def delivered(self, payload: Callable[[], tuple[int, ...]]) -> Delivered:
        return Delivered(payload, self.config.beats)

    def timeline(self) -> Timeline:
        return self.line

    def group(self, item: Block) -> tuple[int, int]:
        return item.mode, item.rule

    def result(self, outcome: QuantizeResults, row: int, item: object) -> list[CodesBeat]:
        return result(self.config, outcome, row)
