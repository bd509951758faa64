"""A linear layer through the simulated matrix unit, against the model, with its figures."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.blocks import as_float32
from ...model.errors import choice
from ...model.formats import E8M0
from ...model.quantize import SCALE_RULES
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.layout import unpack_c
from ...model.units.quantize import AMAX
from ...util.data.tensors import Rows, code_format
from ...util.data.weights import HeldRows
from ...util.files import write_file
from ..engine.verilator import Build
from .item import predict
from .stimulus import real_product
from .unit import build_matmul, run_bulk

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class LayerRun:
    """Figures of one layer.

    tokens, outputs, length: M, N and K of activations (M, K) x weight (N, K)^T. results, wrong:
    results compared with the model, and how many of them differ. flags, model_flags: FLAGS of the
    unit and of the model. counters: the unit's, by name. bytes_moved: of each stream. seconds:
    wall-clock time of the simulation, and of the model.
    """

    name: str
    unit: str
    dot_units: int
    lanes: int
    scale_rule: str
    tokens: int
    outputs: int
    length: int
    results: int
    wrong: int
    flags: int
    model_flags: int
    counters: dict[str, int]
    bytes_moved: dict[str, int]
    simulation_seconds: float
    model_seconds: float

    @property
    def right(self) -> bool:
        """True when every result and every flag is the model's."""
        return self.wrong == 0 and self.flags == self.model_flags

    @property
    def cycles(self) -> int:
        """Cycles from the start to the last beat of C."""
        return self.counters["CYCLES"]

    @property
    def utilisation(self) -> float:
        """The share of the cycles in which the array took a step."""
        return self.counters["STEPS"] / self.cycles

    @property
    def useful(self) -> float:
        """Products of the layer against what all dot units could do in these cycles.

        Less than `utilisation` where tiles are filled up.
        """
        return self.products / (self.cycles * self.dot_units * self.lanes)

    @property
    def products(self) -> int:
        """Element products of the layer."""
        return self.tokens * self.outputs * self.length

    def seconds_at(self, megahertz: float) -> float:
        """The time that the layer takes at this clock."""
        return self.cycles / (megahertz * 1e6)

    def to_dict(self, megahertz: float) -> dict[str, Any]:
        """Plain JSON types, with the derived figures."""
        seconds = self.seconds_at(megahertz)
        return asdict(self) | {
            "utilisation": self.utilisation,
            "useful": self.useful,
            "clock_mhz": megahertz,
            "seconds_at_clock": seconds,
            "products_per_second_at_clock": self.products / seconds,
            "bytes_per_second_at_clock": {s: n / seconds for s, n in self.bytes_moved.items()},
        }


def run_layer(
    config: MatmulConfig,
    build: Build,
    name: str,
    activations: Rows,
    weight: Rows,
    directory: Path,
    *,
    mode: int = 0,
    scale_rule: str | None = None,
    gap: int = 0,
    stall: int = 0,
    seed: int = 1,
    progress: Progress | None = None,
) -> LayerRun:
    """Quantise a layer, stream it through the unit in bulk, compare every bit with the model's.

    activations: floats (M, K), weight: (N, K); both are quantised along K into blocks of the unit's
    lanes, in the formats of `mode`. FP8 arrays are codes of these, under scales of one. HeldRows
    are as for `quantized`.
    scale_rule: of E8M0 scales, None is floor; those of E4M3 have amax, under a float32 for each
    row, which the unit leaves out. gap, stall: chances in 1/256 that a stream pauses in a cycle.
    Raises TypeError or ValueError for arrays that do not fit.
    """
    x, y = (
        tensor
        if isinstance(tensor, HeldRows) or code_format(tensor) is not None
        else as_float32(tensor, name)
        for name, tensor in (("activations", activations), ("weight", weight))
    )
    is_matrix = len(x.shape) == len(y.shape) == 2
    if not is_matrix or x.shape[1] != y.shape[1] or 0 in (*x.shape, *y.shape):
        shapes = f"{x.shape} and {y.shape}"
        raise ValueError(f"activations and weight must be (M, K) and (N, K), not {shapes}")
    scale_rule = scale_rule_of(config, scale_rule)
    product = real_product(config, mode, x, y, scale_rule)
    m, n, _ = product.shape
    run = run_bulk(
        build, config, product, directory / name, gap=gap, stall=stall, seed=seed, progress=progress
    )
    started = time.perf_counter()
    want = predict(config, product)
    model_seconds = time.perf_counter() - started
    got = unpack_c(run.packet, config, m, n)
    tiles = product.tiles(config)
    return LayerRun(
        name=name,
        unit=str(config),
        dot_units=config.rows * config.columns,
        lanes=config.dot.lanes,
        scale_rule=scale_rule,
        tokens=m,
        outputs=n,
        length=x.shape[1],
        results=want.result.size,
        wrong=int((_bits(got) != _bits(want.result)).sum()),
        flags=run.flags,
        model_flags=want.flags,
        counters=run.counters,
        bytes_moved={side: config.bytes_of(side, tiles) for side in ("a", "b", "c")},
        simulation_seconds=run.seconds,
        model_seconds=model_seconds,
    )


def scale_rule_of(config: MatmulConfig, given: str | None) -> str:
    """The rule of the unit's scales; ValueError for a rule that they do not have."""
    scales = config.dot.scales
    if scales == E8M0.name:
        return choice("scale_rule", given or SCALE_RULES[0], SCALE_RULES)
    return choice(f"scale_rule of {scales} scales", given or AMAX, (AMAX,))


def build_for(config: MatmulConfig, directory: Path) -> Build:
    """The simulation of the generated unit; an unchanged unit is not built again."""
    from ...hw.verilog import generate

    verilog = directory / "mxdot_matmul.v"
    text = generate(config)
    if not verilog.is_file() or verilog.read_text() != text:
        write_file(verilog, text)
    return build_matmul(config, verilog, directory / "build")


def _bits(c: NDArray) -> NDArray:
    return np.ascontiguousarray(c).view(f"u{c.itemsize}")
