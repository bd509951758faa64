"""Bulk mode of a quantiser: beats in a file, and what came of them.

A record is a beat. Its fields, each of whole bytes, from the last byte of the record to the first:
values (lane i in the bits from i * width on), random words, and a byte with the mode in bits 0 to 3
and the scale rule in bits 4 and 5. A result is a beat of codes: the codes in whole 32-bit words
(little-endian, lane i as above), then a word with the scale in bits 0 to 7 and `last` in bit 8.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...model import QuantizeConfig
from ...model.lfsr import WORD_BITS
from ..files import write_file
from .item import Batch, Outcome


def write_records(path: Path, config: QuantizeConfig, batches: list[Batch], order: NDArray) -> None:
    """The beats of all blocks, the blocks in the given order."""
    bits = np.concatenate([batch.bits for batch in batches])[order]
    choice = [np.full(len(batch), batch.mode | batch.rule << 4, np.uint8) for batch in batches]
    beats = (len(order) * config.beats, config.lanes)
    fields = [_bytes_of(bits.reshape(beats), config.source.bits)]
    if config.word_bits:
        words = np.concatenate([batch.words for batch in batches])[order]
        fields.append(_bytes_of(words.reshape(beats), WORD_BITS))
    fields.append(np.repeat(np.concatenate(choice)[order], config.beats)[:, None])
    # $fread fills a vector from its most significant byte on.
    write_file(path, np.concatenate(fields, axis=1)[:, ::-1].tobytes())


def read_results(path: Path, config: QuantizeConfig) -> tuple[Outcome, int]:
    """(codes and scales of the whole blocks, number of beats whose scale or last is wrong)."""
    words = (config.lanes * config.bits + 31) // 32 + 1
    rows = np.fromfile(path, np.dtype("<u4"))
    rows = rows[: len(rows) // (words * config.beats) * words * config.beats].reshape(-1, words)
    raw = np.ascontiguousarray(rows[:, :-1]).view(np.uint8)
    bits = np.unpackbits(raw, axis=1, count=config.lanes * config.bits, bitorder="little")
    codes = np.packbits(
        bits.reshape(len(rows), config.lanes, config.bits), axis=2, bitorder="little"
    )
    blocks = len(rows) // config.beats
    marks = rows[:, -1].reshape(blocks, config.beats)
    scale = (marks & 0xFF).astype(np.uint8)
    last = np.arange(config.beats) == config.beats - 1
    wrong = scale != scale[:, :1]
    if config.beats > 1:
        wrong |= (marks >> 8 & 1) != last
    return Outcome(codes.reshape(blocks, config.block), scale[:, 0]), int(wrong.sum())


def _bytes_of(numbers: NDArray[np.uint32], width: int) -> NDArray[np.uint8]:
    """(beats, lanes) numbers of 16 or 32 bits to (beats, bytes), least significant first."""
    narrow = np.ascontiguousarray(numbers.astype("<u2" if width == 16 else "<u4"))
    return narrow.view(np.uint8).reshape(len(numbers), -1)
