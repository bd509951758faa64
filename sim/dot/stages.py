"""Stage by stage: what left each section of the RTL beside the intermediates of the model.

Both sides are compared as numbers, free of the biases and grids that a section works with. What a
section writes is told by the values' names (hw/dot/).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import data

from ...hw.dot.unit import section_values
from ...model import DotConfig
from ...model.pipeline.widths import Widths
from ...model.products import Pair
from ...model.trace import Trace
from .item import Batch
from .scales import are_nan
from .stage_values import COMPARE, StageStep


@dataclass(frozen=True)
class SectionRow:
    """One value that left section `stage` for a block, on both sides."""

    block: int
    stage: str
    what: str
    got: str
    want: str

    @property
    def differs(self) -> bool:
        """True when the two sides disagree."""
        return self.got != self.want


Recorded = Mapping[str, Mapping[str, list[int]]]
"""Bits of each value that left a section, one entry for each block, by names of both."""


def compare_stages(
    config: DotConfig, batch: Batch, trace: Trace, recorded: Recorded
) -> list[SectionRow]:
    """Rows in the order of the datapath, block after block, for the one product of `batch`."""
    written = section_values(config)
    widths = Widths(config)
    rows = []
    for block in range(batch.blocks):
        step = 0
        for part in config.pipeline.sections:
            if part.kind == "join":
                step = part.number or 0
            number = block * widths.steps + step
            model = StageStep(config, batch, trace, number, step * widths.step_lanes, part.name)
            for name, shape in written[part.name].items():
                compare = COMPARE.get(name)  # some have no counterpart in the model
                values = recorded.get(part.name, {}).get(name, [])
                if compare is None or block >= len(values):
                    continue
                if not _is_meaningless(config, batch, block, name):
                    found = compare(_value(shape, values[block]), model)
                    rows += [SectionRow(block, part.name, *texts) for texts in found]
    return rows


def _value(shape: ShapeLike, bits: int) -> Any:
    """What bits of this shape stand for."""
    if isinstance(shape, data.Layout):
        return shape.from_bits(bits)
    plain = Shape.cast(shape)
    negative = plain.signed and bits >> (plain.width - 1)
    return bits - (1 << plain.width) if negative else bits


def _is_meaningless(config: DotConfig, batch: Batch, block: int, name: str) -> bool:
    """True where special terms make a section's numbers so; running values never are."""
    if config.has_integers or name in ("running", "partial", "result"):
        return False
    pair = Pair(*config.formats[batch.mode])
    values = pair.of(batch.a[0, : block + 1], batch.b[0, : block + 1]).values
    nan = are_nan(config, batch)[0, : block + 1].any()
    c = float(batch.c.view(np.float32)[0])
    return bool(np.isnan(values).any() or nan or not np.isfinite(c))
