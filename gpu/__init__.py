"""mxdot.gpu: the numeric contract on PyTorch tensors, CPU or CUDA, bit for bit as mxdot.model.

Needs PyTorch. Triton kernels are used on CUDA where they exist, and imported only then.
"""

from ..model.errors import missing_package

try:
    import torch  # noqa: F401  # first: Python's own message names no extra
except ModuleNotFoundError as error:
    needs = "mxdot.gpu and mxdot.nn need PyTorch"
    raise missing_package(error, "torch", needs, "gpu") from None

from .ops.block_scaled import tile_scales, untile_scales
from .ops.matmul import matmul
from .ops.mx_matmul import mx_matmul
from .ops.quantize import quantize
from .ops.quantize_both import quantize_both
from .ops.regroup import Regrouped, regroup
from .tensors.formats import pack, unpack
from .tensors.mx import MXTensor
from .tensors.packed import PackedTensor
from .tensors.store import load, save

__all__ = [
    "MXTensor",
    "PackedTensor",
    "Regrouped",
    "load",
    "matmul",
    "mx_matmul",
    "pack",
    "quantize",
    "quantize_both",
    "regroup",
    "save",
    "tile_scales",
    "unpack",
    "untile_scales",
]
