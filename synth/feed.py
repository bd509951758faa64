"""Dot products of a data set, and how a unit's netlist takes them, cycle by cycle."""

from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..model import DotConfig
from ..sim.dot.integer_stimulus import calibrated_batch
from ..sim.dot.item import Batch, Ints, Turns, concatenate
from ..sim.dot.tensors import quantized
from ..util.data.sets import data_set
from .activity import Activity, Words, pack, unpack

Bits = NDArray[np.bool_]
NORMAL = "normal"
REGRESSION = "regression"
"""Name of the regression's traffic; every other name is a data set."""
BLOCKS = 8
"""Blocks per dot product of a data set."""


def batches(config: DotConfig, data: str, seed: int, count: int) -> list[Batch]:
    """About `count` blocks as dot products, from the regression's traffic or from a data set."""
    rng = np.random.default_rng(seed)
    if data == REGRESSION:
        from ..sim.dot.stimulus import traffic

        return concatenate(traffic(config, rng, count // 2))
    draw = data_set(data).draw
    modes = len(config.formats)
    found = []
    for mode, formats in enumerate(config.formats):
        rows = max(1, count // (BLOCKS * modes))
        operands = draw(rng, rows, BLOCKS * config.lanes, config.lanes)
        (a, scale_a), (b, scale_b) = (
            quantized(config, x, fmt) for x, fmt in zip(operands, formats, strict=True)
        )
        c = np.zeros(rows, np.uint32)
        batch = Batch(mode, a, b, scale_a, scale_b, c, data, has_unit_scales=True)
        if config.has_integers:
            batch = calibrated_batch(config, batch)
        elif config.micro:  # as quantised without them
            none = np.zeros((rows, BLOCKS), np.uint64)
            batch = replace(batch, side=dict.fromkeys(config.side_inputs, none))
        found.append(batch)
    return found


class Feed:
    """Dot products dealt to streams, and the bits of the block that each stream offers next.

    Their order is drawn from `seed`. A stream holds whole products and starts again after its last.
    """

    def __init__(self, config: DotConfig, products: list[Batch], seed: int, streams: int) -> None:
        lengths = np.concatenate([np.full(len(batch), batch.blocks) for batch in products])
        ends = np.cumsum(lengths)
        starts = ends - lengths
        order = np.random.default_rng(seed).permutation(len(lengths))
        self.products = [order[stream::streams] for stream in range(streams)]
        """Products of each stream, as indices into all batches."""
        if not self.products[-1].size:
            raise ValueError(f"streams must be at most {len(order)}, not {streams}")
        slots = np.zeros(len(lengths), np.int64)
        queues = []
        for stream, own in enumerate(self.products):
            own = own[_shorter_first(lengths[own], config.interleave)]
            self.products[stream] = own
            slots[own] = np.arange(len(own)) % config.interleave
            place, step = _in_turns(lengths[own], config.interleave)
            queues.append(starts[own][place] + step)
        self._length = np.array([len(queue) for queue in queues])
        self._queues = np.stack([np.resize(queue, self._length.max()) for queue in queues])
        self._place = np.zeros(streams, np.int64)
        index = np.arange(ends[-1])
        self._fields = {
            "in_a": _lanes(products, "a", config.bits_a),
            "in_b": _lanes(products, "b", config.bits_b),
            "in_first": np.isin(index, starts)[:, None],
            "in_last": np.isin(index, ends - 1)[:, None],
        }
        if config.scale_bits:
            for name in ("scale_a", "scale_b"):
                self._fields[f"in_{name}"] = _lanes(products, name, config.scale_bits)
        for name, width in config.side_inputs.items():
            side = np.concatenate([batch.side[name].reshape(-1) for batch in products])
            self._fields[f"in_{name}"] = _bits(side, width)
        if config.load_c:
            c = np.concatenate([batch.c for batch in products])
            self._fields["in_c"] = _bits(np.repeat(c, lengths), 32)
        if config.slot_bits:
            self._fields["in_slot"] = _bits(np.repeat(slots, lengths), config.slot_bits)
        if config.mode_bits:
            mode = np.concatenate([np.full(len(batch), batch.mode) for batch in products])
            self._fields["in_mode"] = _bits(np.repeat(mode, lengths), config.mode_bits)

    def part(self, streams: int) -> "Feed":
        """The first `streams` of these, from their first block."""
        part = copy(self)
        part.products = self.products[:streams]
        part._length, part._queues = self._length[:streams], self._queues[:streams]
        part._place = np.zeros(streams, np.int64)
        return part

    def offer(self) -> dict[str, Bits]:
        """Bits (streams, width) of the offered blocks, by port."""
        index = np.take_along_axis(self._queues, self._place[:, None], axis=1)[:, 0]
        return {name: field[index] for name, field in self._fields.items()}

    def accept(self, taken: Bits) -> None:
        """Advance the streams whose block was taken."""
        self._place = (self._place + taken) % self._length


def _shorter_first(lengths: Ints, slots: int) -> Ints:
    """Send order of products with these block counts, as indices (n,).

    The order of `lengths` (n,) stays, except that shorter products of a group come first: their
    results come first.
    """
    return np.lexsort((lengths, np.arange(len(lengths)) // slots))


def _in_turns(lengths: Ints, slots: int) -> tuple[Ints, Ints]:
    """Send order of blocks when groups of `slots` products take turns.

    Returns each block's product and its place in the product, in send order.
    """
    place, step, _ = Turns.one_by_one(lengths)
    turn = np.lexsort((place, step, place // slots))
    return place[turn], step[turn]


def _blocks(products: list[Batch], name: str) -> NDArray:
    parts = [getattr(batch, name) for batch in products]
    return np.concatenate([part.reshape(-1, *part.shape[2:]) for part in parts])


def _lanes(products: list[Batch], name: str, width: int) -> Bits:
    codes = _blocks(products, name)
    return _bits(codes, width).reshape(len(codes), -1)


def _bits(values: NDArray, width: int) -> Bits:
    return (values[..., None] >> np.arange(width, dtype=values.dtype) & 1).astype(bool)


class Run:
    """A dot unit's netlist, fed with a stream of blocks as fast as it accepts them."""

    def __init__(self, config: DotConfig, activity: Activity, feed: Feed) -> None:
        self.config, self.activity, self.feed = config, activity, feed
        self.streams = activity.ones.bit_length()
        self.blocks = 0
        """Blocks accepted since the last `clear`, summed over streams."""
        self.inputs: list[dict[str, Bits]] = []
        """Bits (streams, width) of the input ports in each cycle; ports left out are 0."""
        self._offered: dict[str, Bits] = {}

    def reset(self) -> Words:
        """Run one cycle of reset and return the outputs."""
        return self._step({"rst": np.ones((self.streams, 1), bool)})

    def clear(self) -> None:
        """Start counting from 0."""
        self.activity.clear()
        self.blocks = 0

    def cycle(
        self,
        *,
        valid: bool = True,
        ready: bool = True,
        held: bool = False,
        zeros: bool = False,
    ) -> Words:
        """Run one cycle and return the outputs.

        Every stream offers a block if `valid` and takes a result if `ready`. held: the operands
        stay those of the cycle before. zeros: all elements are 0.
        """
        if not held:
            self._offered = self.feed.offer()
        offered = dict(self._offered)
        if zeros:
            offered |= {name: np.zeros_like(offered[name]) for name in ("in_a", "in_b")}
        level = {
            name: np.full((self.streams, 1), high)
            for name, high in (("in_valid", valid), ("out_ready", ready))
        }
        outputs = self._step(offered | level)
        taken = unpack(outputs["in_ready"], self.streams)[:, 0] & valid
        if held:
            return outputs
        self.feed.accept(taken if valid else np.ones(self.streams, bool))
        self.blocks += int(taken.sum())
        return outputs

    def _step(self, inputs: dict[str, Bits]) -> Words:
        self.inputs.append(inputs)
        return self.activity.cycle({name: pack(bits) for name, bits in inputs.items()})
