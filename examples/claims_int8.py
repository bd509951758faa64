"""A small network trained in MX INT8 whose codes end at -128, at -127, or that is not quantised.

In NumPy, for the contract's own INT8 ends at -127: a student of 32 -> 128 -> 32 features learns
what a teacher of its shape computes. All three products of a layer are quantised, in blocks of 32
along the axis that is summed over.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
BLOCK, FEATURES, HIDDEN, ROWS = 32, 32, 128, 64
STEPS, RATE, MOMENTUM = 300, 0.05, 0.9


@dataclass(frozen=True)
class Trained:
    """loss: on new rows, of the teacher's variance. shift: how far quantisation moves the mean of
    the gradients of the layers' outputs, of their mean magnitude, where negative numbers are not
    treated as positive ones are.
    """

    loss: float
    shift: float


def quantize(x: F64, lowest: int | None) -> F64:
    """Values of MX INT8 by ``floor`` along the last axis, codes from `lowest` to 127."""
    if lowest is None:
        return x
    blocks = x.reshape(-1, BLOCK)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    steps = np.exp2(np.floor(np.log2(np.maximum(largest, 2.0**-100))) - 6)
    return (np.clip(np.rint(blocks / steps), lowest, 127) * steps).reshape(x.shape)


def train(lowest: int | None, seed: int) -> Trained:
    """One run; a seed draws the same teacher, start and batches whatever `lowest` is."""
    rng = np.random.default_rng(seed)
    shapes = (HIDDEN, FEATURES), (FEATURES, HIDDEN)
    teacher = [rng.standard_normal(shape) / shape[1] ** 0.5 for shape in shapes]
    weights = [0.5 * rng.standard_normal(shape) / shape[1] ** 0.5 for shape in shapes]
    speeds = [np.zeros(shape) for shape in shapes]
    added, size = 0.0, 0.0

    def product(a: F64, b: F64) -> F64:
        """a b^T, both quantised along the axis that is summed over."""
        return quantize(a, lowest) @ quantize(b, lowest).T

    for _ in range(STEPS):
        x = rng.standard_normal((ROWS, FEATURES))
        inside = product(x, weights[0])
        hidden = np.maximum(inside, 0)
        error = product(hidden, weights[1]) - _output(teacher, x)
        back = product(error, weights[1].T.copy()) * (inside > 0)
        for gradient in (error, back):
            there, back_again = (quantize(sign * gradient, lowest) for sign in (1, -1))
            added += (there + back_again).sum() / 2
            size += np.abs(gradient).sum()
        slopes = product(back.T.copy(), x.T.copy()), product(error.T.copy(), hidden.T.copy())
        for weight, speed, slope in zip(weights, speeds, slopes, strict=True):
            speed *= MOMENTUM
            speed += slope / ROWS
            weight -= RATE * speed
    x = rng.standard_normal((1024, FEATURES))
    want = _output(teacher, x)
    loss = np.square(_output(weights, x) - want).mean() / want.var()
    return Trained(float(loss), added / size)


def _output(weights: list[F64], x: F64) -> F64:
    return np.maximum(x @ weights[0].T, 0) @ weights[1].T
