"""A dot unit with a quantiser as a subject: its pins, dot products block by block, and codes."""

from collections.abc import Callable
from random import Random
from typing import Any

from ...model import DotQuantizeConfig
from ..bench import subject
from ..bench.subject import MORE, Assembler, Subject, reaching
from ..dot import subject as dot
from ..dot.item import Product
from ..dot.subject import DotPins
from ..engine.job import UnitJob
from ..quantize import subject as quantize
from ..quantize.item import CodesBeat, result
from . import features, item
from .item import Batch, Block, DotQuantizeResults, blocks
from .stimulus import traffic

TENSOR_BLOCKS = 1000


class DotQuantizePins(DotPins):
    """The dot unit's inputs, and a code with its scale."""

    def __init__(self, dut: Any, config: DotQuantizeConfig) -> None:
        super().__init__(dut, config.dot)
        self.out_code, self.out_scale, self.out_last = dut.out_code, dut.out_scale, dut.out_last

    def codes(self) -> CodesBeat:
        """Code, scale and last on the pins."""
        return int(self.out_code.value), int(self.out_scale.value), int(self.out_last.value)


class Timeline(subject.Timeline):
    """Results enter the quantiser when they leave the dot unit: it always has room."""

    def __init__(self, config: DotQuantizeConfig, ends: Callable[[], tuple[bool, bool]]) -> None:
        """ends: two booleans, whether the beat is the first, and the last, of its dot product."""
        self.ends, self.block = ends, config.quantizer.block
        self.dot, self.codes = dot.Timeline(config.dot), quantize.Timeline(config.quantizer)
        self.before, self.interval = self.dot.before, self.dot.interval
        self.after = self.dot.after + self.codes.after
        self.reset()

    def reset(self) -> None:
        self.dot.reset()
        self.codes.reset()
        self.due = self.codes.due

    def marks(self) -> tuple[bool, bool]:
        """Two booleans: the beat is the first, and the last, of a block of dot products."""
        first, last = self.ends()
        return first and self.codes.place == 0, last and self.codes.place == self.block - 1

    def must_accept(self, now: int, first: bool) -> bool:
        """True when the dot unit has room; a dot product counts, not the block of them."""
        return self.dot.must_accept(now, self.ends()[0])

    def accept(self, now: int, first: bool, last: bool) -> None:
        """The last beat of a dot product leads to a beat of the quantiser."""
        starts, finishes = self.ends()
        self.dot.accept(now, starts, finishes)
        if finishes:
            self.codes.accept(self.dot.due.popleft(), first, last)


class Sent(Assembler):
    """Blocks of the accepted dot products, numbered from the reset."""

    def __init__(self, pins: DotQuantizePins, block: int) -> None:
        self.product, self.block = dot.Sent(pins), block
        self.reset()

    def reset(self) -> None:
        self.product.reset()
        self.products: list[Product] = []
        self.number = 0

    def beat(self) -> Block | None:
        product = self.product.beat()
        self.products += [] if product is None else [product]
        if len(self.products) < self.block:
            return None
        block = Block(tuple(self.products), self.number)
        self.products, self.number = [], self.number + 1
        return block


def batches(job: UnitJob) -> list[Batch]:
    """Every sequence, and real tensors, which together reach every goal of the unit."""
    made = [traffic(job, "traffic", job.traffic, TENSOR_BLOCKS)]
    return reaching(
        job.config,
        item,
        features,
        made,
        lambda i: [traffic(job, f"traffic {i}", MORE, TENSOR_BLOCKS)],
    )


class DotQuantizeSubject(Subject):
    """A `DotQuantizeUnit`; an item is a block of dot products, a beat a block of one of them."""

    config: DotQuantizeConfig
    item, features = item, features

    def __init__(self, job: UnitJob, dut: Any) -> None:
        super().__init__(job, dut)
        self.pins = DotQuantizePins(dut, job.config)
        self.line = Timeline(job.config, self.pins.marks)

    @property
    def capacity(self) -> int:
        """A result in each register and in each place of the ring, one of the oldest block."""
        block = self.config.quantizer.block
        return -(-(self.config.latency + block) // block)

    @property
    def held_beats(self) -> int:
        """A beat in each register and in each place of the ring."""
        return self.config.latency + self.config.quantizer.block

    def traffic(self) -> list[Block]:
        return [block for batch in batches(self.job) for block in blocks(self.config, batch)]

    def beats(self, item: Block) -> int:
        return sum(len(product.blocks) for product in item.products)

    def drive(self, item: Block, index: int, rng: Random) -> None:
        for product in item.products:
            if index < len(product.blocks):
                self.pins.drive(product, index, rng)
                return
            index -= len(product.blocks)

    def marks(self) -> tuple[bool, bool]:
        """Two booleans, by the count of dot products since the reset."""
        return self.line.marks()

    def payload(self) -> CodesBeat:
        return self.pins.codes()

    def sent(self) -> Sent:
        return Sent(self.pins, self.config.quantizer.block)

    def delivered(self, payload: Callable[[], tuple[int, ...]]) -> quantize.Delivered:
        return quantize.Delivered(payload, self.config.quantizer.block)

    def timeline(self) -> Timeline:
        return self.line

    def group(self, item: Block) -> None: ...

    def result(self, outcome: DotQuantizeResults, row: int, item: object) -> list[CodesBeat]:
        return result(self.config.quantizer, outcome.codes, row)
