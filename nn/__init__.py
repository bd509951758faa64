"""mxdot.nn: layers of networks whose products are mxdot.gpu's, recipes, conversion, calibration."""

from .. import gpu  # noqa: F401  # first: it names the extra that brings PyTorch
from .calibrate import calibrate
from .checkpoints import load_checkpoint
from .convert import convert, freeze, quantize_
from .evaluate import Evaluation, evaluate
from .experts import MXExperts
from .limits import advance_scales
from .linear import MXLinear, kernel_of
from .quantized_init import quantized_init
from .recipe import Recipe
from .recipes import RECIPES

__all__ = [
    "RECIPES",
    "Evaluation",
    "MXExperts",
    "MXLinear",
    "Recipe",
    "advance_scales",
    "calibrate",
    "convert",
    "evaluate",
    "freeze",
    "kernel_of",
    "load_checkpoint",
    "quantize_",
    "quantized_init",
]
