"""mxdot.gpu.schemes: every block-scaling scheme on PyTorch tensors, bit for bit as the model.

Schemes, limits and calibrators are those of `mxdot.model.schemes` (docs/numerics.md, 6 and 7),
rules of requantisation those of `mxdot.model.requantize` (8).
"""

from ..tensors.scaled import ScaledTensor
from .int8 import int8_matmul
from .integer import IntegerSums, integer_sums
from .products import matmul
from .quantize import quantize
from .requantize import requantize, requantize_traced
from .weight_only import PackedWeights, pack_weights, weight_only_matmul

__all__ = [
    "IntegerSums",
    "PackedWeights",
    "ScaledTensor",
    "int8_matmul",
    "integer_sums",
    "matmul",
    "pack_weights",
    "quantize",
    "requantize",
    "requantize_traced",
    "weight_only_matmul",
]
