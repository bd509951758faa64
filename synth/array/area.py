"""What a matrix unit costs, measured part by part: one dot unit, and everything around them."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...hw.verilog import generate, modules_of
from ...model.units.matmul.config import MatmulConfig
from .. import Cost, Flow, measure

TOP = "matmul"


@dataclass(frozen=True)
class ArrayCost:
    """A matrix unit: `unit` is one of its dot units, `rest` all but dot units and memories.

    Boundaries stay: each dot unit is the same module, as in a layout that places one and repeats
    it. memory_bits: of the buffers, which compiled memories or block RAMs hold.
    """

    config: MatmulConfig
    unit: Cost
    rest: Cost
    memory_bits: int

    @property
    def units(self) -> int:
        """How many dot units there are."""
        return self.config.rows * self.config.columns

    @property
    def area(self) -> float:
        """The whole without its memories, in the unit of the costs."""
        return self.units * self.unit.area + self.rest.area

    @property
    def depth(self) -> int | None:
        """The longest path of either part; None where the flow counts no levels."""
        depths = [part.depth for part in (self.unit, self.rest) if part.depth is not None]
        return max(depths, default=None)

    @property
    def delay_ps(self) -> float | None:
        """The longest path of either part in picoseconds; None where the flow does not time."""
        delays = [part.delay_ps for part in (self.unit, self.rest) if part.delay_ps is not None]
        return max(delays, default=None)

    @property
    def products(self) -> float:
        """Products of two elements in a cycle, at full utilisation."""
        return self.units * self.config.dot.lanes / self.config.pace


def resized(config: MatmulConfig, rows: int, columns: int) -> MatmulConfig:
    """The unit with another array, its streams as wide as a step."""
    options = {name: getattr(config, name) for name in ("depth", "initial_c", "keep_b")}
    return MatmulConfig(config.dot, rows, columns, **options)


def measure_array(config: MatmulConfig, flow: Flow, cache_dir: Path) -> ArrayCost:
    """The cost of `config` by `flow`; its dot unit is synthesised once for all arrays of it.

    SynthesisError or ModuleNotFoundError as `synth.measure`.
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
    """The modules that `top` needs, so that its cost does not depend on what is around it."""
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
        """The model of at least four arrays of one dot unit that differ in rows and in columns."""
        terms = [_terms(cost.config.rows, cost.config.columns) for cost in costs]
        if np.linalg.matrix_rank(np.array(terms)) < len(terms[0]):
            raise ValueError("costs must be of arrays that differ in rows, columns and both")
        rest = np.array([cost.rest.area for cost in costs])
        # Relative to the whole: what is small beside the dot units may be off by more.
        weights = 1 / np.array([cost.area for cost in costs])
        factors, *_ = np.linalg.lstsq(np.array(terms) * weights[:, None], rest * weights)
        errors = np.abs(np.array(terms) @ factors - rest) * weights
        once, per_row, per_column, per_unit = map(float, factors)
        error = float(errors.max())
        return cls(costs[0].unit.area, once, per_row, per_column, per_unit, error)

    def area(self, rows: int, columns: int) -> float:
        """The whole of an array of any size, without memories."""
        factors = (self.once, self.per_row, self.per_column, self.per_unit)
        rest = np.dot(factors, _terms(rows, columns))
        return rows * columns * self.unit + float(rest)


def _terms(rows: int, columns: int) -> tuple[int, int, int, int]:
    return 1, rows, columns, rows * columns


def largest_array(config: MatmulConfig, model: AreaModel, luts: float) -> MatmulConfig | None:
    """The array with the most dot units, at most twice as wide as high or as high as wide.

    luts: what it may take by `model`. None when not even one fits.
    """
    fitting = [
        (rows * columns, -abs(rows - columns), rows, columns)
        for rows in range(1, 65)
        for columns in range((rows + 1) // 2, min(2 * rows, 64) + 1)
        if model.area(rows, columns) <= luts
    ]
    if not fitting:
        return None
    *_, rows, columns = max(fitting)
    return resized(config, rows, columns)
