"""Blocks to quantise as data: what sequences make, pins carry and models predict."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model import QuantizeConfig
from ...model.lfsr import WORD_BITS

Beat = tuple[int, int]  # packed values and random words, lane 0 lowest
CodesBeat = tuple[int, int, int]
"""Packed codes with micro-exponents and the chosen format above them; scale; last."""


@dataclass(frozen=True)
class Batch:
    """n blocks of one mode and scale rule.

    bits: uint32 values (n, block). words: uint32 random words (n, block), zero in a unit that takes
    none from outside. number: of blocks since the reset (n,), for the words of shift registers.
    outer: uint32 bits of outer scales (n,), zero in a unit that takes none.
    mode, rule: indices into the unit's formats and scale rules. sequence: who made them.
    """

    mode: int
    rule: int
    bits: NDArray[np.uint32]
    words: NDArray[np.uint32]
    number: NDArray[np.int64]
    outer: NDArray[np.uint32]
    sequence: str = ""

    def __len__(self) -> int:
        return len(self.bits)

    def take(self, rows: NDArray | slice) -> "Batch":
        """The blocks of these rows."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})


COLUMNS = ("bits", "words", "number", "outer")


@dataclass(frozen=True)
class Block:
    """One block as pins carry it; `number` counts blocks since the reset, `outer` are bits."""

    mode: int
    rule: int
    beats: tuple[Beat, ...]
    number: int = 0
    outer: int = 0


@dataclass(frozen=True)
class QuantizeResults:
    """Codes uint8 (n, block), scales uint8 (n,), micro-exponents uint8 (n, block / 2) or (n, 0),
    and the formats that the unit chose, uint8 (n,), zero where it does not."""

    codes: NDArray[np.uint8]
    scale: NDArray[np.uint8]
    micro: NDArray[np.uint8]
    mode: NDArray[np.uint8]

    def take(self, rows: NDArray | slice) -> "QuantizeResults":
        return QuantizeResults(*(part[rows] for part in vars(self).values()))


def concatenate(batches: Iterable[Batch]) -> list[Batch]:
    """Batches joined to one for each mode and scale rule."""
    groups: dict[tuple[int, int], list[Batch]] = {}
    for batch in batches:
        if len(batch):
            groups.setdefault((batch.mode, batch.rule), []).append(batch)
    return [
        replace(
            parts[0],
            **{name: np.concatenate([getattr(p, name) for p in parts]) for name in COLUMNS},
        )
        for parts in groups.values()
    ]


def values(config: QuantizeConfig, bits: NDArray[np.uint32]) -> NDArray[Any]:
    """Bits as floats of the unit's source, in their shape."""
    word = np.uint16 if config.source.bits == 16 else np.uint32
    return bits.astype(word).view(config.source.dtype)


def magnitudes(config: QuantizeConfig, bits: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The magnitude of each finite value, 0 of others."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        wide = np.abs(values(config, bits).astype(np.float64))
    return np.where(np.isfinite(wide), wide, 0.0)


def largest_magnitudes(config: QuantizeConfig, bits: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The largest finite magnitude of each block."""
    return magnitudes(config, bits).max(axis=1)


def words_of(config: QuantizeConfig, batch: Batch) -> NDArray[np.uint32]:
    """The random words that the batch is rounded with."""
    if config.random != "lfsr" or not len(batch):
        return batch.words
    first = int(batch.number.min())
    made = config.random_words(int(batch.number.max()) - first + 1, first)
    return made[batch.number - first]


def predict(config: QuantizeConfig, batch: Batch) -> QuantizeResults:
    """The golden model's codes and scales for `batch`."""
    outer = batch.outer.view(np.float32)[:, None] if config.outer_bits else None
    with np.errstate(invalid="ignore"):  # signalling NaN
        made = config.quantize(
            values(config, batch.bits), words_of(config, batch), batch.mode, batch.rule, outer
        )
    scales = made.level_scales[int(config.divides)][:, 0]
    micro = made.level_scales[1] if config.micro else np.zeros((len(batch), 0), np.uint8)
    mode = np.zeros_like(scales) if made.selectors is None else made.selectors[:, 0]
    return QuantizeResults(made.codes, scales, micro, mode)


def blocks(config: QuantizeConfig, batch: Batch) -> list[Block]:
    """The blocks of `batch` as pins carry them."""
    shape = (len(batch), config.beats, config.lanes)
    packed = [
        _pack(batch.bits.reshape(shape), config.source.bits),
        _pack(batch.words.reshape(shape), WORD_BITS),
    ]
    once = batch.number.tolist(), batch.outer.tolist()
    return [
        Block(batch.mode, batch.rule, tuple(zip(*row, strict=True)), number, outer)
        for *row, number, outer in zip(*packed, *once, strict=True)
    ]


def plain(block: Block) -> dict[str, Any]:
    """The block as plain values of JSON."""
    beats = [list(beat) for beat in block.beats]
    return {**vars(block), "beats": beats}


def block_of(values: Mapping[str, Any]) -> Block:
    """The block that `plain` made."""
    return Block(**{**values, "beats": tuple(map(tuple, values["beats"]))})


def batch_of(config: QuantizeConfig, items: Sequence[Block]) -> Batch:
    """The batch of blocks of one mode and scale rule."""
    columns = [
        [_unpack([beat[i] for beat in item.beats], width, config.lanes) for item in items]
        for i, width in enumerate((config.source.bits, WORD_BITS))
    ]
    bits, words = (np.array(column, np.uint32) for column in columns)
    numbers = np.array([item.number for item in items], np.int64)
    outer = np.array([item.outer for item in items], np.uint32)
    return Batch(items[0].mode, items[0].rule, bits, words, numbers, outer)


def words(config: QuantizeConfig, outcome: QuantizeResults) -> NDArray[np.uint32]:
    """Blocks of codes as bench tops write them, (n, words).

    Each beat has its codes (lane 0 in the lowest bits), its micro-exponents and the chosen format
    in whole words, then a word with the scale in bits 0 to 7 and `last` in bit 8.
    """
    shape = (len(outcome.scale), config.beats, config.lanes)
    bits = np.unpackbits(
        outcome.codes.reshape(*shape, 1), axis=-1, count=config.bits, bitorder="little"
    )
    micro = outcome.micro.reshape(*shape[:2], -1)
    mode = np.unpackbits(
        outcome.mode[:, None, None], axis=-1, count=config.selector_bits, bitorder="little"
    )
    mode = np.broadcast_to(mode, (*shape[:2], config.selector_bits))
    bits = np.concatenate([bits.reshape(*shape[:2], -1), micro, mode], axis=-1)
    packed = np.packbits(bits, axis=-1, bitorder="little")
    packed = np.pad(packed, ((0, 0), (0, 0), (0, -packed.shape[2] % 4))).view("<u4")
    last = np.arange(config.beats) == config.beats - 1
    marks = outcome.scale[:, None].astype(np.uint32) | last.astype(np.uint32) << np.uint32(8)
    return np.concatenate([packed, marks[..., None]], axis=2).reshape(shape[0], -1)


def codes_beats(config: QuantizeConfig, words: NDArray[np.uint32]) -> list[CodesBeat]:
    """A row of `words` as the unit's pins give it, beat by beat."""
    beats = words.astype("<u4").reshape(config.beats, -1)
    codes = [int.from_bytes(beat.tobytes(), "little") for beat in beats[:, :-1]]
    marks = beats[:, -1].tolist()
    return [(word, mark & 0xFF, mark >> 8) for word, mark in zip(codes, marks, strict=True)]


def result(config: QuantizeConfig, outcome: QuantizeResults, row: int) -> list[CodesBeat]:
    """A block of codes, beat by beat."""
    return codes_beats(config, words(config, outcome.take(slice(row, row + 1)))[0])


def _pack(numbers: NDArray, width: int) -> list[list[int]]:
    """(n, beats, lanes) numbers, each beat as one integer."""
    size = numbers.dtype.itemsize
    raw = np.ascontiguousarray(numbers).view(np.uint8).reshape(*numbers.shape, size)
    bits = np.unpackbits(raw, axis=-1, count=width, bitorder="little")
    packed = np.packbits(bits.reshape(*numbers.shape[:2], -1), axis=-1, bitorder="little")
    return [[int.from_bytes(word.tobytes(), "little") for word in row] for row in packed]


def _unpack(packed: Sequence[int], width: int, lanes: int) -> list[int]:
    """The numbers of packed beats, one after the other."""
    return [word >> width * lane & 2**width - 1 for word in packed for lane in range(lanes)]
