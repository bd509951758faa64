"""mxdot.gpu: the numeric contract on PyTorch tensors, CPU or CUDA, bit for bit as mxdot.model.

Needs PyTorch. Triton kernels are used on CUDA where they exist, and imported only then.
"""

from .nn.calibrate import calibrate
from .nn.convert import convert, freeze
from .nn.delayed import advance_scales
from .nn.evaluate import Evaluation, evaluate
from .nn.kernel import kernel_of
from .nn.linear import MXLinear
from .nn.quantized_init import quantized_init
from .nn.recipe import Recipe
from .nn.recipes import RECIPES
from .ops.matmul import matmul
from .ops.mx_matmul import mx_matmul
from .ops.quantize import quantize
from .ops.quantize_both import quantize_both
from .ops.regroup import Regrouped, regroup
from .tensors.layout import tile_scales, untile_scales
from .tensors.mx import MXTensor
from .tensors.packed import PackedTensor
from .tensors.packing import pack, unpack
from .tensors.store import load, save

__all__ = [
    "RECIPES",
    "Evaluation",
    "MXLinear",
    "MXTensor",
    "PackedTensor",
    "Recipe",
    "Regrouped",
    "advance_scales",
    "calibrate",
    "convert",
    "evaluate",
    "freeze",
    "kernel_of",
    "load",
    "matmul",
    "mx_matmul",
    "pack",
    "quantize",
    "quantize_both",
    "quantized_init",
    "regroup",
    "save",
    "tile_scales",
    "unpack",
    "untile_scales",
]
