"""mxdot.gpu.schemes: every block-scaling scheme on PyTorch tensors, bit for bit as the model.

Schemes, limits and calibrators are those of `mxdot.model.schemes` (docs/numerics.md, 6 and 7).
"""

from .integer import IntegerSums, integer_sums
from .products import matmul
from .quantize import quantize
from .tensor import ScaledTensor

__all__ = ["IntegerSums", "ScaledTensor", "integer_sums", "matmul", "quantize"]
