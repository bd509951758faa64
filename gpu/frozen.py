"""Weights of linear layers that are quantised once, for inference."""

import torch
from torch import Tensor

from .eager import eager
from .quantizers import FAST, Codes, Quantizer, multiply, operand
from .recipe import Recipe
from .schemes import ScaledTensor, pack_weights
from .schemes.weight_only import packs


@eager
def frozen_weight(weight: Tensor, recipe: Recipe) -> Codes:
    """What `frozen_product` takes of a weight (N, K): codes, or the values of a fast product.

    INT4 weights of a fast weight-only product stay packed, where the kernel takes their groups.
    """
    rule, quantizer = recipe.inference_accumulator(weight.shape[1]), recipe.quantizer("weight")
    if rule == FAST and recipe.activation is None:
        codes = quantizer.codes(weight)
        if isinstance(codes, ScaledTensor) and packs(codes):
            return pack_weights(codes)
    taken = operand(quantizer, weight, rule)
    return weight.clone() if taken is weight else taken  # the weight itself may change


def frozen_product(
    x: Tensor,
    weight: Tensor,
    frozen: Codes,
    activation: Quantizer,
    recipe: Recipe,
    dtype: torch.dtype,
) -> Tensor:
    """x W^T with the weight as `frozen_weight` left it."""
    rule = recipe.inference_accumulator(weight.shape[1])
    taken = operand(activation, x, rule)
    return multiply(taken, frozen, rule, (x.shape[0], weight.shape[0]), dtype)
