"""The executor that runs the real tensor cores of a Hopper GPU.

What they compute was measured on an H200 and is a preset of the model (docs/probe.md):

==================  ==============================================================================
accumulator         on the tensor core
==================  ==============================================================================
`hopper`            wgmma with the running value inside; it has no block scales, so all are 2^0
`hopper-promoted`   the same, every 128 elements from 0 and added in float32
`hopper-mx`         each 32 elements from 0, scaled and added in float32: products with block scales
`hopper-fp16`       wgmma of FP16 elements, which E5M2's are too; these three have no block scales
`hopper-bf16`       the same of BF16 elements
`hopper-tf32`       the same of TF32 elements
==================  ==============================================================================

Blocks must be multiples of the elements that a step takes.
"""

import torch
from torch import Tensor

from ...model.accumulators import accumulator
from ...model.blocks import LARGEST_BLOCK
from ...model.formats import BF16, E4M3, E5M2, E8M0, FLOAT32, FP16, TF32, ElementFormat
from ..ops.matmul import Product
from ..tensors.mx import FLOAT8

# The formats whose numbers a unit takes as they are, subnormal ones too.
FORMATS: dict[str, tuple[ElementFormat, ...]] = {
    "hopper": (E4M3, E5M2),
    "hopper-promoted": (E4M3, E5M2),
    "hopper-mx": (E4M3, E5M2),
    "hopper-fp16": (FP16, E5M2),
    "hopper-bf16": (BF16,),
    "hopper-tf32": (TF32,),
}
MACHINES = {name: accumulator(name) for name in FORMATS}
HOPPER, BLOCKS, HALF = (MACHINES[name] for name in ("hopper", "hopper-mx", "hopper-fp16"))
CAPABILITY = (9, 0)
LARGEST_ROWS = 128 * 65535  # of b: tiles of 128 along an axis of the grid of programs


def refusal(product: Product) -> str | None:
    """Why the tensor cores cannot take `product`; None when they can."""
    rule, formats = MACHINES.get(str(product.accumulator)), product.formats
    if rule is None or rule != product.accumulator:
        return f"accumulator must be one of {', '.join(FORMATS)}, not {product.accumulator}"
    taken = FORMATS[str(rule)]
    if not set(formats) <= set(taken):
        known = " or ".join(fmt.name for fmt in taken)
        return f"formats of {rule} must be {known}, not {formats[0].name}x{formats[1].name}"
    terms = rule.step_terms(LARGEST_BLOCK)
    if product.block_size % terms:
        return f"block_size must be a multiple of {terms}, not {product.block_size}"
    if product.shape[1] > LARGEST_ROWS:
        return f"b must have at most {LARGEST_ROWS} rows, not {product.shape[1]}"
    if product.device.type != "cuda":
        return f"tensors must be on a CUDA device, not {product.device}"
    capability = torch.cuda.get_device_capability(product.device)
    if capability != CAPABILITY:
        return f"the GPU must have compute capability 9.0, not {capability[0]}.{capability[1]}"
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
    terms = HOPPER.step_terms(LARGEST_BLOCK)
    carries = 2 + (terms - 1).bit_length()  # products reach 4 units
    low = FLOAT32.emin - (a.emin + b.emin)
    return low, FLOAT32.emax - (a.emax + b.emax + carries)


def run(product: Product) -> Tensor:
    """The (M, N) float32 results."""
    from ..kernels import tensor_core  # Triton: only when it is used

    rule = product.accumulator
    a, b = elements(product.a_codes, product.a_format), elements(product.b_codes, product.b_format)
    if 0 in product.shape:
        return torch.zeros(product.shape, dtype=torch.float32, device=product.device)
    if rule == BLOCKS:
        scales = product.a_scales, product.b_scales
        return tensor_core.blocks(a, b, *scales, product.block_size, product.c)
    if rule == HALF:
        a, b = a.to(torch.float16), b.to(torch.float16)
    return tensor_core.matrix(a, b, product.c, rule.promotes_every or 0)


def elements(codes: Tensor, fmt: ElementFormat) -> Tensor:
    """Codes as elements of the dtype that PyTorch has for them, TF32's as float32."""
    if fmt in FLOAT8:
        return codes.view(FLOAT8[fmt])
    if fmt == TF32:
        spare = FLOAT32.mantissa_bits - TF32.mantissa_bits
        return torch.bitwise_left_shift(codes.view(torch.int32), spare).view(torch.float32)
    return codes.view(torch.float16 if fmt == FP16 else torch.bfloat16)
