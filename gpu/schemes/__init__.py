"""mxdot.gpu.schemes: every block-scaling scheme on PyTorch tensors, bit for bit as the model.

Schemes, limits and calibrators are those of `mxdot.model.schemes` (docs/numerics.md, 6 and 7).
"""

from .quantize import quantize
from .tensor import ScaledTensor

__all__ = ["ScaledTensor", "quantize"]
