"""The largest array that fits an ECP5."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ...hw.verilog import generate
from ...model.matmul_config import MatmulConfig
from ..cost import Cost, Flow, measure
from ..cost.fpga import DEVICES, FILL
from .area import TOP, AreaModel, ArrayCost, largest_array, measure_array, resized

DEVICE = "85k"
COUNTED = Flow("ecp5", place=False, sections=False)
ROUTABLE = 0.55
"""The share of all LUTs up to which an array was placed and routed."""
SAMPLES = ((1, 1), (1, 2), (2, 1), (2, 2))
"""Arrays that are measured to know how large the largest is."""


@dataclass(frozen=True)
class Fit:
    """The largest array of a configuration on the device. placed: None when only counted."""

    cost: ArrayCost
    model: AreaModel
    flow: Flow
    placed: Cost | None = None

    @property
    def luts(self) -> float:
        """LUTs, placed or counted part by part."""
        return self.cost.area if self.placed is None else self.placed.area

    @property
    def multipliers(self) -> int:
        """Multiplier blocks."""
        return self.cost.units * int(self.cost.unit.extra.get("dsp", 0))

    @property
    def products_per_second(self) -> float | None:
        """Products of two elements a second at the clock that was reached."""
        fmax = None if self.placed is None else self.placed.fmax_mhz
        return None if fmax is None else self.cost.products * fmax * 1e6


def fit(
    config: MatmulConfig,
    cache_dir: Path,
    *,
    place: bool = False,
    limit: float = 7200.0,
    progress: Callable[[str], None] = lambda what: None,
) -> Fit:
    """The largest array of `config`'s dot units on an ECP5-85k, at most twice as long as wide.

    Counted part by part, up to 85% of the LUTs and all multiplier blocks, or without these where
    more dot units fit then. With `place`, the largest of at most 55% of the LUTs, placed and
    routed: what is fuller takes hours, or is never routed.
    ValueError when not even one dot unit fits.
    """
    fill = ROUTABLE if place else FILL
    found = [
        _largest(config, replace(COUNTED, dsp=dsp), fill, cache_dir, progress)
        for dsp in (True, False)
    ]
    fitting = [fit for fit in found if fit is not None]
    if not fitting:
        raise ValueError(f"dot must be a unit of which one fits an ECP5-{DEVICE}, not {config.dot}")
    best = max(fitting, key=lambda fit: (fit.cost.units, -fit.cost.area))
    if not place:
        return best
    largest = best.cost.config
    progress(f"{largest.rows} x {largest.columns}, placed and routed")
    flow = replace(best.flow, place=True)
    placed = measure(generate(largest, TOP), TOP, flow, cache_dir=cache_dir, limit=limit)
    return replace(best, placed=placed)


def _largest(
    config: MatmulConfig,
    flow: Flow,
    fill: float,
    cache_dir: Path,
    progress: Callable[[str], None],
) -> Fit | None:
    """The largest array of at most this share of the LUTs, if there is one."""
    costs = []
    for rows, columns in SAMPLES:
        progress(f"{rows} x {columns}, {'with' if flow.dsp else 'without'} multiplier blocks")
        costs.append(measure_array(resized(config, rows, columns), flow, cache_dir))
    model = AreaModel.of(costs)
    device = DEVICES[DEVICE]
    each = int(costs[0].unit.extra.get("dsp", 0))
    limit = device.multipliers // each if each else None
    largest = largest_array(config, model, fill * device.luts, limit)
    if largest is None:
        return None
    progress(f"{largest.rows} x {largest.columns}")
    return Fit(measure_array(largest, flow, cache_dir), model, flow)
