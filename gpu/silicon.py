"""The executor that runs the real FP8 tensor cores of a Hopper GPU.

What they compute was measured on an H200 and is a preset of the model (docs/probe.md):

==================  ==============================================================================
accumulator         on the tensor core
==================  ==============================================================================
`hopper`            wgmma with the running value inside; it has no block scales, so all are 2^0
`hopper-promoted`   the same, every 128 elements from 0 and added in float32
`hopper-mx`         each 32 elements from 0, scaled and added in float32: products with block scales
==================  ==============================================================================

Blocks must be multiples of the 32 elements that a step takes.
"""

import torch
from torch import Tensor

from ..model.accumulators import PRESETS
from ..model.formats import E4M3, E5M2, E8M0, ElementFormat
from .matmul import Product
from .tensor import FLOAT8

HOPPER, PROMOTED, BLOCKS = PRESETS["hopper"], PRESETS["hopper-promoted"], PRESETS["hopper-mx"]
CAPABILITY = (9, 0)


def refusal(product: Product) -> str | None:
    """Why the tensor cores cannot take `product`; None when they can."""
    rule, formats = product.accumulator, (product.a_format, product.b_format)
    if rule not in (HOPPER, PROMOTED, BLOCKS):
        return f"accumulator must be {HOPPER}, {PROMOTED} or {BLOCKS}, not {rule}"
    if not set(formats) <= {E4M3, E5M2}:
        return f"formats must be e4m3 or e5m2, not {formats[0].name}x{formats[1].name}"
    if product.block_size % HOPPER.terms:
        return f"block_size must be a multiple of {HOPPER.terms}, not {product.block_size}"
    if product.device.type != "cuda":
        return f"tensors must be on a CUDA device, not {product.device}"
    found = torch.cuda.get_device_capability(product.device)
    if found != CAPABILITY:
        return f"the GPU must have compute capability 9.0, not {found[0]}.{found[1]}"
    return _scales_refusal(product)


def _scales_refusal(product: Product) -> str | None:
    """Why the block scales do not fit the rule."""
    extremes = (
        [int(x) for scales in (product.a_scales, product.b_scales) for x in scales.aminmax()]
        if product.a_scales.numel() and product.b_scales.numel()
        else []
    )
    if product.accumulator is not BLOCKS:
        if set(extremes) - {E8M0.bias}:
            return f"{product.accumulator} has no block scales: all must be 2^0 (code {E8M0.bias})"
        return None
    low, high = scale_limits(product.a_format, product.b_format)
    for s in (extremes[0] + extremes[2], extremes[1] + extremes[3]) if extremes else ():
        if not low <= s - 2 * E8M0.bias <= high:
            found = s - 2 * E8M0.bias
            return f"the scales' exponents must add to {low} to {high}, not {found}"
    return None


def scale_limits(a: ElementFormat, b: ElementFormat) -> tuple[int, int]:
    """The s between which 2^s and every step's scaled result are normal float32 or zero.

    Outside, scaling after the tensor core's rounding is not scaling before it.
    """
    carries = 2 + (HOPPER.terms - 1).bit_length()  # products reach 4 units, and there are 32
    low = -126 - (a.emin + b.emin)
    return low, 127 - (a.emax + b.emax + carries)


def run(product: Product) -> Tensor:
    """The (M, N) float32 results."""
    from .kernels import tensor_core  # Triton: only when it is used

    a = product.a_codes.view(FLOAT8[product.a_format])
    b = product.b_codes.view(FLOAT8[product.b_format])
    if product.accumulator is BLOCKS:
        scales = product.a_scales, product.b_scales
        return tensor_core.blocks(a, b, *scales, product.block_size, product.c)
    return tensor_core.matrix(a, b, product.c, product.accumulator.promote or 0)
