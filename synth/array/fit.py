"""The largest array that fits an ECP5."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ...hw.verilog import generate
from ...model.units.matmul.config import MatmulConfig
from .. import Cost, Flow, measure
from ..fpga import DEVICES, FILL
from .area import TOP, AreaModel, ArrayCost, largest_array, measure_array, resized

DEVICE = "85k"
COUNTED = Flow("ecp5", place=False, sections=False, dsp=False)
ROUTABLE = 0.55
"""The share of all LUTs up to which an array was placed and routed."""
SAMPLES = ((1, 1), (1, 2), (2, 1), (2, 2))
"""Arrays that are measured to know how large the largest is."""


@dataclass(frozen=True)
class Fit:
    """The largest array of a configuration on the device. placed: None when only counted."""

    cost: ArrayCost
    model: AreaModel
    placed: Cost | None = None

    @property
    def luts(self) -> float:
        """LUTs, placed or counted part by part."""
        return self.cost.area if self.placed is None else self.placed.area

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

    Counted part by part, up to 85% of the LUTs; multiplier blocks are of no use, for products are
    formed in the tree that adds them. With `place`, the largest of at most 55% of the LUTs, placed
    and routed: what is fuller takes hours, or is never routed.
    ValueError when not even one dot unit fits.
    """
    fill = ROUTABLE if place else FILL
    best = _largest(config, fill, cache_dir, progress)
    if best is None:
        raise ValueError(f"dot must be a unit of which one fits an ECP5-{DEVICE}, not {config.dot}")
    if not place:
        return best
    largest = best.cost.config
    progress(f"{largest.rows} x {largest.columns}, placed and routed")
    flow = replace(COUNTED, place=True)
    placed = measure(generate(largest, TOP), TOP, flow, cache_dir=cache_dir, limit=limit)
    return replace(best, placed=placed)


def _largest(
    config: MatmulConfig,
    fill: float,
    cache_dir: Path,
    progress: Callable[[str], None],
) -> Fit | None:
    """The largest array of at most this share of the LUTs, if there is one."""
    costs = []
    for rows, columns in SAMPLES:
        progress(f"{rows} x {columns}")
        costs.append(measure_array(resized(config, rows, columns), COUNTED, cache_dir))
    model = AreaModel.of(costs)
    largest = largest_array(config, model, fill * DEVICES[DEVICE].luts)
    if largest is None:
        return None
    progress(f"{largest.rows} x {largest.columns}")
    return Fit(measure_array(largest, COUNTED, cache_dir), model)
