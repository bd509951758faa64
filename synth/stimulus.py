"""What a dot unit is fed while its activity is counted: blocks in the order of arrival."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..model import DotConfig
from ..sim.dot.integer_stimulus import calibrated_batch
from ..sim.dot.item import Batch, Ints, Turns, concatenate
from ..sim.dot.tensors import quantized
from ..util.data.sets import data_set

NORMAL = "normal"
REGRESSION = "regression"
"""The traffic of the regression; every other name is a data set of `compare.accuracy`."""
BLOCKS = 8
"""Blocks of one dot product of a data set."""


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
    """Dot products shared out among streams, and the bits of the block that each offers next.

    The products come in an order drawn from `seed`; every stream has whole ones, and begins again
    when it has offered all of them.
    """

    def __init__(self, config: DotConfig, products: list[Batch], seed: int, streams: int) -> None:
        lengths = np.concatenate([np.full(len(batch), batch.blocks) for batch in products])
        ends = np.cumsum(lengths)
        starts = ends - lengths
        order = np.random.default_rng(seed).permutation(len(lengths))
        self.products = [order[stream::streams] for stream in range(streams)]
        """For each stream its products, as numbered through all batches."""
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

    def offer(self) -> dict[str, NDArray[np.bool_]]:
        """For each port the bits (streams, width) of the blocks that are offered."""
        index = np.take_along_axis(self._queues, self._place[:, None], axis=1)[:, 0]
        return {name: field[index] for name, field in self._fields.items()}

    def accept(self, taken: NDArray[np.bool_]) -> None:
        """Go on to the next block in the streams whose block was taken."""
        self._place = (self._place + taken) % self._length


def _shorter_first(lengths: Ints, slots: int) -> Ints:
    """The order in which products of so many blocks are sent, as indices (n,): that of `lengths`
    (n,), but in a group the shorter ones, whose results come first, come first."""
    return np.lexsort((lengths, np.arange(len(lengths)) // slots))


def _in_turns(lengths: Ints, slots: int) -> tuple[Ints, Ints]:
    """Groups of as many products as there are slots, which take turns. Of all blocks in the order
    in which they are sent: the place of their product, and their own place in it."""
    place, step, _ = Turns.one_by_one(lengths)
    turn = np.lexsort((place, step, place // slots))
    return place[turn], step[turn]


def _blocks(products: list[Batch], name: str) -> NDArray:
    parts = [getattr(batch, name) for batch in products]
    return np.concatenate([part.reshape(-1, *part.shape[2:]) for part in parts])


def _lanes(products: list[Batch], name: str, width: int) -> NDArray[np.bool_]:
    codes = _blocks(products, name)
    return _bits(codes, width).reshape(len(codes), -1)


def _bits(values: NDArray, width: int) -> NDArray[np.bool_]:
    return (values[..., None] >> np.arange(width, dtype=values.dtype) & 1).astype(bool)
