"""Checks of arrays in blocks: sizes, axes, float32 values, and running values."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import dtype_name, is_tensor
from .errors import integer
from .formats.table import code_format
from .rounding import F32

LARGEST_BLOCK = 65536  # integer sums of blocks stay within 32 bits up to this length


def check_axis(shape: tuple[int, ...], axis: int) -> int:
    """`axis` if it is an axis of `shape`, else ValueError."""
    if not shape:
        raise ValueError("an array in blocks must have at least one axis, not shape ()")
    return integer("axis", axis, -len(shape), len(shape) - 1)


def scale_shape(shape: tuple[int, ...], axis: int, block_size: int) -> tuple[int, ...]:
    """`shape` with `axis` divided by `block_size`; ValueError unless it divides."""
    length = shape[axis]
    if length % block_size:
        raise ValueError(
            f"axis {axis} must be a multiple of block_size {block_size} long, not {length}"
            " (pad=True of quantize pads with zeros)"
        )
    scales = list(shape)
    scales[axis] = length // block_size
    return tuple(scales)


def as_float32(x: ArrayLike, name: str = "x") -> NDArray[np.float32]:
    """`x` as float32 without loss; `name` is its name in messages.

    float32, float16, bfloat16, and FP8, FP6 and FP4 of ml_dtypes convert exactly; float64 must hold
    float32 values.
    Raises TypeError for other dtypes and ValueError for float64 values that would be rounded.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} must be an array without a mask, not {type(x).__name__}")
    try:
        x = np.asarray(x)
    except (TypeError, RuntimeError):
        given: Any = x
        if not is_tensor(given):
            raise
        raise TypeError(
            f"{name} must be an array that NumPy reads, not a torch.Tensor of "
            f"{dtype_name(given)} on {given.device}: mxdot.gpu takes tensors"
        ) from None
    if x.dtype == np.float32:
        return x.astype(np.float32)
    if x.dtype.name not in ("float32", "float16", "bfloat16", "float64") and code_format(x) is None:
        raise TypeError(f"{name} must be float32, float16, bfloat16 or float64, not {x.dtype}")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = x.astype(np.float32)
    if x.dtype.name == "float64":
        rounded = (narrow.astype(np.float64) != x) & ~np.isnan(x)
        if rounded.any():
            value = float(x[rounded].flat[0])
            raise ValueError(
                f"{name} of dtype float64 must hold float32 values, not {value!r}: "
                "astype(np.float32) rounds them"
            )
    return narrow


def running_value(c: ArrayLike | None, lead: tuple[int, ...]) -> F32:
    """`c` broadcast to `lead`, flattened; -0 counts as +0."""
    size = int(np.prod(lead, dtype=np.int64))
    if c is None:
        return np.zeros(size, np.float32)
    values = as_float32(c, "c")
    try:
        values = np.broadcast_to(values, lead)
    except ValueError:
        raise ValueError(f"c must broadcast to shape {lead}, not {values.shape}") from None
    return np.where(values == 0, np.float32(0), values).reshape(size)
