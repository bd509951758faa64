"""Dot units in a regression: what they are given in bulk, and how their failures are told."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bench.layout import Layout
from ..engine.groups import in_groups
from ..engine.job import Failure
from ..engine.stream_unit import StreamUnit
from ..engine.verilator import Build
from . import simplify
from .build import build_unit
from .bulk import SLOT_PLACE, layout, write_products
from .item import Batch, DotResults, batch_of, concatenate, plain, product_of, products
from .report import describe_failure
from .stimulus import traffic
from .tensors import tensor_traffic
from .turns import Turns

TENSOR_BLOCKS = 25_000  # of real tensors in bulk mode, unless all are asked for


class DotStream(StreamUnit):
    """A `DotUnit`; an item is a dot product, replayed alone when it comes out wrong."""

    def build(self, verilog: Path) -> Build:
        """The unit in the bench top."""
        job = self.job
        return build_unit(
            self.config,
            verilog,
            job.build_directory / "build",
            executable=job.directory / "sim",
            waves=job.waves,
            coverage=job.coverage,
        )

    def layout(self) -> Layout:
        """Blocks, and results with flags."""
        return layout(self.config)

    def batches(self) -> list[Batch]:
        """Every sequence, and real tensors; a batch for each mode and number of blocks."""
        job = self.job
        made = traffic(self.config, job.rng("bulk"), job.bulk)
        return concatenate(made + tensor_traffic(job, None if job.all_tensors else TENSOR_BLOCKS))

    def arranged(self, batches: Sequence[Batch], order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of dot products in flight together those that end first come first."""
        lengths = np.concatenate([np.full(len(batch), batch.blocks) for batch in batches])
        turns = Turns.mixed(lengths[order], self.config.interleave, self.job.rng("bulk turns"))
        by_end, self.turns = turns.by_end()
        return order[by_end]

    def write(self, path: Path, batches: Sequence[Batch], order: NDArray[np.int64]) -> None:
        """A record for each block."""
        write_products(path, self.config, batches, order, self.turns)

    def words(self, outcome: DotResults) -> NDArray[np.uint32]:
        """Result bits and flags."""
        return np.stack([outcome.result, outcome.flags.astype(np.uint32)], axis=1)

    def placed_words(self, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """With the slot of each."""
        slots = self.turns.slot.astype(np.uint32) << np.uint32(SLOT_PLACE)
        return np.stack([words[:, 0], words[:, 1] | slots], axis=1)

    def result(self, words: NDArray[np.uint32]) -> list[int]:
        """Result bits, flags and slot."""
        bits, flags = words.tolist()
        slot = [flags >> SLOT_PLACE] if self.config.slot_bits else []
        return [bits, flags & (1 << SLOT_PLACE) - 1, *slot]

    def plain(self, batch: Batch, place: int) -> dict[str, Any]:
        """mode, c, blocks and slot."""
        (product,) = products(self.config, batch)
        return plain(replace(product, slot=int(self.turns.slot[place])))

    def gathered(self, items: Sequence[Mapping[str, Any]]) -> tuple[list[Batch], list[int]]:
        """A batch for each mode and number of blocks."""
        made = [product_of(item) for item in items]
        groups, places = in_groups(made, lambda item: (item.mode, len(item.blocks)))
        return [batch_of(self.config, group) for group in groups], places

    def simpler(self, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Fewer blocks and lanes, plainer c, scales and codes."""
        return simplify.simpler(self.config, item)

    def complexity(self, item: Mapping[str, Any]) -> tuple[int, ...]:
        """Lanes, blocks, c, scales, codes."""
        return simplify.complexity(self.config, item)

    def report(self, verilog: Path, failure: Failure) -> str:
        """With the first stage that differs."""
        return describe_failure(self.job, verilog, failure)
