"""The three products of a linear layer, and weights that are quantised once, for inference."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..gpu.operators import operator
from ..gpu.ops import few_rows
from ..gpu.schemes import PackedWeights, ScaledTensor, pack_weights
from ..gpu.schemes.weight_only import packs
from ..gpu.tensors.container import Container
from ..gpu.tensors.mx import MXTensor
from ..gpu.tensors.packed import pack_codes
from ..model.accumulators import Accumulator
from .limits import delayed_limit
from .multiply import FAST, cut, for_rule, multiply, operand
from .quantizers import Operand, Quantizer, SchemeQuantizer, mixed
from .recipe import Recipe


class LayerProduct(torch.autograd.Function):
    """x (M, K), weight (N, K) to (M, N) of `dtype`; `frozen` as `frozen_weight` gives it.

    x_limit, weight_limit: magnitudes they are quantised within, or None. history: of delayed
    scales, for the gradient's, or None; record: whether it counts for later steps.
    rule: the accumulator of a frozen layer. activation: what quantises x.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        x_limit: Tensor | None,
        weight_limit: Tensor | None,
        history: Tensor | None,
        record: bool,
        features: int,
        frozen: Operand | None,
        rule: Accumulator | str,
        activation: Quantizer,
        recipe: Recipe,
        dtype: torch.dtype,
    ) -> Tensor:
        ctx.activation, ctx.recipe, ctx.dtype = activation, recipe, dtype
        ctx.history, ctx.record = history, record
        ctx.x_shape, ctx.x_dtype = x.shape, x.dtype
        wanted = ctx.needs_input_grad[1]  # the weight's gradient, the only one that takes x
        ctx.quantized = recipe.saved == "quantized" and wanted and x.numel() > 0
        limits = x_limit, weight_limit
        ctx.of_codes = isinstance(weight, Container)
        if isinstance(weight, Container):  # not as `frozen`, too: a compiler takes no tensor twice
            return frozen_product(x, features, weight, activation, rule, dtype, x_limit)
        if ctx.quantized and frozen is None:
            rule = recipe.accumulator
            a, kept = activation.both(x, rule == FAST, recipe.mix, x_limit)
            ctx.save_for_backward(*limits, weight, *kept)
            b = operand(recipe.quantizer("weight"), weight, rule, limit=weight_limit, dtype=dtype)
            return multiply(for_rule(a, rule), b, rule, (x.shape[0], features), dtype)
        ctx.save_for_backward(*limits, weight, x if wanted else None)
        if frozen is not None:
            return frozen_product(x, features, frozen, activation, rule, dtype, x_limit)
        return product(x, weight, (activation, recipe.quantizer("weight")), recipe, dtype, limits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.of_codes:
            return _no_gradient(g, ctx.x_shape).to(ctx.x_dtype), *[None] * 11
        x_limit, weight_limit, weight, *saved = ctx.saved_tensors
        recipe, dtype = ctx.recipe, ctx.dtype
        gradient, activation = recipe.quantizer("gradient"), ctx.activation
        limit = dx = dw = None
        if ctx.history is not None and recipe.gradient is not None:
            limit = delayed_limit(ctx.history, "gradient", g, recipe.margin, ctx.record)
        if ctx.needs_input_grad[0]:
            both, limits = (gradient, recipe.quantizer("weight")), (limit, weight_limit)
            dx = product(g, weight.T, both, recipe, dtype, limits, (False, True)).to(ctx.x_dtype)
        if ctx.needs_input_grad[1]:
            rule = recipe.transposed_rule
            if ctx.quantized:
                x = for_rule(activation.transpose(saved, *ctx.x_shape, recipe.mix), rule)
            else:
                x = operand(activation, mixed(saved[0].T, recipe.mix), rule, True, x_limit, dtype)
            turned = operand(gradient, mixed(g.T, recipe.mix), rule, True, limit, dtype)
            dw = multiply(turned, x, rule, weight.shape, dtype).to(weight.dtype)
        return dx, dw, *[None] * 10


def _like_x(g: Tensor, shape: list[int]) -> Tensor:
    return g.new_empty(shape)


@operator("no_gradient", _like_x)
def _no_gradient(g: Tensor, shape: list[int]) -> Tensor:
    """An error of the backward pass of codes, which a compiler meets in no other pass."""
    raise ValueError("keep_weight must be True of a frozen layer for gradients, not False")


def product(
    a: Tensor,
    b: Tensor,
    quantizers: tuple[Quantizer, Quantizer],
    recipe: Recipe,
    dtype: torch.dtype,
    limits: tuple[Tensor | None, Tensor | None],
    transposed: tuple[bool, bool] = (False, False),
) -> Tensor:
    """The (M, N) dot products of rows of `a` (M, K) and `b` (N, K), both quantised.

    quantizers, limits: one for `a` and one for `b`. transposed: whether `a` and `b` are the
    transposes of the tensors that their roles quantise. The result has the `dtype` given.
    """
    rule = recipe.transposed_rule if any(transposed) else recipe.accumulator
    x, y = (
        operand(quantizer, side, rule, turned, limit, dtype)
        for quantizer, side, turned, limit in zip(
            quantizers, (a, b), transposed, limits, strict=True
        )
    )
    return multiply(x, y, rule, (a.shape[0], b.shape[0]), dtype)


# Frozen weights ----------------------------------------------------------------------------------


def weight_codes(
    weight: Tensor, recipe: Recipe, rule: Accumulator | str, limit: Tensor | None
) -> Operand:
    """The codes of a weight (N, K), filled up to whole groups; values where it has no format.

    limit: the magnitudes it is quantised within, or None.
    """
    return multiplied_codes(recipe.quantizer("weight").codes(weight, limit), recipe, rule)


def multiplied_codes(codes: Operand, recipe: Recipe, rule: Accumulator | str) -> Operand:
    """Codes as the kernel of a rule takes them, or as they are.

    INT4 weights of a fast weight-only product are packed, where the kernel takes their groups.
    """
    codes = for_rule(codes, rule)
    weight_only = rule == FAST and recipe.activation is None
    if weight_only and isinstance(codes, ScaledTensor) and packs(codes):
        return pack_weights(codes)
    return codes


def dense_codes(
    weight: Tensor, recipe: Recipe, rule: Accumulator | str, limit: Tensor | None
) -> Operand:
    """Replacement of a weight (N, K): `weight_codes` without a gap between codes."""
    return without_gaps(weight_codes(weight, recipe, rule, limit))


def without_gaps(codes: Operand) -> Operand:
    """Codes of fewer than 8 bits packed, others as they are."""
    return pack_codes(codes) if isinstance(codes, MXTensor | ScaledTensor) else codes


def frozen_weight(
    weight: Tensor, recipe: Recipe, rule: Accumulator | str, limit: Tensor | None
) -> Operand:
    """Frozen form of a weight (N, K): its codes; for a fast product its values, or packed codes."""
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
    shape = x.shape[0], features
    if (
        rule == FAST
        and isinstance(activation, SchemeQuantizer)
        and isinstance(frozen, few_rows.Weights)
        and few_rows.is_of_rows(activation.scheme)
        and few_rows.is_few(x)
        and few_rows.has_short_scales(frozen)
    ):
        codes = activation.codes(x, limit)
        return cut(few_rows.rows_matmul(codes, frozen, dtype), shape, dtype)
    a = operand(activation, x, rule, limit=limit, dtype=dtype)
    return multiply(a, frozen, rule, shape, dtype)
