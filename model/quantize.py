"""Quantisation of float arrays to MX blocks (section 2 of the numeric contract).

Only exponents and significands are looked at: no logarithm and no division is rounded anywhere.
"""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .blocks import LARGEST_BLOCK, MXArray, as_float32, check_axis, scale_shape
from .errors import choice, flag, integer
from .formats import E8M0, ROUNDINGS, ElementFormat, element_format

SCALE_RULES = ("floor", "ceil", "even")
NONFINITE = ("poison", "element")


def quantize(
    x: ArrayLike,
    fmt: ElementFormat | str,
    *,
    block_size: int = 32,
    axis: int = -1,
    scale_rule: str = "floor",
    rounding: str = "nearest_even",
    nonfinite: str = "poison",
    rng: np.random.Generator | NDArray[np.uint32] | None = None,
    pad: bool = False,
) -> MXArray:
    """Quantise `x` in blocks of `block_size` along `axis`.

    x: float32, float16, bfloat16, or float64 that holds float32 values; any shape.
    scale_rule: ``floor`` (OCP MX v1.0, section 6.3), ``ceil`` (least scale that saturates nothing)
    or ``even`` (floor after rounding amax to the element's significand).
    nonfinite: ``poison`` gives a block that holds NaN or Inf the NaN scale and zero codes;
    ``element`` passes them as elements where the format has them.
    rng: for ``stochastic`` rounding, a Generator or one uint32 word per element (shape of the
    padded `x`); other roundings ignore it.
    pad: append zeros up to a whole block; the result's `padding` says how many.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    fmt = element_format(fmt, "fmt")
    choice("scale_rule", scale_rule, SCALE_RULES)
    choice("rounding", rounding, ROUNDINGS)
    choice("nonfinite", nonfinite, NONFINITE)
    block_size = integer("block_size", block_size, 1, LARGEST_BLOCK)
    flag("pad", pad)
    values = as_float32(x)
    axis = check_axis(values.shape, axis)
    padding = -values.shape[axis] % block_size if pad else 0
    if padding:
        widths = [(0, 0)] * values.ndim
        widths[axis] = (0, padding)
        values = np.pad(values, widths)
    scale_shape(values.shape, axis, block_size)
    words = _random_words(rng, values.shape) if rounding == "stochastic" else None

    moved = np.moveaxis(values, axis, -1)
    blocks = moved.reshape(*moved.shape[:-1], moved.shape[-1] // block_size, block_size)
    if words is not None:
        words = np.moveaxis(words, axis, -1).reshape(blocks.shape)
    codes, scales = _quantize_blocks(blocks, fmt, scale_rule, rounding, nonfinite, words)
    return MXArray(
        np.ascontiguousarray(np.moveaxis(codes.reshape(moved.shape), -1, axis)),
        np.ascontiguousarray(np.moveaxis(scales, -1, axis)),
        fmt,
        block_size,
        axis,
        padding,
    )


def _random_words(
    rng: np.random.Generator | NDArray[np.uint32] | None, shape: tuple[int, ...]
) -> NDArray[np.uint32]:
    if isinstance(rng, np.random.Generator):
        return rng.integers(0, 2**32, shape, dtype=np.uint32)
    if isinstance(rng, np.ndarray) and rng.dtype == np.uint32 and rng.shape == shape:
        return rng
    got = f"{rng.dtype} {rng.shape}" if isinstance(rng, np.ndarray) else repr(rng)
    raise ValueError(
        f"rng must be a numpy Generator or uint32 words of shape {shape} "
        f"for stochastic rounding, not {got}"
    )


def _quantize_blocks(
    blocks: NDArray[np.float32],
    fmt: ElementFormat,
    scale_rule: str,
    rounding: str,
    nonfinite: str,
    words: NDArray[np.uint32] | None,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Codes (..., n, k) and scales (..., n) of blocks (..., n, k)."""
    finite = np.isfinite(blocks)
    magnitude = np.where(finite, np.abs(blocks), np.float32(0)).astype(np.float64)
    amax = magnitude.max(axis=-1)
    exponent = np.clip(shared_exponent(amax, fmt, scale_rule), *E8M0.exponent_range)
    exponent = np.where(amax == 0, E8M0.exponent_range[0], exponent)

    kept = finite
    if nonfinite == "element":
        kept = ~np.isnan(blocks) if fmt.nan_code is None else np.ones_like(finite)
    poisoned = (~kept).any(axis=-1)
    taken = np.where(np.expand_dims(poisoned, -1), np.float32(0), blocks)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        taken = taken.astype(np.float64)
    codes = fmt.encode(np.ldexp(taken, -exponent[..., None]), rounding, words)
    scales = np.where(poisoned, E8M0.nan_code, E8M0.encode(exponent)).astype(np.uint8)
    return codes, scales


class Range(Protocol):
    """What a shared exponent depends on: the largest value's exponent and its mantissa bits."""

    @property
    def emax(self) -> int: ...
    @property
    def mantissa_bits(self) -> int: ...
    @property
    def largest_finite(self) -> float: ...


def shared_exponent(amax: NDArray[np.float64], fmt: Range, scale_rule: str) -> NDArray[np.int64]:
    """The block's exponent before clamping, for positive `amax` (any value for 0)."""
    fraction, exponent = np.frexp(amax)
    exponent = exponent.astype(np.int64) - 1  # floor(log2(amax)); amax = 2 fraction x 2^exponent
    significand = np.ldexp(fraction, fmt.mantissa_bits + 1)  # in [2^m, 2^(m+1))
    if scale_rule == "even":
        carries = np.floor(significand + 0.5) >= 2.0 ** (fmt.mantissa_bits + 1)
        return exponent - fmt.emax + carries
    if scale_rule == "ceil":
        # The least e with amax <= largest x 2^e compares the two significands in [1, 2).
        largest = fmt.largest_finite / 2.0**fmt.emax
        return exponent - fmt.emax + (2 * fraction > largest)
    return exponent - fmt.emax
