"""The blocks that a quantiser makes, by the quantisation of schemes."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..blocks import as_float32, check_axis, scale_shape
from ..errors import integer
from ..formats import E4M3
from ..quantize import quantize
from ..schemes.array import ScaledArray
from ..schemes.quantize import CHUNK, quantized_within, random_words

if TYPE_CHECKING:
    from .quantize import QuantizeConfig


def quantize_blocks(
    unit: "QuantizeConfig",
    x: ArrayLike,
    words: NDArray[np.uint32] | None,
    mode: int,
    rule: int,
    outer: ArrayLike | None,
) -> ScaledArray:
    """See `QuantizeConfig.quantize`."""
    x = np.asarray(x)
    if x.dtype != unit.source.dtype:
        raise TypeError(f"x must be {unit.source.name}, the unit's source, not {x.dtype}")
    integer("mode", mode, 0, unit.modes - 1)
    integer("rule", rule, 0, len(unit.scale_rules) - 1)
    check_axis(x.shape, -1)
    grid = scale_shape(x.shape, -1, unit.block)
    scales = None if outer is None and not unit.divides else _outer(unit, outer, grid)
    if words is None and unit.is_stochastic and not unit.word_bits:
        words = unit.random_words(x.size // unit.block).reshape(x.shape)
    scheme = unit.scheme(mode, rule)
    if unit.select is None and len(scheme.levels) == 1 and scheme.elements[0].is_mx:
        return quantize(
            x,
            unit.formats[mode],
            block_size=unit.block,
            scale_rule=unit.scale_rules[rule],
            rounding=unit.rounding,
            nonfinite=unit.nonfinite,
            rng=words,
        )
    random = random_words(words, x.shape) if unit.is_stochastic else None
    policies = (unit.rounding, unit.nonfinite, random, CHUNK)
    if scales is None:
        parts = quantized_within(as_float32(x), scheme, -1, None, *policies)
        return ScaledArray.of_valid_parts(scheme, *parts, -1)
    poisoned = ~(np.isfinite(scales) & (scales > 0))
    # The limit that makes this scale: exact in float64, and so is the quotient.
    high = np.where(poisoned, 1.0, scales.astype(np.float64))
    high = high.reshape(prod(grid[:-1]), grid[-1])
    high = high * scheme.room(0, scheme.elements[0])
    parts = quantized_within(as_float32(x), scheme, -1, (-high, high), *policies)
    parts.codes[np.repeat(poisoned, unit.block, axis=-1)] = 0
    parts.scales[0][poisoned] = np.nan
    parts.scales[1][poisoned] = E4M3.nan_code
    return ScaledArray.of_valid_parts(scheme, *parts, -1)


def _outer(
    unit: "QuantizeConfig", outer: ArrayLike | None, grid: tuple[int, ...]
) -> NDArray[np.float32]:
    """`outer` as an array of one for each block."""
    if outer is None or not unit.divides:
        wanted = "a float32 for each block" if unit.divides else "None: this unit has none"
        raise ValueError(f"outer must be {wanted}, not {outer}")
    scales = np.asarray(outer)
    if scales.dtype != np.float32 or scales.shape not in ((), grid):
        raise ValueError(
            f"outer must be float32 of shape {grid} or a scalar, "
            f"not {scales.dtype} of shape {scales.shape}"
        )
    return np.broadcast_to(scales, grid)
