"""Charts of matrix units: area against the array, and the roofline."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...model.units import MatmulConfig
from ...util.charts import Entry, Picture
from ...util.charts.layers import axis, lines, panel, points, texts
from ...util.charts.palette import BLUE, CIRCLE, GREY, LINE, ORANGE, SHAPES, SLATE
from .area import AreaModel, ArrayCost
from .roofline import Job, Shape, full_width, peak

LARGEST = 64


def area(costs: Sequence[ArrayCost], model: AreaModel, title: str) -> Picture:
    """Area against dot units: measured arrays, and the model up to 64 x 64."""
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
    """Products a cycle against products a byte, a panel a unit: roof, streams, and jobs.

    units: names, configurations and colours. bandwidths: bytes a cycle, dotted; the full width of
    a unit's streams is solid. Each job is marked at every bandwidth. formats: of the units, by
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
        Entry(" x ".join(map(str, shape)), SLATE, SHAPES[i % len(SHAPES)])
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
         "shape": SHAPES[i % len(SHAPES)]}
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
