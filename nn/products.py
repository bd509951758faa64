"""The three products of a linear layer, and what is kept of its input from one to the next."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..gpu.tensors.container import Container
from ..model.accumulators import Accumulator
from . import delayed
from .frozen import frozen_product
from .multiply import FAST, for_rule, multiply, operand
from .quantizers import Operand, Quantizer, mixed
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
        if ctx.quantized and frozen is None:
            rule = recipe.accumulator
            a, kept = activation.both(x, rule == FAST, recipe.mix, x_limit)
            ctx.save_for_backward(*limits, weight, *kept)
            b = operand(recipe.quantizer("weight"), weight, rule, limit=weight_limit)
            return multiply(for_rule(a, rule), b, rule, (x.shape[0], features), dtype)
        ctx.save_for_backward(*limits, weight, x if wanted else None)
        if frozen is not None:
            return frozen_product(x, features, frozen, activation, rule, dtype, x_limit)
        return product(x, weight, (activation, recipe.quantizer("weight")), recipe, dtype, limits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x_limit, weight_limit, weight, *saved = ctx.saved_tensors
        if isinstance(weight, Container):
            raise ValueError("keep_weight must be True of a frozen layer for gradients, not False")
        recipe, dtype = ctx.recipe, ctx.dtype
        gradient, activation = recipe.quantizer("gradient"), ctx.activation
        limit = dx = dw = None
        if ctx.history is not None and recipe.gradient is not None:
            limit = delayed.limit(ctx.history, "gradient", g, recipe.margin, ctx.record)
        if ctx.needs_input_grad[0]:
            both, limits = (gradient, recipe.quantizer("weight")), (limit, weight_limit)
            dx = product(g, weight.T, both, recipe, dtype, limits, (False, True)).to(ctx.x_dtype)
        if ctx.needs_input_grad[1]:
            rule = recipe.transposed_rule
            if ctx.quantized:
                x = for_rule(activation.transpose(saved, *ctx.x_shape, recipe.mix), rule)
            else:
                x = operand(activation, mixed(saved[0].T, recipe.mix), rule, True, x_limit)
            turned = operand(gradient, mixed(g.T, recipe.mix), rule, True, limit)
            dw = multiply(turned, x, rule, weight.shape, dtype).to(weight.dtype)
        return dx, dw, *[None] * 10


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

    quantizers, limits: of `a` and of `b`; transposed: which of the two is the transpose of what its
    role is. The result has the `dtype` given.
    """
    rule = recipe.transposed_rule if any(transposed) else recipe.accumulator
    x, y = (
        operand(quantizer, side, rule, turned, limit)
        for quantizer, side, turned, limit in zip(
            quantizers, (a, b), transposed, limits, strict=True
        )
    )
    return multiply(x, y, rule, (a.shape[0], b.shape[0]), dtype)
