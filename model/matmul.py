"""Matrix products of arrays of any scheme, bit for bit as docs/numerics.md states."""

from itertools import product
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .accumulators import Accumulator, check_known, warn_of_operands
from .accumulators import accumulator as find_rule
from .blocks import LARGEST_BLOCK, running_value
from .dot import as_operands, by_codes, check_operands, check_scales
from .errors import flag, integer
from .formats import E8M0, ScaleFormat
from .rounding import F32
from .schemes.array import MXArray, ScaledArray
from .schemes.operand import operand
from .schemes.products import accumulate, scaled_product, weight_only, with_nan
from .schemes.regions import check_pair
from .trace import Trace

LANES = 128
REUSED = 16
"""Rows per operand above which one look-up per code is faster than one per product."""
WHOLE = 1 << 24
"""The most codes of both operands that are looked up at once, at about 11 bytes each."""


@overload
def matmul(
    a: ScaledArray | ArrayLike,
    b: ScaledArray | NDArray,
    accumulator: Accumulator | str,
    c: ArrayLike | None = None,
    *,
    lanes: int | None = None,
    scale_format: ScaleFormat | str = E8M0,
) -> F32: ...
@overload
def matmul(
    a: MXArray | NDArray,
    b: MXArray | NDArray,
    accumulator: Accumulator | str,
    c: ArrayLike | None = None,
    *,
    trace: Literal[True],
    stages: bool = True,
    scale_format: ScaleFormat | str = E8M0,
) -> Trace: ...
def matmul(
    a: ScaledArray | ArrayLike,
    b: ScaledArray | NDArray,
    accumulator: Accumulator | str,
    c: ArrayLike | None = None,
    *,
    lanes: int | None = None,
    trace: bool = False,
    stages: bool = True,
    scale_format: ScaleFormat | str = E8M0,
) -> F32 | Trace:
    """The (M, N) dot products of the rows of `a` (M, K) and `b` (N, K).

    a, b: MXArrays, or ScaledArrays of any two schemes, blocked along the last axis. An FP8, FP6 or
    FP4 array of ml_dtypes holds codes under scales of 1, as for `dot`. a may be floats (float32,
    float16, bfloat16): b is then dequantised to their type (weight-only), and the accumulator is
    ``exact``, a ``fused:F`` or a preset.
    accumulator: an object or its text; ``int32`` takes integer elements. c: running values, floats
    that are float32, broadcastable to (M, N); None for +0. lanes: the most elements (1 to 65536)
    under one scale of each operand that are taken at once; longer blocks are taken in parts. None
    is 128, but takes the blocks of two MXArrays, which must have equal sizes, whole.
    trace, stages, scale_format: see `dot`; for two MXArrays taken whole.
    Raises TypeError or ValueError, naming the argument, before any work.
    """
    rule = check_known(find_rule(accumulator))
    x, y = as_operands(a, b, scale_format)
    if not isinstance(y, ScaledArray):
        raise TypeError(
            f"b must be a ScaledArray, not {type(y).__name__}: quantize makes one of floats"
        )
    whole = lanes is None and isinstance(x, MXArray) and isinstance(y, MXArray)
    flag("stages", stages)
    if flag("trace", trace) and not whole:
        raise ValueError("trace must be False but for two MXArrays whose lanes are None")
    if str(scale_format) != E8M0.name and not whole:
        raise ValueError(
            f"scale_format must be {E8M0} but for two MXArrays whose lanes are None, "
            f"not {scale_format}"
        )
    most = LANES if lanes is None else integer("lanes", lanes, 1, LARGEST_BLOCK)
    if not isinstance(x, ScaledArray):
        return weight_only(x, y, rule, c, most)
    check_pair(x, y)
    warn_of_operands(rule, product(x.scheme.elements, y.scheme.elements))
    if whole and isinstance(x, MXArray) and isinstance(y, MXArray):
        check_operands(x, y, rule)
        kind = check_scales(x, y, scale_format)
        if trace or kind != E8M0 or not _looks_up_once(x, y):
            return _by_codes(rule, x, y, c, trace, stages, kind)
        most = x.block_size
    start = running_value(c, (x.shape[0], y.shape[0])).reshape(x.shape[0], y.shape[0])
    return with_nan(scaled_product(x, y, rule, start, most, operand, accumulate), rule)


def _looks_up_once(a: MXArray, b: MXArray) -> bool:
    """Whether to look up the values of all codes first, instead of products of pairs."""
    return min(a.shape[0], b.shape[0]) >= REUSED and a.codes.size + b.codes.size <= WHOLE


def _by_codes(
    rule: Accumulator,
    a: MXArray,
    b: MXArray,
    c: ArrayLike | None,
    trace: bool,
    stages: bool,
    scale_format: ScaleFormat,
) -> F32 | Trace:
    lead = (a.shape[0], b.shape[0])
    start = running_value(c, lead)
    rows_a, rows_b = np.divmod(np.arange(start.size), max(lead[1], 1))
    return by_codes(
        rule, a, b, rows_a, rows_b, start, lead, trace, stages, scale_format=scale_format
    )
