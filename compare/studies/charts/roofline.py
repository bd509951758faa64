"""The units of a comparison as matrix units: their roofline."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ....model.units import DotConfig, MatmulConfig
from ....synth.array.charts import roofline
from ....synth.array.roofline import BANDWIDTHS, SHAPES, Shape
from ....util.charts import Picture
from ....util.charts.palette import format_colours
from ..rows import Row

SIDE = 8
TITLE = f"Matrix units of {SIDE} x {SIDE} dot units"
CAPTION = (
    f"Products of two elements that a matrix unit of {SIDE} x {SIDE} of these dot units computes "
    "in a cycle, against those for each byte that its streams move. Solid: streams of full width; "
    "dotted: narrower ones, all streams together. Marks: products M x N x K, layers of a sentence "
    "encoder among them."
)


class Array(NamedTuple):
    """A matrix unit of one of the comparison's dot units."""

    name: str
    format: str
    config: MatmulConfig


def arrays(rows: Sequence[Row]) -> list[Array]:
    """One for each format, number of lanes and interval; units with integer results have none."""
    found: dict[tuple[str, int, int], Array] = {}
    for row in rows:
        if row.generated and not row.options and row.accumulator and row.format and row.lanes:
            dot = DotConfig(row.format, row.lanes, row.accumulator, row.stages)
            name = f"{row.format} x{row.lanes}"
            name += f", interval {dot.interval}" * (dot.interval > 1)
            array = Array(name, row.format, MatmulConfig(dot, SIDE, SIDE))
            found.setdefault((row.format, row.lanes, dot.interval), array)
    return list(found.values())


def pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """One, a panel a matrix unit; none without any."""
    found = arrays(rows)
    if found:
        colours = format_colours(row.format for row in rows)
        units = [(array.name, array.config, colours[array.format]) for array in found]
        yield roofline(units, _shapes(found), BANDWIDTHS, TITLE, CAPTION, [a.format for a in found])


def _shapes(found: list[Array]) -> list[Shape]:
    """Those of whole blocks in every unit."""
    return [
        shape for shape in SHAPES if all(shape[2] % array.config.dot.lanes == 0 for array in found)
    ]
