"""Plots of matrix units: area against the array, and the roofline."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...model.units.matmul.config import MatmulConfig
from ..palette import BLUE, FORMATS, GREY, ORANGE, STYLE
from .area import AreaModel, ArrayCost
from .roofline import Job, Shape, full_width, peak

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

LARGEST = 64
SHAPE_SYMBOLS = ("o", "s", "^", "D", "*", "P", "X")


def area_figure(costs: Sequence[ArrayCost], model: AreaModel, title: str) -> "Figure":
    """Area against dot units: measured arrays, and the model up to 64 x 64."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.5, 4.5), layout="constrained")
        ax = figure.subplots()
        sides = np.array([2**i for i in range(LARGEST.bit_length())])
        units = sides**2
        whole = np.array([model.area(side, side) for side in sides])
        ax.plot(units, whole, color=BLUE, label="model: the whole")
        ax.plot(units, whole - units * model.unit, color=ORANGE, label="model: all but dot units")
        counts = [cost.units for cost in costs]
        ax.scatter(counts, [cost.area for cost in costs], color=BLUE, zorder=3, label="measured")
        ax.scatter(counts, [cost.rest.area for cost in costs], color=ORANGE, zorder=3)
        ax.set(xscale="log", yscale="log", xlabel="dot units")
        ax.set_xticks(units, [f"{side} x {side}" for side in sides])
        ax.minorticks_off()
        ax.set_ylabel(f"area without memories ({costs[0].unit.unit})")
        ax.legend(loc="upper left")
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def roofline_figure(
    configs: Sequence[tuple[str, MatmulConfig]],
    shapes: Sequence[Shape],
    bandwidths: Sequence[float],
    title: str,
) -> "Figure":
    """Products a cycle against products a byte: roofs of units, streams, and jobs on them.

    configs: names and units, one colour each. bandwidths: bytes a cycle, dotted; the full width of
    a unit's streams is drawn in its colour. Each job is marked at every bandwidth.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    jobs = [[Job.of(config, shape) for shape in shapes] for _, config in configs]
    intensities = [job.intensity for some in jobs for job in some]
    x = np.geomspace(min(intensities) / 4, max(intensities) * 4, 400)
    top = max(peak(config) for _, config in configs)
    handles = [_symbol(shape, i) for i, shape in enumerate(shapes)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 5), layout="constrained")
        ax = figure.subplots()
        for width in bandwidths:
            here = width * x < top
            if not here.any():  # wider than anything here can use
                continue
            ax.plot(x[here], width * x[here], color=GREY, lw=0.8, ls=":")
            ax.annotate(
                f"{width:g} bytes/cycle",
                (x[here][-1], width * x[here][-1]),
                fontsize=8,
                color="#555555",
                ha="right",
                va="bottom",
            )
        for i, (name, config) in enumerate(configs):
            colour, width = FORMATS[i % len(FORMATS)], full_width(config)
            label = f"{name}, {width} bytes/cycle"
            handles += ax.plot(x, np.minimum(width * x, peak(config)), color=colour, label=label)
            for symbol, job in enumerate(jobs[i]):
                for bandwidth in (*bandwidths, width):
                    ax.scatter(
                        job.intensity,
                        job.attainable(bandwidth),
                        color=colour,
                        marker=SHAPE_SYMBOLS[symbol % len(SHAPE_SYMBOLS)],
                        s=25,
                        zorder=3,
                    )
        ax.set(xscale="log", yscale="log", xlabel="products / byte of all streams")
        ax.set_ylabel("products / cycle")
        ax.set_ylim(top=top * 2)
        ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def _symbol(shape: Shape, number: int) -> "Line2D":
    from matplotlib.lines import Line2D

    symbol = SHAPE_SYMBOLS[number % len(SHAPE_SYMBOLS)]
    name = " x ".join(map(str, shape))
    return Line2D([], [], marker=symbol, ls="", color="#555555", label=name)
