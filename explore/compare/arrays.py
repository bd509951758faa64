"""The units of a comparison as matrix units: their roofline."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...model.units.dot import DotConfig
from ...model.units.matmul.config import MatmulConfig
from ..matmul.plots import roofline_figure
from ..matmul.roofline import BANDWIDTHS, SHAPES, Job, Shape, full_width, peak
from .rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def roofline(rows: Sequence[Row]) -> "Figure | None":
    """The plot; None without any matrix unit."""
    found = arrays(rows)
    if not found:
        return None
    named = [(array.name, array.config) for array in found]
    return roofline_figure(named, _shapes(found), BANDWIDTHS, TITLE)


def roofline_data(rows: Sequence[Row]) -> dict[str, Any]:
    """The same for the report: plain JSON types."""
    found = arrays(rows)
    shapes = _shapes(found)
    return {
        "bandwidths": list(BANDWIDTHS),
        "shapes": [" x ".join(map(str, shape)) for shape in shapes],
        "units": [
            {
                "name": array.name,
                "format": array.format,
                "peak": peak(array.config),
                "width": full_width(array.config),
                "jobs": [_job(array.config, shape) for shape in shapes],
            }
            for array in found
        ],
    }


def _job(config: MatmulConfig, shape: Shape) -> dict[str, float]:
    job = Job.of(config, shape)
    return {"intensity": job.intensity, "filled": job.filled}


def _shapes(found: list[Array]) -> list[Shape]:
    """Those of whole blocks in every unit."""
    return [
        shape for shape in SHAPES if all(shape[2] % array.config.dot.lanes == 0 for array in found)
    ]
