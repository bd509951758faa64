"""Weights of linear layers that are quantised once, for inference."""

import torch
from torch import Tensor

from ..gpu.schemes import PackedWeights, ScaledTensor, pack_weights
from ..gpu.schemes.weight_only import packs
from ..gpu.tensors.mx import MXTensor
from ..gpu.tensors.packed import pack_codes
from ..model.accumulators import Accumulator
from .multiply import FAST, for_rule, multiply, operand
from .quantizers import Operand, Quantizer
from .recipe import Recipe


def weight_codes(
    weight: Tensor, recipe: Recipe, rule: Accumulator | str, limit: Tensor | None
) -> Operand:
    """The codes of a weight (N, K), filled up to whole groups; values where it has no format.

    limit: the magnitudes it is quantised within, or None.
    INT4 weights of a fast weight-only product are packed, where the kernel takes their groups.
    """
    codes = for_rule(recipe.quantizer("weight").codes(weight, limit), rule)
    weight_only = rule == FAST and recipe.activation is None
    if weight_only and isinstance(codes, ScaledTensor) and packs(codes):
        return pack_weights(codes)
    return codes


def dense_codes(
    weight: Tensor, recipe: Recipe, rule: Accumulator | str, limit: Tensor | None
) -> Operand:
    """What stands in the place of a weight (N, K): `weight_codes` without a gap between codes."""
    codes = weight_codes(weight, recipe, rule, limit)
    return pack_codes(codes) if isinstance(codes, MXTensor | ScaledTensor) else codes


def frozen_weight(
    weight: Tensor, recipe: Recipe, rule: Accumulator | str, limit: Tensor | None
) -> Operand:
    """What is kept beside a weight (N, K): its codes, of a fast product its values or packed."""
    if rule != FAST:
        return weight_codes(weight, recipe, rule, limit)
    if recipe.activation is None:
        codes = weight_codes(weight, recipe, rule, limit)
        if isinstance(codes, PackedWeights):
            return codes
    values = recipe.quantizer("weight").values(weight, False, limit)
    return weight.clone() if values is weight else values  # the weight itself may change


def frozen_product(
    x: Tensor,
    features: int,
    frozen: Operand,
    activation: Quantizer,
    rule: Accumulator | str,
    dtype: torch.dtype,
    limit: Tensor | None,
) -> Tensor:
    """x W^T (M, `features`) with the weight as one of these left it."""
    a = operand(activation, x, rule, limit=limit)
    return multiply(a, frozen, rule, (x.shape[0], features), dtype)
