"""Roofline of a matrix unit: what its dot units compute, and what its streams can feed.

Williams, Waterman and Patterson, Roofline (CACM 52(4), 2009), with products of two elements for
operations and the packets of a job for memory traffic. Charts of roofline and area.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model.units import MatmulConfig
from ..util.charts import Entry, Picture
from ..util.charts.layers import axis, lines, panel, points, texts
from ..util.charts.palette import BLUE, CIRCLE, GREY, LINE, ORANGE, SLATE
from ..util.charts.palette import SHAPES as MARKS
from .arrays import AreaModel, ArrayCost

Shape = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = (
    (8, 384, 384),
    (128, 384, 384),
    (128, 1536, 384),
    (128, 384, 1536),
    (1024, 1024, 1024),
)
"""M, N, K: layers of the real encoder for few and many rows, and a large square."""
BANDWIDTHS = (16, 64, 256)
"""Bytes per cycle: streams of 128, 512 and 2048 bits in all."""


@dataclass(frozen=True)
class Job:
    """A product on a matrix unit. products: pairs of elements, without padding of tiles."""

    shape: Shape
    products: int
    bytes: int
    steps: float
    peak: float
    """Products per cycle of the whole array."""

    @classmethod
    def of(cls, config: MatmulConfig, shape: Shape) -> "Job":
        """Job of the product (M, K) x (K, N); ValueError where `config` cannot compute it."""
        m, n, k = shape
        tiles = config.tiles(m, n, k)
        moved = sum(config.bytes_of(side, tiles) for side in (*config.inputs, "c"))
        steps = tiles.steps * config.pace
        return cls(shape, m * n * k, moved, steps, peak(config))

    @property
    def intensity(self) -> float:
        """Products per byte that a stream moves."""
        return self.products / self.bytes

    @property
    def filled(self) -> float:
        """Share of the dot units' work that is not padding."""
        return self.products / (self.steps * self.peak)

    def attainable(self, bandwidth: float) -> float:
        """Products per cycle at `bandwidth` bytes per cycle for all streams together."""
        return min(self.peak * self.filled, bandwidth * self.intensity)


def peak(config: MatmulConfig) -> float:
    """Products per cycle: dot units x lanes, over the cycles of a step."""
    return config.rows * config.columns * config.dot.lanes / config.pace


def full_width(config: MatmulConfig) -> int:
    """Greatest number of bytes per cycle over all streams."""
    return sum(config.stream_bytes(side) for side in (*config.inputs, "c"))


LARGEST = 64


def area(costs: Sequence[ArrayCost], model: AreaModel, title: str) -> Picture:
    """Chart area against dot units: measured arrays, and the model up to 64 x 64."""
    sides = [2**i for i in range(LARGEST.bit_length())]
    whole = {side * side: model.area(side, side) for side in sides}
    curves = [
        {"x": units, "y": y, "colour": colour, "line": colour}
        for units, total in whole.items()
        for colour, y in ((BLUE, total), (ORANGE, total - units * model.unit))
    ]
    marks = [
        {"x": cost.units, "y": y, "colour": colour, "shape": CIRCLE}
        for cost in costs
        for colour, y in ((BLUE, cost.area), (ORANGE, cost.rest.area))
    ]
    legend = [
        Entry("model: the whole", BLUE, LINE),
        Entry("model: all but dot units", ORANGE, LINE),
        Entry("measured", SLATE, CIRCLE),
    ]
    ys = [value["y"] for value in [*curves, *marks] if value["y"] > 0]
    view = panel(
        "",
        axis("dot units", log=4, domain=[0.8, LARGEST**2 * 1.25], ticks=list(whole),
             labels="round(sqrt(datum.value)) + ' x ' + round(sqrt(datum.value))"),
        axis(f"area without memories ({costs[0].unit.unit})", log=10,
             domain=[min(ys) / 1.5, max(ys) * 1.5]),
        lines(curves), points(marks),
    )  # fmt: skip
    return Picture("area", title, [view], legend=legend, height=320)


def roofline(
    units: Sequence[tuple[str, MatmulConfig, str]],
    shapes: Sequence[Shape],
    bandwidths: Sequence[float],
    title: str,
    caption: str = "",
    formats: Sequence[str] = (),
) -> Picture:
    """Chart products per cycle against products per byte: a panel per unit with roof and jobs.

    units: names, configurations and colours. bandwidths: bytes per cycle, dotted; a unit's full
    stream width is solid. Each job has a mark at every bandwidth. formats: formats of the units, by
    which the report hides panels.
    """
    jobs = [[Job.of(config, shape) for shape in shapes] for _, config, _ in units]
    reached = [job.intensity for some in jobs for job in some]
    ends = min(reached) / 4, max(reached) * 4
    top = max(peak(config) for _, config, _ in units)
    domains = list(ends), [min(bandwidths) * ends[0] / 1.5, top * 2]
    panels = [
        _panel(*unit, some, bandwidths, domains) | ({"usermeta": {"format": fmt}} if fmt else {})
        for unit, some, fmt in zip(units, jobs, formats or [""] * len(units), strict=True)
    ]
    legend = [
        Entry(" x ".join(map(str, shape)), SLATE, MARKS[i % len(MARKS)])
        for i, shape in enumerate(shapes)
    ]
    return Picture("roofline", title, panels, caption, legend, height=300)


def _panel(
    name: str,
    config: MatmulConfig,
    colour: str,
    jobs: Sequence[Job],
    bandwidths: Sequence[float],
    domains: tuple[list[float], list[float]],
) -> dict[str, Any]:
    (low, high), width, most = domains[0], full_width(config), peak(config)

    def roof(bytes_a_cycle: float, colour: str) -> list[dict[str, Any]]:
        knee = float(np.clip(most / bytes_a_cycle, low, high))
        return [
            {
                "x": x,
                "y": min(bytes_a_cycle * x, most),
                "line": str(bytes_a_cycle),
                "colour": colour,
            }
            for x in (low, knee, high)
        ]

    streams = [value for bandwidth in bandwidths for value in roof(bandwidth, GREY)]
    names = [{"x": low, "y": min(b * low, most), "text": f"{b:g} bytes/cycle"} for b in bandwidths]
    marks = [
        {"x": job.intensity, "y": job.attainable(b), "colour": colour,
         "shape": MARKS[i % len(MARKS)]}
        for i, job in enumerate(jobs)
        for b in (*bandwidths, width)
    ]  # fmt: skip
    return panel(
        f"{name}, {width} bytes/cycle",
        axis("products / byte of all streams", log=10, domain=domains[0]),
        axis("products / cycle", log=10, domain=domains[1]),
        lines(streams, dash=(2, 3), width=1), lines(roof(width, colour)),
        points(marks, 45), texts(names, dx=6, dy=9),
    )  # fmt: skip
