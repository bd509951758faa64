"""mxdot.gpu: the numeric contract on PyTorch tensors, CPU or CUDA, bit for bit as mxdot.model.

Needs PyTorch. Triton kernels are used on CUDA where they exist, and imported only then.
"""

from .both import quantize_both
from .calibrate import calibrate
from .convert import convert, freeze
from .layout import tile_scales, untile_scales
from .linear import MXLinear
from .matmul import matmul
from .mx_matmul import mx_matmul
from .packing import pack, unpack
from .quantize import quantize
from .recipe import Recipe
from .regroup import Regrouped, regroup
from .store import load, save
from .tensor import MXTensor

__all__ = [
    "MXLinear",
    "MXTensor",
    "Recipe",
    "Regrouped",
    "calibrate",
    "convert",
    "freeze",
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
