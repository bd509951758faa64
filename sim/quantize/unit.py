"""Quantisers in a regression: what they are given in bulk, and how their failures are told."""

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
from .build import build_quantizer
from .bulk import layout, write_records
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
from .report import describe_failure
from .stimulus import bulk_traffic
from .tensors import tensor_traffic


class QuantizeStream(StreamUnit):
    """A `QuantizeUnit`; an item is a block."""

    def build(self, verilog: Path) -> Build:
        """The unit in its bench top."""
        job = self.job
        return build_quantizer(
            self.config,
            verilog,
            job.build_directory / "build",
            executable=job.directory / "sim",
            waves=job.waves,
            coverage=job.coverage,
        )

    def layout(self) -> Layout:
        """Beats of values, and of codes."""
        return layout(self.config)

    def batches(self) -> list[Batch]:
        """Every sequence, and real tensors; a batch for each mode and scale rule."""
        job = self.job
        return concatenate(
            bulk_traffic(self.config, job.rng("bulk"), job.bulk) + tensor_traffic(job)
        )

    def placed(self, batch: Batch, places: NDArray[np.int64]) -> Batch:
        """Blocks are numbered, for the words of shift registers."""
        return replace(batch, number=places)

    def aimed(self, batch: Batch) -> Batch:
        """Values at the threshold of the words that shift registers give them."""
        if self.config.random != "lfsr" or not len(batch):
            return batch
        rng = self.job.rng(f"carries {batch.mode} {batch.rule}")
        return values_at_edges(self.config, batch, rng)

    def write(self, path: Path, batches: Sequence[Batch], order: NDArray[np.int64]) -> None:
        """A record for each beat."""
        write_records(path, self.config, batches, order)

    def words(self, outcome: QuantizeResults) -> NDArray[np.uint32]:
        """Beats of codes."""
        return words(self.config, outcome)

    def result(self, words: NDArray[np.uint32]) -> list[CodesBeat]:
        """Beats of codes."""
        return codes_beats(self.config, words)

    def plain(self, batch: Batch, place: int) -> dict[str, Any]:
        """mode, rule, number and beats."""
        return plain(blocks(self.config, batch)[0])

    def gathered(self, items: Sequence[Mapping[str, Any]]) -> tuple[list[Batch], list[int]]:
        """A batch for each mode and scale rule."""
        made = [block_of(item) for item in items]
        groups, places = in_groups(made, lambda item: (item.mode, item.rule))
        return [batch_of(self.config, group) for group in groups], places

    def simpler(self, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Fewer values, plainer ones."""
        return simplify.simpler(self.config, item)

    def complexity(self, item: Mapping[str, Any]) -> tuple[int, ...]:
        """Values, outer scale, random words."""
        return simplify.complexity(self.config, item)

    def report(self, verilog: Path, failure: Failure) -> str:
        """With values and words."""
        return describe_failure(self.job, failure)
