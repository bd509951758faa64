"""The values that quantisation leaves, without codes: what fast products in networks multiply."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..gpu.tensors.floats import exponent32, power32
from ..model.formats import E8M0, MX_FORMATS, ElementFormat
from ..model.formats.codes import round_to_integers
from ..model.schemes.scales import shared_exponent


def fake_quantize(
    x: Tensor,
    fmt: str,
    *,
    block_size: int = 32,
    scale_rule: str = "floor",
    rounding: str = "nearest_even",
    words: Tensor | None = None,
) -> Tensor:
    """`quantize(x, fmt, ..., pad=True).dequantize()` of the last axis, bit for bit, traceable.

    x: float32, float16 or bfloat16 (..., K); a block that holds NaN or Inf becomes NaN.
    words: for ``stochastic`` rounding, int64 from 0 to 2^32 - 1, the shape of the padded `x`.
    Returns float32 (..., K + padding). Arguments are not checked here: `Recipe` has done it.

    A format is given by name, because torch.compile compiles once for each string, where it would
    take the fields of two ElementFormats for variables and trace one graph for both.
    """
    known = MX_FORMATS[fmt]
    x = x.to(torch.float32)
    padding = -x.shape[-1] % block_size
    if padding:
        x = pad(x, (0, padding))
    shape = x.shape
    if not shape[-1]:
        return x  # which DTensor would take for ever to cut
    # Sizes are spelt out: -1 is ambiguous where another axis is empty.
    blocks = x.unflatten(-1, (shape[-1] // block_size, block_size))
    amax = blocks.abs().amax(dim=-1, keepdim=True)
    low, high = E8M0.exponent_range
    exponent = shared_exponent(amax, known, scale_rule).clamp(low, high).to(torch.int32)
    if words is not None:
        words = words.reshape(blocks.shape)
    values = _round(blocks * power32(-exponent), known, rounding, words) * power32(exponent)
    return torch.where(amax.isfinite(), values, torch.nan).reshape(shape)


def _round(values: Tensor, fmt: ElementFormat, rounding: str, words: Tensor | None) -> Tensor:
    """`decode(encode(values, ...))` for scaled values, a third of the work: no codes are made."""
    magnitude = values.abs()
    last_place = exponent32(magnitude).clamp(fmt.emin, fmt.emax) - fmt.mantissa_bits
    integers = round_to_integers(magnitude * power32(-last_place), rounding, words)
    rounded = (integers * power32(last_place)).clamp(max=fmt.largest_finite)
    if fmt.is_integer:  # one zero
        return torch.where(values < 0, 0.0 - rounded, rounded)
    return torch.copysign(rounded, values)
