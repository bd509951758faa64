"""Area of matrix units, measured part by part: one dot unit, and everything around them.

Also a model of larger arrays, and the largest array that fits an ECP5.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np

from ..hw.verilog import generate, modules_of
from ..model.units.matmul.config import MatmulConfig
from . import Cost, Flow, measure
from .fpga import DEVICES, FILL

TOP = "matmul"


@dataclass(frozen=True)
class ArrayCost:
    """Cost of a matrix unit: `unit` is one dot unit, `rest` all except dot units and memories.

    Boundaries stay: each dot unit is the same module, as in a layout that repeats one.
    memory_bits: bits of buffers, which compiled memories or block RAMs hold.
    """

    config: MatmulConfig
    unit: Cost
    rest: Cost
    memory_bits: int

    @property
    def units(self) -> int:
        return self.config.rows * self.config.columns

    @property
    def area(self) -> float:
        """Area without memories, in the unit of the costs."""
        return self.units * self.unit.area + self.rest.area

    @property
    def multipliers(self) -> int:
        """Multiplier blocks of an FPGA, all of them in the dot units."""
        return self.units * self.unit.extra.get("dsp", 0)

    @property
    def depth(self) -> int | None:
        """Longest path of either part, in levels; None where the flow counts none."""
        depths = [part.depth for part in (self.unit, self.rest) if part.depth is not None]
        return max(depths, default=None)

    @property
    def delay_ps(self) -> float | None:
        """Longest path of either part in picoseconds; None where the flow does not time."""
        delays = [part.delay_ps for part in (self.unit, self.rest) if part.delay_ps is not None]
        return max(delays, default=None)

    @property
    def products(self) -> float:
        """Products of two elements per cycle, at full utilisation."""
        return self.units * self.config.dot.lanes / self.config.pace


def resized(config: MatmulConfig, rows: int, columns: int) -> MatmulConfig:
    """Resize the array of a unit; its streams become as wide as a step."""
    options = {name: getattr(config, name) for name in ("depth", "initial_c", "keep_b")}
    return MatmulConfig(config.dot, rows, columns, **options)


def measure_array(config: MatmulConfig, flow: Flow, cache_dir: Path) -> ArrayCost:
    """Measure the cost of `config`; its dot unit is synthesised once for all arrays.

    Raises SynthesisError or ModuleNotFoundError, as `synth.measure`.
    """
    text = generate(config, TOP)
    unit = f"{TOP}_dot_unit"
    memories = [name for name in modules_of(text) if name.startswith(f"{TOP}_step_memory_")]
    alone = _modules_below(text, unit)
    return ArrayCost(
        config,
        measure(alone, unit, flow, cache_dir=cache_dir),
        measure(text, TOP, flow, cache_dir=cache_dir, black_boxes=[unit, *memories]),
        config.memory_bits,
    )


def _modules_below(text: str, top: str) -> str:
    """Keep only modules that `top` needs, so that its cost does not depend on its surroundings."""
    bodies = modules_of(text)
    wanted, found = [top], {}
    while wanted:
        name = wanted.pop()
        found[name] = bodies[name]
        used = set(re.findall(r"^  (\w+) ", bodies[name], re.M))
        wanted += sorted(used & bodies.keys() - found.keys())
    return "".join(body for name, body in bodies.items() if name in found)


# Larger arrays ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AreaModel:
    """rest = once + per_row R + per_column C + per_unit R C, fitted to measured arrays.

    Rows and columns have buffers, width converters and registers of their own, and each dot unit
    has its place in the drain. error: the largest relative error of a measured total.
    """

    unit: float
    once: float
    per_row: float
    per_column: float
    per_unit: float
    error: float

    @classmethod
    def of(cls, costs: list[ArrayCost]) -> "AreaModel":
        """Fit the model to at least four arrays of one dot unit, of different rows and columns."""
        terms = [_terms(cost.config.rows, cost.config.columns) for cost in costs]
        if np.linalg.matrix_rank(np.array(terms)) < len(terms[0]):
            raise ValueError("costs must be of arrays that differ in rows, columns and both")
        rest = np.array([cost.rest.area for cost in costs])
        # Errors are relative to the whole: small parts may be off by more.
        weights = 1 / np.array([cost.area for cost in costs])
        factors, *_ = np.linalg.lstsq(np.array(terms) * weights[:, None], rest * weights)
        errors = np.abs(np.array(terms) @ factors - rest) * weights
        once, per_row, per_column, per_unit = map(float, factors)
        error = float(errors.max())
        return cls(costs[0].unit.area, once, per_row, per_column, per_unit, error)

    def area(self, rows: int, columns: int) -> float:
        """Area of an array of any size, without memories."""
        factors = (self.once, self.per_row, self.per_column, self.per_unit)
        rest = np.dot(factors, _terms(rows, columns))
        return rows * columns * self.unit + float(rest)


def _terms(rows: int, columns: int) -> tuple[int, int, int, int]:
    return 1, rows, columns, rows * columns


def largest_array(
    config: MatmulConfig, model: AreaModel, luts: float, units: float = inf
) -> MatmulConfig | None:
    """The array with the most dot units whose sides differ by at most a factor of two, or None.

    luts: limit of its area by `model`. units: limit of its dot units.
    """
    fitting = [
        (rows * columns, -abs(rows - columns), rows, columns)
        for rows in range(1, 65)
        for columns in range((rows + 1) // 2, min(2 * rows, 64) + 1)
        if rows * columns <= units and model.area(rows, columns) <= luts
    ]
    if not fitting:
        return None
    *_, rows, columns = max(fitting)
    return resized(config, rows, columns)


DEVICE = "85k"
COUNTED = Flow("ecp5", place=False, sections=False, dsp=False)
ROUTABLE = 0.55
"""Largest share of all LUTs at which an array was placed and routed."""
SAMPLES = ((1, 1), (1, 2), (2, 1), (2, 2))
"""Arrays to measure before the largest is known."""


@dataclass(frozen=True)
class Fit:
    """The largest array of a configuration on the device. placed: None if only counted."""

    cost: ArrayCost
    model: AreaModel
    placed: Cost | None = None

    @property
    def luts(self) -> float:
        """LUTs after placement, or counted part by part."""
        return self.cost.area if self.placed is None else self.placed.area

    @property
    def products_per_second(self) -> float | None:
        """Products of two elements per second at the clock of the placed design."""
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

    Parts are counted up to 85% of the LUTs. Dot units for FPGAs (`target`) take multiplier blocks
    for all their products; in others these are formed in the tree that adds them. With `place`, the
    array takes at most 55% of the LUTs and is placed and routed: fuller devices take hours or fail.
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
    flow = replace(_counting(config), place=True)
    placed = measure(generate(largest, TOP), TOP, flow, cache_dir=cache_dir, limit=limit)
    return replace(best, placed=placed)


def _counting(config: MatmulConfig) -> Flow:
    return replace(COUNTED, dsp=config.dot.target == "fpga")


def _largest(
    config: MatmulConfig,
    fill: float,
    cache_dir: Path,
    progress: Callable[[str], None],
) -> Fit | None:
    """The largest array of at most `fill` of the LUTs, or None."""
    costs, flow = [], _counting(config)
    for rows, columns in SAMPLES:
        progress(f"{rows} x {columns}")
        costs.append(measure_array(resized(config, rows, columns), flow, cache_dir))
    model, device, blocks = AreaModel.of(costs), DEVICES[DEVICE], costs[0].multipliers
    most = device.multipliers // blocks if blocks else inf
    largest = largest_array(config, model, fill * device.luts, most)
    if largest is None:
        return None
    progress(f"{largest.rows} x {largest.columns}")
    return Fit(measure_array(largest, flow, cache_dir), model)
