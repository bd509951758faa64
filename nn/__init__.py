"""mxdot.nn: layers of networks whose products are mxdot.gpu's, recipes, conversion, calibration."""

from .calibrate import calibrate
from .convert import convert, freeze
from .delayed import advance_scales
from .evaluate import Evaluation, evaluate
from .kernel import kernel_of
from .linear import MXLinear
from .quantized_init import quantized_init
from .recipe import Recipe
from .recipes import RECIPES

__all__ = [
    "RECIPES",
    "Evaluation",
    "MXLinear",
    "Recipe",
    "advance_scales",
    "calibrate",
    "convert",
    "evaluate",
    "freeze",
    "kernel_of",
    "quantized_init",
]
