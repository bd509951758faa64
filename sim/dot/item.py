"""Dot products as data: what sequences make, monitors see, bulk records hold and models predict."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import DotConfig, MXArray
from ...model.formats.codes import code_dtype
from ...model.integers import integer_dot
from ...model.packing import pack_rows, unpack_rows
from ...model.trace import FLAG_NAMES, Trace

Ints = NDArray[np.int64]

IN_TURN = 0.8
"""Share of blocks that come in the slot after the last one."""


class Turns(NamedTuple):
    """The blocks of products in the order in which they are sent.

    place, step (blocks,): the place of each block's product, and the block's own place in it. slot:
    (products,).
    """

    place: Ints
    step: Ints
    slot: Ints

    @classmethod
    def one_by_one(cls, lengths: Ints) -> Self:
        """Products of these numbers of blocks, one after the other."""
        ends = np.cumsum(lengths)
        place = np.repeat(np.arange(len(lengths)), lengths)
        step = np.arange(len(place)) - np.repeat(ends - lengths, lengths)
        return cls(place, step, np.zeros(len(lengths), np.int64))

    @classmethod
    def mixed(cls, lengths: Ints, slots: int, rng: Generator) -> Self:
        """Products each in the next free slot; slots take turns, and sometimes any slot has one."""
        if slots == 1:
            return cls.one_by_one(lengths)
        wanted = lengths.tolist()
        slot_of: list[int] = []
        sent: list[tuple[int, int]] = []
        open_in: dict[int, tuple[int, int]] = {}  # slot: product and block that come next
        slot = 0
        while len(slot_of) < len(wanted) or open_in:
            slot = (slot + 1) % slots if rng.random() < IN_TURN else int(rng.integers(slots))
            if slot not in open_in and len(slot_of) < len(wanted):
                open_in[slot] = len(slot_of), 0
                slot_of.append(slot)
            if slot in open_in:
                place, step = open_in.pop(slot)
                sent.append((place, step))
                if step + 1 < wanted[place]:
                    open_in[slot] = place, step + 1
        place, step = np.array(sent, np.int64).T
        return cls(place, step, np.array(slot_of, np.int64))

    def by_end(self) -> tuple[Ints, Self]:
        """Places of products in the order of their last blocks, which is that of results,
        (products,).

        Also the turns of products that are numbered in that order.
        """
        last = np.zeros(len(self.slot), np.int64)
        np.maximum.at(last, self.place, np.arange(len(self.place)))
        order = np.argsort(last)
        return order, self._replace(place=np.argsort(order)[self.place], slot=self.slot[order])


@dataclass(frozen=True)
class Batch:
    """n dot products of one mode and one number of blocks.

    a, b: element codes (n, blocks, lanes). scale_a, scale_b: uint8 (n, blocks), with an axis more
    where a beat has several; has_unit_scales: whether they are in the unit's format, or E8M0's for
    whole beats. c: uint32 float32 or INT32 bits (n,). mode: index into the unit's formats.
    sequence: who made them. side: uint64 bits (n, blocks) of each of the unit's side inputs, by
    name.
    """

    mode: int
    a: NDArray
    b: NDArray
    scale_a: NDArray[np.uint8]
    scale_b: NDArray[np.uint8]
    c: NDArray[np.uint32]
    sequence: str = ""
    side: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    has_unit_scales: bool = False

    def __len__(self) -> int:
        return len(self.c)

    @property
    def blocks(self) -> int:
        return self.a.shape[1]

    def take(self, rows: NDArray | slice) -> "Batch":
        names = ("a", "b", "scale_a", "scale_b", "c")
        side = {name: bits[rows] for name, bits in self.side.items()}
        return replace(self, **{name: getattr(self, name)[rows] for name in names}, side=side)


@dataclass(frozen=True)
class Product:
    """One dot product as pins carry it.

    blocks: (a, b, scale_a, scale_b) and the unit's side inputs of each, element 0 lowest. slot: its
    place among the dot products in flight.
    """

    mode: int
    c: int
    blocks: tuple[tuple[int, ...], ...]
    slot: int = 0


@dataclass(frozen=True)
class Bundle:
    """Dot products in flight together, each in a slot of its own.

    order: the place of a product and of one of its blocks for every beat.
    """

    products: tuple[Product, ...]
    order: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, items: Sequence[Product], slots: int, rng: Generator) -> "Bundle":
        """The products in their order, mixed by `Turns.mixed`."""
        lengths = np.array([len(item.blocks) for item in items])
        turns = Turns.mixed(lengths, slots, rng)
        order = zip(turns.place.tolist(), turns.step.tolist(), strict=True)
        placed = zip(items, turns.slot.tolist(), strict=True)
        return cls(tuple(replace(item, slot=slot) for item, slot in placed), tuple(order))


def bundles(items: Sequence[Product], slots: int, rng: Generator) -> list[Bundle]:
    """All products in bundles of random size, up to four times the number of slots."""
    if slots == 1:
        return [Bundle.of([item], 1, rng) for item in items]
    items = [items[i] for i in rng.permutation(len(items))]  # of all sequences
    made = []
    while items:
        size = int(rng.integers(1, 4 * slots))
        made.append(Bundle.of(items[:size], slots, rng))
        items = items[size:]
    return made


@dataclass(frozen=True)
class DotResults:
    """Results (n,): `result` uint32 output bits, `flags` uint8 with FLAG_NAMES[i] in bit i."""

    result: NDArray[np.uint32]
    flags: NDArray[np.uint8]


def concatenate(batches: Iterable[Batch]) -> list[Batch]:
    """Batches joined to one per mode and number of blocks."""
    groups: dict[tuple[int, int], list[Batch]] = {}
    for batch in batches:
        if len(batch):
            groups.setdefault((batch.mode, batch.blocks), []).append(batch)
    names = ("a", "b", "scale_a", "scale_b", "c")
    return [
        replace(
            parts[0],
            **{k: np.concatenate([getattr(p, k) for p in parts]) for k in names},
            side={k: np.concatenate([p.side[k] for p in parts]) for k in parts[0].side},
        )
        for parts in groups.values()
    ]


def outcome(config: DotConfig, trace: Trace) -> DotResults:
    """The bits of a Trace of n dot products, as the unit's pins carry them."""
    word = np.uint16 if trace.result.itemsize == 2 else np.uint32
    result = np.ascontiguousarray(trace.result).view(word).astype(np.uint32)
    result &= np.uint32(2**config.out.bits - 1)
    flags = np.zeros(result.shape, np.uint8)
    if config.status:
        for bit, name in enumerate(FLAG_NAMES):
            flags |= getattr(trace.flags, name).astype(np.uint8) << np.uint8(bit)
    return DotResults(result, flags)


def model_trace(config: DotConfig, batch: Batch, stages: bool = False) -> Trace:
    """The golden model's trace of `batch`."""
    if config.has_integers:
        return _integer_trace(config, batch, stages)
    a, b = operands(config, batch)
    c = batch.c.view(np.float32) if config.load_c else None
    with np.errstate(invalid="ignore"):  # a signalling NaN in c
        return config.dot(a, b, c, stages=stages, micro=micro_of(config, batch))


def operands(config: DotConfig, batch: Batch) -> tuple[MXArray, MXArray]:
    """a and b of a batch as the model takes them, in blocks under one scale."""
    sides = []
    scales = batch.scale_a, batch.scale_b
    for codes, scale, fmt in zip(
        (batch.a, batch.b), scales, config.formats[batch.mode], strict=True
    ):
        # Of several formats the widest one's codes were read.
        rows = codes.astype(fmt.dtype).reshape(len(batch), -1)
        sides.append(MXArray(rows, scale.reshape(len(batch), -1), fmt, config.scale_block))
    return sides[0], sides[1]


def micro_of(config: DotConfig, batch: Batch) -> tuple[NDArray, NDArray] | None:
    """Micro-exponents of a and b, (n, elements / 2), as the model takes them; None without."""
    if not config.micro:
        return None
    return micro_bits(config, batch, "micro_a"), micro_bits(config, batch, "micro_b")


def micro_bits(config: DotConfig, batch: Batch, name: str) -> NDArray[np.uint8]:
    """The micro-exponents of an operand, (n, elements / 2)."""
    pairs = np.arange(config.lanes // 2, dtype=np.uint64)
    bits = batch.side[name][..., None] >> pairs & np.uint64(1)
    return bits.astype(np.uint8).reshape(len(batch), -1)


def _integer_trace(config: DotConfig, batch: Batch, stages: bool) -> Trace:
    inputs: dict[str, NDArray] = {}
    if config.scale_bits:
        inputs |= {"scale_a": batch.scale_a, "scale_b": batch.scale_b}
    for name, width in config.side_inputs.items():
        bits = batch.side[name].astype(np.int64)
        if config.is_signed(name):
            bits = bits - ((bits >> (width - 1)) << width)
        inputs[name] = bits if name in ("zero_a", "zero_b") else bits[:, -1]
    if "result_scale" in inputs:
        inputs["result_scale"] = inputs["result_scale"].astype(np.uint32).view(np.float32)
    c = batch.c.view(np.int32) if config.load_c else 0
    return integer_dot(config, batch.a, batch.b, c, inputs=inputs, stages=stages)


def predict(config: DotConfig, batch: Batch) -> DotResults:
    """The golden model's results for `batch`."""
    return outcome(config, model_trace(config, batch))


def products(config: DotConfig, batch: Batch) -> list[Product]:
    """The dot products of `batch` as pins carry them."""
    words_a, words_b = _words(batch.a, config.bits_a), _words(batch.b, config.bits_b)
    scales_a, scales_b = _scales(config, batch.scale_a), _scales(config, batch.scale_b)
    side = [batch.side[name].tolist() for name in config.side_inputs]
    return [
        Product(batch.mode, c, tuple(zip(*words, strict=True)))
        for c, *words in zip(
            batch.c.tolist(), words_a, words_b, scales_a, scales_b, *side, strict=True
        )
    ]


def plain(product: Product) -> dict[str, Any]:
    """The product as plain values of JSON."""
    blocks = [list(block) for block in product.blocks]
    return {"mode": product.mode, "c": product.c, "blocks": blocks, "slot": product.slot}


def product_of(values: Mapping[str, Any]) -> Product:
    """The product that `plain` made."""
    blocks = tuple(map(tuple, values["blocks"]))
    return Product(values["mode"], values["c"], blocks, values.get("slot", 0))


def batch_of(config: DotConfig, items: Sequence[Product]) -> Batch:
    """The batch of products of one mode and one number of blocks."""
    lanes = config.lanes
    blocks = [item.blocks for item in items]
    scale_a, scale_b = (
        np.stack([_scale_codes(config, [block[place] for block in row]) for row in blocks])
        for place in (2, 3)
    )
    side = np.array([[block[4:] for block in row] for row in blocks], np.uint64)
    return Batch(
        items[0].mode,
        np.stack([_codes([word for word, *_ in row], config.bits_a, lanes) for row in blocks]),
        np.stack([_codes([word for _, word, *_ in row], config.bits_b, lanes) for row in blocks]),
        scale_a,
        scale_b,
        np.array([item.c for item in items], np.uint32),
        side={name: side[..., index] for index, name in enumerate(config.side_inputs)},
        has_unit_scales=True,
    )


def _scales(config: DotConfig, codes: NDArray[np.uint8]) -> list[list[int]]:
    """The scales of each block as pins carry them."""
    return codes.tolist() if codes.ndim == 2 else _words(codes, config.scale_bits)


def _scale_codes(config: DotConfig, words: Sequence[int]) -> NDArray[np.uint8]:
    """The inverse for one row."""
    if config.scale_blocks == 1:
        return np.array(words, np.uint8)
    return _codes(words, config.scale_bits, config.scale_blocks)


def _words(codes: NDArray, width: int) -> list[list[int]]:
    """Codes (n, blocks, lanes) packed into one integer per block."""
    rows = pack_rows(codes.reshape(-1, codes.shape[-1]), width)
    packed = rows.reshape(*codes.shape[:2], rows.shape[-1])
    return [[int.from_bytes(word.tobytes(), "little") for word in row] for row in packed]


def _codes(words: Sequence[int], width: int, lanes: int) -> NDArray:
    """The inverse of `_words` for one row: (blocks, lanes)."""
    size = (width * lanes + 7) // 8
    packed = np.frombuffer(b"".join(word.to_bytes(size, "little") for word in words), np.uint8)
    codes = unpack_rows(packed.reshape(len(words), size), width, lanes)
    return codes.astype(code_dtype(width), copy=False)
