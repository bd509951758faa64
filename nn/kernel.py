"""kernel_of: which product computes a layer's output."""

from typing import TYPE_CHECKING

from ..gpu import executors
from ..gpu.ops import block_scaled, float8
from ..gpu.schemes import PackedWeights, int8
from ..model.accumulators import Accumulator, Int32
from .multiply import BLOCK_SCALED, FAST, FLOAT8
from .quantizers import SchemeQuantizer

if TYPE_CHECKING:
    from .linear import MXLinear


def kernel_of(layer: "MXLinear") -> str:
    """The product of a layer's output, and who computes it on the device of its weight.

    =======================  ===================================================================
    ``values``               the library's product of quantised values, of the result's dtype
    ``float8_matmul``        `scaled_mm`, the library's product by FP8 units; without these its
                             values in float32
    ``block_scaled_matmul``  `scaled_mm` of MXFP8 or NVFP4 blocks as they are, where the device has
                             units for them; elsewhere their values in float32
    ``int8_matmul``          W8A8 by exact INT32 sums: a frozen layer of such schemes
    ``weight_only_matmul``   packed 4-bit weights of a frozen layer, by bfloat16 or float16; by
                             float32 their values
    ``matmul``               the bits of an accumulator, of element formats
    ``schemes.matmul``       the same, of schemes
    =======================  ===================================================================

    Where it says ``triton or torch``, `mxdot.gpu.executors` asks the first for each product: its
    kernels may refuse a shape.
    """
    rule, device = layer.rule, layer.weight.device
    able = " or ".join(executors.by_themselves(device))
    if rule == FLOAT8:
        return f"float8_matmul ({'scaled_mm' if float8.has_units(device) else 'torch'})"
    if rule == BLOCK_SCALED:
        return f"block_scaled_matmul ({'scaled_mm' if block_scaled.has_units(device) else 'torch'})"
    if rule == FAST:
        kept = layer.frozen if layer.keeps_weight else layer.weight.data
        packed = isinstance(kept, PackedWeights)
        return f"weight_only_matmul ({able})" if packed else "values (torch)"
    assert isinstance(rule, Accumulator)
    quantizers = [layer.recipe.quantizer(role) for role in ("activation", "weight")]
    of_schemes = [each.scheme for each in quantizers if isinstance(each, SchemeQuantizer)]
    if not layer.recipe.of_schemes:
        return f"matmul ({able})"
    if len(of_schemes) == 2 and rule == Int32() and int8.takes(*of_schemes):
        return f"int8_matmul ({able})"
    return "schemes.matmul (torch)"
