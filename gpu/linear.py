"""MXLinear: torch.nn.Linear whose three matrix products take MX operands."""

from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from . import checks
from .fake_quantize import fake_quantize
from .matmul import matmul
from .quantize import quantize
from .recipe import Recipe
from .tensor import MXTensor

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class MXLinear(nn.Linear):
    """A drop-in for torch.nn.Linear, with the same parameters and the same state_dict.

    With input x (..., K), weight W (N, K) and the gradient g (..., N) of the output, rows counted
    along M, it computes

        output           x W^T   (M, N)   x and W quantised along K
        input gradient   g W     (M, K)   g and W quantised along N
        weight gradient  g^T x   (N, K)   g and x quantised along M

    Each operand is quantised from the tensor in the precision it came in, never from another
    quantised one; an axis that the block size does not divide is filled up with zeros. Gradients
    pass the quantisation as if it were not there (straight-through).

    Results have the dtype of autocast, or of the input outside it; the bias is added in that dtype,
    after the product. A fast product multiplies dequantised values of that dtype. They are exact in
    bfloat16 and float32 (no format has more than 8 significant bits) but for values outside
    their normal range, and float16's range is small.
    Raises TypeError or ValueError for inputs that nn.Linear would refuse, and for float64.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        recipe: Recipe | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.recipe = as_recipe(recipe)

    @classmethod
    def from_linear(cls, linear: nn.Linear, recipe: Recipe | None = None) -> "MXLinear":
        """A layer with the parameters (not copies), hooks and mode of `linear`."""
        if not isinstance(linear, nn.Linear):
            raise TypeError(f"linear must be a torch.nn.Linear, not {type(linear).__name__}")
        recipe = as_recipe(recipe)
        made = cls.__new__(cls)
        made.__dict__.update(linear.__dict__)
        made.recipe = recipe
        return made

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # nn.Linear's name
        return self.add_bias(self.multiply(input))

    def multiply(self, x: Tensor) -> Tensor:
        """x W^T without the bias: (..., K) to (..., N)."""
        dtype = self._result_dtype(x)
        rows = x.reshape(prod(x.shape[:-1]), self.in_features)
        product = _Products.apply(rows, self.weight, self.recipe, dtype)
        return product.reshape(*x.shape[:-1], self.out_features)

    def add_bias(self, product: Tensor) -> Tensor:
        """`product` plus the bias, if there is one."""
        return product if self.bias is None else product + self.bias.to(product.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, recipe={self.recipe}"

    def _result_dtype(self, x: Tensor) -> torch.dtype:
        """The dtype of results; raises for an input that does not fit."""
        if not isinstance(x, Tensor) or x.layout != torch.strided:
            got = x.layout if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"input must be a dense torch.Tensor, not {got}")
        if x.ndim == 0 or x.shape[-1] != self.in_features:
            raise ValueError(
                f"input must have shape (..., {self.in_features}), not {tuple(x.shape)}"
            )
        for name, tensor in (("input", x), ("weight", self.weight)):
            if tensor.dtype not in DTYPES:
                known, got = [*map(checks.dtype_name, DTYPES)], checks.dtype_name(tensor.dtype)
                raise TypeError(
                    f"{name} must have dtype {', '.join(known[:-1])} or {known[-1]}, not {got}"
                )
        if torch.is_autocast_enabled(x.device.type):
            return torch.get_autocast_dtype(x.device.type)
        if x.dtype != self.weight.dtype:
            want, got = checks.dtype_name(self.weight.dtype), checks.dtype_name(x.dtype)
            raise TypeError(f"input must have the weight's dtype {want}, not {got}")
        return x.dtype


class _Products(torch.autograd.Function):
    """x (M, K), weight (N, K) to (M, N) of `dtype`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, recipe: Recipe, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.recipe, ctx.dtype = recipe, dtype
        return product(x, weight, ("activation", "weight"), recipe, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        recipe, dtype = ctx.recipe, ctx.dtype
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = product(g, weight.T, ("gradient", "weight"), recipe, dtype).to(x.dtype)
        if ctx.needs_input_grad[1]:
            dw = product(g.T, x.T, ("gradient", "activation"), recipe, dtype).to(weight.dtype)
        return dx, dw, None, None


def product(
    a: Tensor, b: Tensor, roles: tuple[str, str], recipe: Recipe, dtype: torch.dtype
) -> Tensor:
    """The (M, N) dot products of rows of `a` (M, K) and `b` (N, K), both quantised along K.

    roles: which of the recipe's formats `a` and `b` get. The result has the `dtype` given.
    """
    if recipe.fast:
        x, y = (_values(t, role, recipe, dtype) for t, role in zip((a, b), roles, strict=True))
        return x @ y.T
    x, y = (_codes(t, role, recipe) for t, role in zip((a, b), roles, strict=True))
    return matmul(x, y, recipe.accumulator).to(dtype)


def _values(x: Tensor, role: str, recipe: Recipe, dtype: torch.dtype) -> Tensor:
    """The quantised values of `x` in `dtype`, filled up with zeros to whole blocks."""
    fmt = getattr(recipe, role)
    if fmt is None:
        padding = -x.shape[-1] % recipe.block_size
        return nn.functional.pad(x.to(dtype), (0, padding)) if padding else x.to(dtype)
    rounding = recipe.rounding(role)
    words = _random_words(x, recipe.block_size) if rounding == "stochastic" else None
    rule, size = recipe.scale_rule, recipe.block_size
    values = fake_quantize(x, fmt, block_size=size, scale_rule=rule, rounding=rounding, words=words)
    return values.to(dtype)


def _codes(x: Tensor, role: str, recipe: Recipe) -> MXTensor:
    """`x` quantised, filled up with zeros to whole blocks."""
    rounding = recipe.rounding(role)
    words = None
    if rounding == "stochastic":
        words = _random_words(x, recipe.block_size).to(torch.uint32)
    return quantize(
        x,
        getattr(recipe, role),
        block_size=recipe.block_size,
        scale_rule=recipe.scale_rule,
        rounding=rounding,
        rng=words,
        pad=True,
    )


def _random_words(x: Tensor, block_size: int) -> Tensor:
    """Words from 0 to 2^32 - 1, int64, one per element of `x` (M, K) filled up to whole blocks."""
    rows, length = x.shape
    length += -length % block_size
    return torch.randint(0, 2**32, (rows, length), dtype=torch.int64, device=x.device)


def as_recipe(recipe: Recipe | None) -> Recipe:
    """`recipe`, or the default one for None; TypeError for anything else."""
    if recipe is None:
        return Recipe()
    if not isinstance(recipe, Recipe):
        raise TypeError(f"recipe must be a Recipe, not {type(recipe).__name__}")
    return recipe
