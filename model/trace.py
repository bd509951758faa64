"""What a dot product leaves behind besides its result: status flags and every intermediate."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .formats import FLOAT32, FloatFormat

FLAG_NAMES = ("invalid", "overflow", "underflow", "inexact", "saturated")


@dataclass(frozen=True)
class Flags:
    """Status flags of dot products, bool arrays of the shape of the result, sticky over its blocks.

    invalid: the result is NaN. overflow: a rounding of finite values gave an infinity.
    underflow: a rounding lost bits and its result is subnormal or zero. inexact: a non-zero bit was
    discarded anywhere (alignment, rounding). saturated: a fixed register left its range.
    """

    invalid: NDArray[np.bool_]
    overflow: NDArray[np.bool_]
    underflow: NDArray[np.bool_]
    inexact: NDArray[np.bool_]
    saturated: NDArray[np.bool_]


@dataclass(frozen=True)
class Trace:
    """A result with its flags and stages.

    Leading axes are those of the result; then come steps (a block, or a preset's part of one, in
    order) and, for per-term stages, terms. `stages` maps a stage's name to its array, in the order
    of the datapath; the names present depend on the accumulator:

    product, product_exponent: int64, value = product x 2^product_exponent (0 for special terms).
    unit_exponent: int64, NO_EXPONENT for a zero product. scale: int64, s of the step.
    factor: float64, g of the step, where scales have a significand.
    largest_exponent: int64, the emax of the alignment (0 for `aligned` zeros alone).
    aligned: float64 integers t_i; aligned_c: c on the same grid (fused).
    tree1, tree2, ...: float32, the terms left after each level (float32).
    integer_sum: object (Python integers), the sum of the products or of t_i, where 1 stands for
    2^(emax - F) behind an alignment, c included, else for the products' last digit.
    block_result: float64, D (aligned), the tree (float32) or the exact block sum rounded to odd.
    addend: object (Python integers), what a fixed register adds, times 2^-L.
    partial: float32, a promoted preset's partial sum. accumulator: c after the step, float32;
    for a fixed register, Python integers.
    """

    result: NDArray
    flags: Flags
    stages: dict[str, NDArray]


@dataclass
class Recorder:
    """Collects flags and stages, each on request, while a rule runs over n dot products."""

    shape: tuple[int, ...]
    flags: bool = True
    keep_stages: bool = False
    overflow: NDArray[np.bool_] = field(init=False)
    underflow: NDArray[np.bool_] = field(init=False)
    inexact: NDArray[np.bool_] = field(init=False)
    saturated: NDArray[np.bool_] = field(init=False)
    stages: dict[str, list[NDArray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in FLAG_NAMES[1:]:
            setattr(self, name, np.zeros(self.shape, dtype=np.bool_))

    def stage(self, name: str, value: NDArray) -> None:
        """Keep a copy of one step's `value`, with leading axes `shape`."""
        if self.keep_stages:
            self.stages.setdefault(name, []).append(np.array(value))

    def truncated(self, where: NDArray[np.bool_]) -> None:
        """Bits that are not zero were cut off in these dot products."""
        self.inexact |= where

    def rounded(
        self,
        exact: NDArray[np.float64],
        result: NDArray,
        active: NDArray[np.bool_] | bool = True,
        fmt: FloatFormat = FLOAT32,
    ) -> None:
        """A rounding of `exact` (or of it rounded to odd) to `result`, of `fmt`, where `active`.

        All of them may have an axis more, of several roundings of each dot product.
        """
        if not self.flags:
            return
        got = result.astype(np.float64)
        overflow = np.isinf(got) & active
        inexact = ((got != exact) & active) | overflow
        underflow = inexact & (np.abs(got) < fmt.smallest_normal)
        if got.ndim > len(self.shape):
            overflow, inexact, underflow = (x.any(-1) for x in (overflow, inexact, underflow))
        self.inexact |= inexact
        self.overflow |= overflow
        self.underflow |= underflow

    def trace(self, result: NDArray) -> Trace:
        """What was collected, with the `result` of shape `shape`."""
        flags = Flags(
            np.isnan(result.astype(np.float32)),
            self.overflow,
            self.underflow,
            self.inexact,
            self.saturated,
        )
        axis = len(self.shape)
        stages = {name: np.stack(steps, axis=axis) for name, steps in self.stages.items()}
        return Trace(result, flags, stages)
