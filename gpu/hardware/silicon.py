"""The executor that runs the real tensor cores of a Hopper GPU.

What they compute was measured on an H200 and is a preset of the model (docs/probe.md):

==================  ==============================================================================
accumulator         on the tensor core
==================  ==============================================================================
`hopper`            wgmma with the running value inside; it has no block scales, so all are 2^0
`hopper-promoted`   the same, every 128 elements from 0 and added in float32
`hopper-mx`         each 32 elements from 0, scaled and added in float32: products with block scales
`hopper-fp16`       wgmma of FP16 elements, which E5M2's are; without block scales
==================  ==============================================================================

Blocks must be multiples of the elements that a step takes.
"""

import torch
from torch import Tensor

from ...model.accumulators import PRESETS
from ...model.formats import E4M3, E5M2, E8M0, FLOAT32, ElementFormat
from ..ops.matmul import Product
from ..tensors.mx import FLOAT8

HOPPER, PROMOTED, BLOCKS = PRESETS["hopper"], PRESETS["hopper-promoted"], PRESETS["hopper-mx"]
HALF = PRESETS["hopper-fp16"]
MACHINES = {rule.name: rule for rule in (HOPPER, PROMOTED, BLOCKS, HALF)}
# The formats whose numbers the unit takes as they are, subnormal ones too.
FORMATS = {rule.name: (E4M3, E5M2) for rule in (HOPPER, PROMOTED, BLOCKS)} | {HALF.name: (E5M2,)}
CAPABILITY = (9, 0)
LARGEST_ROWS = 128 * 65535  # of b: tiles of 128 along an axis of the grid of programs


def refusal(product: Product) -> str | None:
    """Why the tensor cores cannot take `product`; None when they can."""
    rule, formats = MACHINES.get(str(product.accumulator)), product.formats
    if rule is None or rule != product.accumulator:
        return f"accumulator must be one of {', '.join(FORMATS)}, not {product.accumulator}"
    taken = FORMATS[rule.name]
    if not set(formats) <= set(taken):
        known = " or ".join(fmt.name for fmt in taken)
        return f"formats of {rule} must be {known}, not {formats[0].name}x{formats[1].name}"
    if product.block_size % rule.terms:
        return f"block_size must be a multiple of {rule.terms}, not {product.block_size}"
    if product.shape[1] > LARGEST_ROWS:
        return f"b must have at most {LARGEST_ROWS} rows, not {product.shape[1]}"
    if product.device.type != "cuda":
        return f"tensors must be on a CUDA device, not {product.device}"
    found = torch.cuda.get_device_capability(product.device)
    if found != CAPABILITY:
        return f"the GPU must have compute capability 9.0, not {found[0]}.{found[1]}"
    return _scales_refusal(product)


def _scales_refusal(product: Product) -> str | None:
    """Why the block scales do not fit the rule."""
    if not product.a_scales.numel() or not product.b_scales.numel():
        return None
    (low_a, high_a), (low_b, high_b) = (
        map(int, scales.aminmax()) for scales in (product.a_scales, product.b_scales)
    )
    if product.accumulator != BLOCKS:
        if {low_a, high_a, low_b, high_b} != {E8M0.bias}:
            return f"{product.accumulator} has no block scales: all must be 2^0 (code {E8M0.bias})"
        return None
    if E8M0.nan_code in (high_a, high_b):
        return f"scales must hold no NaN (code {E8M0.nan_code})"
    low, high = scale_limits(*product.formats)
    for s in (low_a + low_b - 2 * E8M0.bias, high_a + high_b - 2 * E8M0.bias):
        if not low <= s <= high:
            return f"the exponents of both scales must add to {low} to {high}, not {s}"
    return None


def scale_limits(a: ElementFormat, b: ElementFormat) -> tuple[int, int]:
    """The s for which scaling a step's result is what the rule asks: scaling before the alignment.

    Below, a scaled result could have digits below the rule's 2^-139; above, it could overflow.
    """
    carries = 2 + (HOPPER.terms - 1).bit_length()  # products reach 4 units, and there are 32
    low = FLOAT32.emin - (a.emin + b.emin)
    return low, FLOAT32.emax - (a.emax + b.emax + carries)


def run(product: Product) -> Tensor:
    """The (M, N) float32 results."""
    from ..kernels import tensor_core  # Triton: only when it is used

    rule = product.accumulator
    a = product.a_codes.view(FLOAT8[product.a_format])
    b = product.b_codes.view(FLOAT8[product.b_format])
    if 0 in product.shape:
        return torch.zeros(product.shape, dtype=torch.float32, device=product.device)
    if rule == BLOCKS:
        scales = product.a_scales, product.b_scales
        return tensor_core.blocks(a, b, *scales, product.block_size, product.c)
    if rule == HALF:
        a, b = a.to(torch.float16), b.to(torch.float16)
    return tensor_core.matrix(a, b, product.c, rule.promotes_every or 0)
