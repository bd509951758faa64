"""Bulk mode of a quantiser: beats in a file.

A record is a beat. Its fields, each of whole bytes, from the last byte of the record to the first:
values (lane i in the bits from i * width on), random words, the outer scale, and a byte with the
mode in bits 0 to 3 and the scale rule in bits 4 and 5. A result is a beat of codes, as `item.words`
has it.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...model import QuantizeConfig
from ...model.lfsr import WORD_BITS
from ...util.files import write_file
from ..bench.layout import Field, Layout, in_bytes, placed
from .item import Batch


def layout(config: QuantizeConfig) -> Layout:
    """Of a quantiser."""
    values = [("in_values", config.lanes * config.source.bits)]
    words = [("in_random", config.lanes * config.word_bits), ("in_outer", config.outer_bits)]
    inputs, size = in_bytes([*values, *words])
    mode = placed([("in_mode", config.mode_bits)], 8 * size)
    rule = placed([("in_rule", config.rule_bits)], 8 * size + 4)
    restarts = config.beats == 1 and config.random != "lfsr"
    return Layout(size + 1, inputs + mode + rule, *codes_layout(config), restarts)


def codes_layout(config: QuantizeConfig) -> tuple[int, tuple[Field, ...], str, tuple[int, ...]]:
    """What a beat of codes adds to a layout: words, outputs, no input that ends, ones."""
    outputs = [("out_codes", config.lanes * config.bits), ("out_micro", config.micro_bits)]
    outputs.append(("out_mode", config.selector_bits))
    codes = placed(outputs)
    words = (sum(width for _, width in outputs) + 31) // 32
    scale = placed([("out_scale", config.scale_bits)], 32 * words)
    last = placed([("out_last", 1)], 32 * words + 8)
    # A block of one beat has no such output: each beat is the last.
    return words + 1, codes + scale + last, "", (32 * words + 8,) * (config.beats == 1)


def write_records(
    path: Path, config: QuantizeConfig, batches: Sequence[Batch], order: NDArray[np.int64]
) -> None:
    """The beats of all blocks, the blocks in the given order."""
    bits = np.concatenate([batch.bits for batch in batches])[order]
    choice = [np.full(len(batch), batch.mode | batch.rule << 4, np.uint8) for batch in batches]
    beats = (len(order) * config.beats, config.lanes)
    fields = [_bytes_of(bits.reshape(beats), config.source.bits)]
    if config.word_bits:
        words = np.concatenate([batch.words for batch in batches])[order]
        fields.append(_bytes_of(words.reshape(beats), WORD_BITS))
    if config.outer_bits:
        outer = np.concatenate([batch.outer for batch in batches])[order]
        fields.append(_bytes_of(np.repeat(outer, config.beats)[:, None], config.outer_bits))
    fields.append(np.repeat(np.concatenate(choice)[order], config.beats)[:, None])
    # $fread fills a vector from its most significant byte on.
    write_file(path, np.concatenate(fields, axis=1)[:, ::-1].tobytes())


def _bytes_of(numbers: NDArray[np.uint32], width: int) -> NDArray[np.uint8]:
    """(beats, lanes) numbers of 16 or 32 bits to (beats, bytes), least significant first."""
    narrow = np.ascontiguousarray(numbers.astype("<u2" if width == 16 else "<u4"))
    return narrow.view(np.uint8).reshape(len(numbers), -1)
