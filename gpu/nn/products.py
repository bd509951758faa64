"""The three products of a linear layer, and what is kept of its input from one to the next."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...model.accumulators import Accumulator
from ..tensors.container import Container
from .frozen import frozen_product
from .multiply import FAST, for_rule, multiply, operand
from .quantizers import Operand, Quantizer
from .recipe import Recipe


class Products(torch.autograd.Function):
    """x (M, K), weight (N, K) to (M, N) of `dtype`; `frozen` as `frozen_weight` gives it.

    rule: the accumulator of a frozen layer. activation: what quantises x.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        features: int,
        frozen: Operand | None,
        rule: Accumulator | str,
        activation: Quantizer,
        recipe: Recipe,
        dtype: torch.dtype,
    ) -> Tensor:
        ctx.activation, ctx.recipe, ctx.dtype = activation, recipe, dtype
        ctx.x_shape, ctx.x_dtype = x.shape, x.dtype
        wanted = ctx.needs_input_grad[1]  # the weight's gradient, the only one that takes x
        ctx.quantized = recipe.saved == "quantized" and wanted and x.numel() > 0
        if ctx.quantized and frozen is None:
            rule = recipe.accumulator
            a, kept = activation.both(x, rule == FAST)
            ctx.save_for_backward(weight, *kept)
            b = operand(recipe.quantizer("weight"), weight, rule)
            return multiply(for_rule(a, rule), b, rule, (x.shape[0], features), dtype)
        ctx.save_for_backward(weight, x if wanted else None)
        if frozen is not None:
            return frozen_product(x, features, frozen, activation, rule, dtype)
        return product(x, weight, (activation, recipe.quantizer("weight")), recipe, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        weight, *saved = ctx.saved_tensors
        if isinstance(weight, Container):
            raise ValueError("keep_weight must be True of a frozen layer for gradients, not False")
        recipe, dtype = ctx.recipe, ctx.dtype
        gradient, activation = recipe.quantizer("gradient"), ctx.activation
        dx = dw = None
        if ctx.needs_input_grad[0]:
            both = (gradient, recipe.quantizer("weight"))
            dx = product(g, weight.T, both, recipe, dtype, (False, True)).to(ctx.x_dtype)
        if ctx.needs_input_grad[1] and not ctx.quantized:
            dw = product(g.T, saved[0].T, (gradient, activation), recipe, dtype, (True, True))
        elif ctx.needs_input_grad[1]:
            rule = recipe.transposed_rule
            x = for_rule(activation.transpose(saved, *ctx.x_shape), rule)
            dw = multiply(operand(gradient, g.T, rule, True), x, rule, weight.shape, dtype)
        if dw is not None:
            dw = dw.to(weight.dtype)
        return dx, dw, None, None, None, None, None, None


def product(
    a: Tensor,
    b: Tensor,
    quantizers: tuple[Quantizer, Quantizer],
    recipe: Recipe,
    dtype: torch.dtype,
    transposed: tuple[bool, bool] = (False, False),
) -> Tensor:
    """The (M, N) dot products of rows of `a` (M, K) and `b` (N, K), both quantised.

    quantizers: of `a` and of `b`; transposed: which of the two is the transpose of what its role
    is. The result has the `dtype` given.
    """
    rule = recipe.transposed_rule if any(transposed) else recipe.accumulator
    x, y = (
        operand(quantizer, side, rule, turned)
        for quantizer, side, turned in zip(quantizers, (a, b), transposed, strict=True)
    )
    return multiply(x, y, rule, (a.shape[0], b.shape[0]), dtype)
