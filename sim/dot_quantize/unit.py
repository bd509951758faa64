"""Dot units with a quantiser, in bulk, and how their failures are told."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bench.bulk import Layout
from ..dot.unit import BENCH, record_layout, write_products
from ..engine.stream_unit import StreamUnit
from ..quantize.item import CodesBeat, codes_beats, words
from ..quantize.unit import codes_layout
from . import failures
from .item import Batch, DotQuantizeResults, batch_of, block_of, blocks, plain
from .stimulus import results_at_edges, traffic

TENSOR_BLOCKS = 5000  # of real tensors in bulk mode, unless all are asked for


class DotQuantizeStream(StreamUnit):
    """A `DotQuantizeUnit`; an item is a block of dot products."""

    failures = failures
    bench, module = BENCH, "mxdot_dot_quantize"

    def layout(self) -> Layout:
        """Records of dot products, and results of one code each."""
        size, inputs = record_layout(self.config.dot)
        words, outputs, _, ones = codes_layout(self.config.quantizer)
        code = [field._replace(port="out_code") for field in outputs if field.port == "out_codes"]
        others = [field for field in outputs if field.port != "out_codes"]
        return Layout(size, inputs, words, (*code, *others), ends="in_last", ones=ones)

    def batches(self) -> list[Batch]:
        blocks = None if self.job.all_tensors else TENSOR_BLOCKS
        return [traffic(self.job, "bulk", self.job.bulk, blocks)]

    def placed(self, batch: Batch, places: NDArray[np.int64]) -> Batch:
        """The batch with numbered blocks, for the words of the shift register."""
        return replace(batch, number=places)

    def aimed(self, batch: Batch) -> Batch:
        """The batch with results at the threshold of the words of the shift register."""
        config = self.config
        if not (config.quantizer.is_stochastic and config.dot.load_c):
            return batch
        return results_at_edges(config, batch, self.job.rng("carries"))

    def write(self, path: Path, batches: Sequence[Batch], order: NDArray[np.int64]) -> None:
        (batch,) = batches
        write_products(path, self.config.dot, batch.products, batch.order[order].ravel())

    def words(self, outcome: DotQuantizeResults) -> NDArray[np.uint32]:
        return words(self.config.quantizer, outcome.codes)

    def result(self, words: NDArray[np.uint32]) -> list[CodesBeat]:
        return codes_beats(self.config.quantizer, words)

    def plain(self, batch: Batch, place: int) -> dict[str, Any]:
        return plain(blocks(self.config, batch)[0])

    def gathered(self, items: Sequence[Mapping[str, Any]]) -> tuple[list[Batch], list[int]]:
        batch = batch_of(self.config, [block_of(item) for item in items])
        return [batch], list(range(len(items)))
