"""The simulation of a quantiser: bench top, records of bulk mode, and runner.

A record is a beat. Its fields, each of whole bytes, from the last byte of the record to the first:
values (lane i in the bits from i * width on), random words, the outer scale, and a byte with the
mode in bits 0 to 3 and the scale rule in bits 4 and 5. A result is a beat of codes (`item.words`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model import QuantizeConfig
from ...util.files import write_file
from ..bench.bulk import Field, Layout, bytes_of, in_bytes, packed, placed
from ..engine.stream_unit import StreamUnit, in_groups
from . import failures
from .carries import values_at_edges
from .item import (
    Batch,
    CodesBeat,
    QuantizeResults,
    batch_of,
    block_of,
    blocks,
    codes_beats,
    concatenate,
    plain,
    words,
)
from .stimulus import bulk_traffic, tensor_traffic


def layout(config: QuantizeConfig) -> Layout:
    """Places of a quantiser's ports in records and results."""
    values = [("in_values", config.lanes * config.source.bits)]
    words = [("in_random", config.lanes * config.word_bits), ("in_outer", config.outer_bits)]
    inputs, size = in_bytes([*values, *words])
    mode = placed([("in_mode", config.mode_bits)], 8 * size)
    rule = placed([("in_rule", config.rule_bits)], 8 * size + 4)
    restarts = config.beats == 1 and config.random != "lfsr"
    return Layout(size + 1, inputs + mode + rule, *codes_layout(config), restarts)


def codes_layout(config: QuantizeConfig) -> tuple[int, tuple[Field, ...], str, tuple[int, ...]]:
    """A beat of codes in a layout: words, outputs, no input that ends, ones."""
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
    """Write the beats of all blocks, the blocks in the given order."""

    def gathered(arrays: Sequence[NDArray]) -> NDArray:
        return np.concatenate(arrays)[order]

    def once(arrays: Sequence[NDArray]) -> NDArray[np.uint8]:
        return np.repeat(bytes_of(gathered(arrays)), config.beats, axis=0)

    beats = (len(order) * config.beats, config.lanes)
    bits = gathered([batch.bits for batch in batches]).astype(f"<u{config.source.bits // 8}")
    words = gathered([batch.words for batch in batches])
    columns = {
        "in_values": bytes_of(bits.reshape(beats)),
        "in_random": bytes_of(words.reshape(beats)),
        "in_outer": once([batch.outer for batch in batches]),
        "in_mode": once([np.full(len(batch), batch.mode, np.uint8) for batch in batches]),
        "in_rule": once([np.full(len(batch), batch.rule, np.uint8) for batch in batches]),
    }
    made = layout(config)
    write_file(path, packed(made.record_bytes, made.inputs, columns))


class QuantizeStream(StreamUnit):
    """A `QuantizeUnit`; an item is a block."""

    failures = failures
    bench, module = Path(__file__).with_name("bench.sv"), "mxdot_quantize"

    def layout(self) -> Layout:
        return layout(self.config)

    def batches(self) -> list[Batch]:
        """Every sequence, and real tensors; a batch for each mode and scale rule."""
        job = self.job
        return concatenate(
            bulk_traffic(self.config, job.rng("bulk"), job.bulk) + tensor_traffic(job)
        )

    def placed(self, batch: Batch, places: NDArray[np.int64]) -> Batch:
        """The batch with numbered blocks, for the words of shift registers."""
        return replace(batch, number=places)

    def aimed(self, batch: Batch) -> Batch:
        """The batch with values at the threshold of the words of shift registers."""
        if self.config.random != "lfsr" or not len(batch):
            return batch
        rng = self.job.rng(f"carries {batch.mode} {batch.rule}")
        return values_at_edges(self.config, batch, rng)

    def write(self, path: Path, batches: Sequence[Batch], order: NDArray[np.int64]) -> None:
        write_records(path, self.config, batches, order)

    def words(self, outcome: QuantizeResults) -> NDArray[np.uint32]:
        return words(self.config, outcome)

    def result(self, words: NDArray[np.uint32]) -> list[CodesBeat]:
        return codes_beats(self.config, words)

    def plain(self, batch: Batch, place: int) -> dict[str, Any]:
        return plain(blocks(self.config, batch)[0])

    def gathered(self, items: Sequence[Mapping[str, Any]]) -> tuple[list[Batch], list[int]]:
        made = [block_of(item) for item in items]
        groups, places = in_groups(made, lambda item: (item.mode, item.rule))
        return [batch_of(self.config, group) for group in groups], places
