"""Status flags and intermediate values of dot products."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .formats import FLOAT32, FloatFormat

FLAG_NAMES = ("invalid", "overflow", "underflow", "inexact", "saturated")


@dataclass(frozen=True)
class Flags:
    """Status flags of dot products: bool arrays of the result's shape, sticky over all blocks.

    invalid: the result is NaN. overflow: a rounding of finite values gave an infinity.
    underflow: a rounding lost bits, and its result is subnormal or zero. inexact: an alignment or a
    rounding discarded a non-zero bit. saturated: a fixed register left its range.
    """

    invalid: NDArray[np.bool_]
    overflow: NDArray[np.bool_]
    underflow: NDArray[np.bool_]
    inexact: NDArray[np.bool_]
    saturated: NDArray[np.bool_]


@dataclass(frozen=True)
class Trace:
    """A result with its flags and stages.

    `stages` maps names to arrays, in the order of the datapath. The axes of an array are the axes
    of the result, then the steps in order (a block, or a preset's part of a block), then the terms
    of stages that have them. The accumulator decides which of these stages there are:

    product, product_exponent: int64, value = product x 2^product_exponent (0 for special terms).
    unit_exponent: int64, NO_EXPONENT for a zero product. scale: int64, s of the step.
    factor: float64, g of the step, where scales have a significand.
    largest_exponent: int64, the emax of the alignment (0 for `aligned` zeros alone).
    aligned: float64 integers t_i; aligned_c: c on the same grid (fused).
    tree1, tree2, ...: float32, the terms left after each level (float32).
    integer_sum: object (Python integers), the sum of the products, or of t_i and c after an
    alignment; in units of the products' last digit, or of 2^(emax - F).
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
    """Collector of flags and stages while a rule runs; each can be turned off."""

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
        """Keep a copy of one step's `value`, whose first axes are `shape`."""
        if self.keep_stages:
            self.stages.setdefault(name, []).append(np.array(value))

    def truncated(self, where: NDArray[np.bool_]) -> None:
        """Record that non-zero bits were cut off in the dot products `where` is true."""
        self.inexact |= where

    def overflowed(self, where: NDArray[np.bool_]) -> None:
        """Record that finite values gave an infinity in the dot products `where` is true."""
        self.overflow |= where
        self.inexact |= where

    def rounded(
        self,
        exact: NDArray[np.float64],
        result: NDArray,
        active: NDArray[np.bool_],
        fmt: FloatFormat = FLOAT32,
    ) -> None:
        """Record a rounding of `exact`, or of it rounded to odd, to `result` where `active`.

        fmt: format of the result. The arrays may have one axis more, for several roundings per dot
        product.
        """
        if not self.flags:
            return
        rounded = result.astype(np.float64)
        overflow = np.isinf(rounded) & active
        inexact = ((rounded != exact) & active) | overflow
        underflow = inexact & (np.abs(rounded) < fmt.smallest_normal)
        if rounded.ndim > len(self.shape):
            overflow, inexact, underflow = (x.any(-1) for x in (overflow, inexact, underflow))
        self.inexact |= inexact
        self.overflow |= overflow
        self.underflow |= underflow

    def trace(self, result: NDArray) -> Trace:
        """The collected flags and stages with the `result` of shape `shape`."""
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
