"""Builds the stand-in unit in the bench top; its blocks, and what it makes of them."""

from pathlib import Path

import numpy as np

from mxdot.model import DotConfig
from mxdot.sim.dot.unit import BENCH, layout, write_records
from mxdot.sim.engine import verilator
from mxdot.sim.engine.verilator import BENCH_TOP, Build

STANDIN = Path(__file__).with_name("standin.v")


def build_standin(directory: Path, source: Path = STANDIN, **options) -> Build:
    parameters = layout(DotConfig("e4m3")).parameters
    return verilator.build(
        source, BENCH_TOP, directory, extra_sources=[BENCH], parameters=parameters, **options
    )


class Blocks:
    """Random blocks in chains of random length, and what the stand-in makes of them."""

    def __init__(self, count: int, seed: int):
        rng = np.random.default_rng(seed)
        self.a, self.b = rng.integers(0, 256, (2, count, 32), dtype=np.uint8)
        self.scale_a, self.scale_b = rng.integers(0, 256, (2, count), dtype=np.uint8)
        self.c = rng.integers(0, 2**32, count, dtype=np.uint32)
        self.last = rng.random(count) < 0.3
        self.last[-1] = True
        self.first = np.r_[True, self.last[:-1]]

    def write(self, path: Path) -> Path:
        fields = (self.a, self.b, self.scale_a, self.scale_b, self.c, self.first, self.last)
        write_records(path, *fields)
        return path

    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        """(result, flags) per dot product."""
        terms = (self.a.astype(np.int64) * self.b).sum(axis=1) + self.scale_a + self.scale_b
        chain = np.cumsum(self.first) - 1
        sums = np.zeros(chain[-1] + 1, np.int64)
        np.add.at(sums, chain, terms + np.where(self.first, self.c, 0))
        result = (sums % 2**32).astype(np.uint32)
        nan = ((self.scale_a == 255) | (self.scale_b == 255))[self.last]
        return result, (nan | (result & 15) << 1).astype(np.uint8)
