"""Recipes and the layers that they quantise."""

from torch import nn

from mxdot.gpu import MXTensor, PackedTensor, Regrouped
from mxdot.gpu.schemes import PackedWeights, ScaledTensor
from mxdot.nn import Recipe

RECIPES = {
    "mxfp8": (Recipe(), MXTensor, 0.52),
    "mxfp8, float8": (Recipe(accumulator="float8"), Regrouped, 0.52),
    "mxfp6": (Recipe("e2m3"), PackedTensor, 0.40),
    "mxfp4": (Recipe("e2m1"), PackedTensor, 0.27),
    "mxfp4, accumulator": (Recipe("e2m1", accumulator="exact"), PackedTensor, 0.27),
    "int4": (Recipe("int4_g128", None), PackedWeights, 0.27),
    "int4, activations of bytes": (Recipe("int4_g128", "int8_channel"), PackedTensor, 0.27),
    "nvfp4": (Recipe("nvfp4", "nvfp4"), PackedTensor, 0.29),
    "int8": (Recipe("int8_channel", "int8_affine"), ScaledTensor, 0.51),
}


LAYERS, WIDTH = 3, 128


def plain(width=WIDTH):
    return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(LAYERS)))
