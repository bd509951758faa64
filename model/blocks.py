"""MXArray: element codes and their block scales."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import integer
from .formats import E8M0, ElementFormat, element_format

LARGEST_BLOCK = 65536  # block sums of every format stay exact in two float64 up to this length


@dataclass(frozen=True, init=False, eq=False)  # arrays have no one truth value to compare by
class MXArray:
    """Blocks of `block_size` consecutive elements along `axis` that share an E8M0 scale.

    codes: uint8, any shape; the axis a multiple of `block_size` long.
    scales: uint8, the shape of `codes` with that axis divided by `block_size`.
    Both are kept as read-only copies. format: an ElementFormat or its name.
    padding: zeros that quantisation appended to the axis.
    Raises TypeError for a wrong dtype and ValueError for a wrong shape, size or code.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.uint8]
    format: ElementFormat
    block_size: int
    axis: int
    padding: int

    def __init__(
        self,
        codes: ArrayLike,
        scales: ArrayLike,
        format: ElementFormat | str,  # noqa: A002  # the field's name
        block_size: int = 32,
        axis: int = -1,
        padding: int = 0,
    ) -> None:
        fmt = element_format(format)
        codes, scales = np.array(fmt.check(codes)), np.array(scales)
        block_size = integer("block_size", block_size, 1, LARGEST_BLOCK)
        axis = check_axis(codes.shape, axis)
        if scales.dtype != np.uint8:
            raise TypeError(f"scales must have dtype uint8, not {scales.dtype}")
        want = scale_shape(codes.shape, axis, block_size)
        if scales.shape != want:
            raise ValueError(f"scales must have shape {want}, not {scales.shape}")
        padding = integer("padding", padding, 0, block_size - 1)
        for kept in (codes, scales):
            kept.flags.writeable = False
        vars(self).update(  # the dataclass is frozen
            codes=codes,
            scales=scales,
            format=fmt,
            block_size=block_size,
            axis=axis,
            padding=padding,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `codes`."""
        return self.codes.shape

    def dequantize(self) -> NDArray[np.float32]:
        """Values, element x 2^(scale - 127), in the shape of `codes`; NaN under a NaN scale.

        Every value is exact but those of 2^128 and above, which are infinite.
        """
        codes, scales = self.blocks_last()
        values = self.format.values[codes] * E8M0.exact(scales)[..., None]
        with np.errstate(over="ignore"):
            narrow = values.astype(np.float32)
        moved = np.moveaxis(self.codes, self.axis, -1).shape
        return np.ascontiguousarray(np.moveaxis(narrow.reshape(moved), -1, self.axis))

    def blocks_last(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Codes (..., blocks, block_size) and scales (..., blocks): the axis comes last."""
        codes = np.moveaxis(self.codes, self.axis, -1)
        shape = (*codes.shape[:-1], codes.shape[-1] // self.block_size, self.block_size)
        return codes.reshape(shape), np.moveaxis(self.scales, self.axis, -1)


def check_axis(shape: tuple[int, ...], axis: int) -> int:
    """`axis` if it is an axis of `shape`, else ValueError."""
    if not shape:
        raise ValueError("an array in blocks must have at least one axis, not shape ()")
    return integer("axis", axis, -len(shape), len(shape) - 1)


def scale_shape(shape: tuple[int, ...], axis: int, block_size: int) -> tuple[int, ...]:
    """`shape` with `axis` divided by `block_size`; ValueError when it does not divide."""
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
    """`x` as float32 without loss; messages call it `name`.

    float32, float16 and bfloat16 convert exactly; float64 is taken when every value is a float32.
    Raises TypeError for other dtypes and ValueError for float64 values that would be rounded.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} must be an array without a mask, not {type(x).__name__}")
    x = np.asarray(x)
    if x.dtype.name not in ("float32", "float16", "bfloat16", "float64"):
        raise TypeError(f"{name} must be float32, float16, bfloat16 or float64, not {x.dtype}")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = x.astype(np.float32)
    if x.dtype == np.float64:
        lost = (narrow.astype(np.float64) != x) & ~np.isnan(x)
        if lost.any():
            value = float(x[lost].flat[0])
            raise ValueError(f"{name} of dtype float64 must hold float32 values, not {value!r}")
    return narrow
