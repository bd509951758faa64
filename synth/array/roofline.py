"""The roofline of a matrix unit: what its dot units can do, and what its streams can feed.

Williams, Waterman and Patterson, Roofline (CACM 52(4), 2009), with products of two elements for
operations and the packets of a job for memory traffic.
"""

from dataclasses import dataclass

from ...model.units.matmul.config import MatmulConfig

Shape = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = (
    (8, 384, 384),
    (128, 384, 384),
    (128, 1536, 384),
    (128, 384, 1536),
    (1024, 1024, 1024),
)
"""M, N, K: layers of the real encoder for some and many rows, and a large square."""
BANDWIDTHS = (16, 64, 256)
"""Bytes a cycle: streams of 128, 512 and 2048 bits in all."""


@dataclass(frozen=True)
class Job:
    """A product on a matrix unit. products: of two elements, those that fill tiles left out."""

    shape: Shape
    products: int
    bytes: int
    steps: float
    peak: float
    """Products in a cycle of the whole array."""

    @classmethod
    def of(cls, config: MatmulConfig, shape: Shape) -> "Job":
        """The product (M, K) x (K, N); ValueError where `config` cannot compute it."""
        m, n, k = shape
        tiles = config.tiles(m, n, k)
        moved = sum(config.bytes_of(side, tiles) for side in (*config.inputs, "c"))
        steps = tiles.steps * config.pace
        return cls(shape, m * n * k, moved, steps, peak(config))

    @property
    def intensity(self) -> float:
        """Products for each byte that a stream moves."""
        return self.products / self.bytes

    @property
    def filled(self) -> float:
        """The share of the dot units' work that is not filling up tiles."""
        return self.products / (self.steps * self.peak)

    def attainable(self, bandwidth: float) -> float:
        """Products in a cycle, with `bandwidth` bytes in a cycle for all streams together."""
        return min(self.peak * self.filled, bandwidth * self.intensity)


def peak(config: MatmulConfig) -> float:
    """Products in a cycle: dot units x lanes, over the cycles of a step."""
    return config.rows * config.columns * config.dot.lanes / config.pace


def full_width(config: MatmulConfig) -> int:
    """Bytes in a cycle that all streams of the unit move together at most."""
    return sum(config.stream_bytes(side) for side in (*config.inputs, "c"))
