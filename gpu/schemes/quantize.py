"""Quantisation of tensors by any scheme: `mxdot.model.schemes.quantize` on a device."""

import torch
from torch import Tensor

from ...model.blocks import check_axis
from ...model.schemes import Limits, Scheme
from ...model.schemes.quantize import check_policies, check_values, quantized
from ...model.schemes.table import scheme as find
from .. import checks
from ..chunks import chunk_size
from ..eager import eager
from ..quantize import random_words
from .tensor import ScaledTensor


@eager
def quantize(
    x: Tensor,
    scheme: Scheme | str,
    *,
    axis: int = -1,
    limits: Limits | None = None,
    rounding: str = "nearest_even",
    nonfinite: str = "poison",
    rng: torch.Generator | Tensor | None = None,
) -> ScaledTensor:
    """Quantise `x` by a Scheme or a name in SCHEMES, the groups' columns along `axis`.

    x: float32, float16, bfloat16, or float64 that holds float32 values; any shape but an empty one,
    any strides. Rows, tiles, `limits`, `rounding` and `nonfinite`: as in the model's `quantize`.
    rng: for ``stochastic`` rounding, a torch.Generator or one uint32 word per element of x.
    The result is on the device of `x`, cut from its gradient.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    scheme = find(scheme)
    check_policies(rounding, nonfinite)
    values = checks.floats("x", x)
    axis = check_axis(tuple(values.shape), axis)
    check_values(tuple(values.shape))
    words = random_words(rng, values) if rounding == "stochastic" else None
    chunk = chunk_size(values.device)
    parts = quantized(values, scheme, axis, limits, rounding, nonfinite, words, chunk)
    return ScaledTensor(scheme, *parts, axis)
