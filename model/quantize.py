"""Quantisation of float arrays to MX blocks (section 2 of docs/numerics.md).

MX is one of the schemes of `mxdot.model.schemes`; these functions are a shorter way to it.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .blocks import LARGEST_BLOCK, as_float32, check_axis, scale_shape
from .errors import flag, integer
from .formats import E8M0, ElementFormat, PowerFormat, ScaleFormat, code_format, element_format
from .schemes.array import MXArray
from .schemes.quantize import CHUNK, NONFINITE, check_policies, quantized, random_words
from .schemes.rules import SCALE_RULES, rule_named
from .schemes.table import mx

__all__ = ["BLOCK", "NONFINITE", "SCALE_RULES", "block_of", "held_codes", "quantize", "unscaled"]

BLOCK = 32
"""Elements of a block of OCP MX."""


def quantize(
    x: ArrayLike,
    fmt: ElementFormat | str,
    *,
    block_size: int = BLOCK,
    axis: int = -1,
    scale_rule: str = "floor",
    rounding: str = "nearest_even",
    nonfinite: str = "poison",
    rng: np.random.Generator | NDArray[np.uint32] | None = None,
    pad: bool = False,
) -> MXArray:
    """Quantise `x` in blocks of `block_size` along `axis`.

    x: float32, float16, bfloat16, float64 that holds float32 values, or an FP8, FP6 or FP4 type of
    ml_dtypes; any shape.
    scale_rule: ``floor`` (OCP MX v1.0, section 6.3), ``ceil`` (the least scale without saturation)
    ``even`` (floor after rounding amax to the element's significand), or a registered rule.
    nonfinite: ``poison`` gives a block with NaN or infinity the NaN scale and zero codes;
    ``element`` keeps them as elements where the format has them.
    rng: for ``stochastic`` rounding, a Generator or one uint32 word per element of the padded `x`;
    other roundings ignore it.
    pad: append zeros up to a whole block; `padding` of the result is their number.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    fmt = element_format(fmt, "fmt")
    rule_named("scale_rule", scale_rule, powers=True)
    check_policies(rounding, nonfinite)
    block_size = integer("block_size", block_size, 1, LARGEST_BLOCK)
    flag("pad", pad)
    values, axis, padding = _in_blocks(x, block_size, axis, pad)
    words = random_words(rng, values.shape) if rounding == "stochastic" else None
    scheme = mx(fmt, block_size, scale_rule)
    parts = quantized(values, scheme, axis, None, rounding, nonfinite, words, CHUNK)
    return MXArray.of_valid_codes(parts.codes, parts.scales[0], fmt, block_size, axis, padding)


def unscaled(
    x: ArrayLike,
    fmt: ElementFormat | str,
    *,
    block_size: int = BLOCK,
    axis: int = -1,
    rounding: str = "nearest_even",
    rng: np.random.Generator | NDArray[np.uint32] | None = None,
    pad: bool = False,
) -> MXArray:
    """`x` in format `fmt` under scales of 1, for FP16, BF16 and TF32.

    `ElementFormat.encode` rounds and saturates; NaN and infinities are the format's own. Arguments
    and errors are those of `quantize`; NaN in a format without NaN raises ValueError.
    """
    fmt = element_format(fmt, "fmt")
    block_size = integer("block_size", block_size, 1, LARGEST_BLOCK)
    flag("pad", pad)
    values, axis, padding = _in_blocks(x, block_size, axis, pad)
    words = random_words(rng, values.shape) if rounding == "stochastic" else None
    codes = fmt.encode(values, rounding, words)
    shape = scale_shape(values.shape, axis, block_size)
    scales = np.full(shape, E8M0.encode(0), E8M0.dtype)
    return MXArray.of_valid_codes(codes, scales, fmt, block_size, axis, padding)


def held_codes(x: Any, block_size: int, scale_format: ScaleFormat = E8M0) -> Any:
    """An FP8, FP6 or FP4 array of ml_dtypes as codes under scales of 1; anything else itself."""
    fmt = code_format(x)
    if fmt is None or not isinstance(x, np.ndarray):
        return x
    axis = check_axis(x.shape, -1)
    shape = scale_shape(x.shape, axis, block_size)
    one = scale_format.encode(0 if isinstance(scale_format, PowerFormat) else np.float32(1))
    return MXArray(x, np.full(shape, one, np.uint8), fmt, block_size, axis)


def block_of(*arrays: object) -> int:
    """Block size of the first MXArray, or `BLOCK`."""
    return next((x.block_size for x in arrays if isinstance(x, MXArray)), BLOCK)


def _in_blocks(
    x: ArrayLike, block_size: int, axis: int, pad: bool
) -> tuple[NDArray[np.float32], int, int]:
    """(`x` as float32, padded to whole blocks if `pad`; the axis; the number of zeros)."""
    values = as_float32(x)
    axis = check_axis(values.shape, axis)
    padding = -values.shape[axis] % block_size if pad else 0
    if padding:
        widths = [(0, 0)] * values.ndim
        widths[axis] = (0, padding)
        values = np.pad(values, widths)
    scale_shape(values.shape, axis, block_size)
    return values, axis, padding
