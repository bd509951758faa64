"""MXLinear over several GPUs: the weight cut by output or by input features.

    x --copy--> ColumnParallelMXLinear --> (activation function) --> RowParallelMXLinear --sum--> y

A pair of both needs one sum over the group forward and one backward. Data parallelism needs nothing
of this kind: wrap the model in torch.nn.parallel.DistributedDataParallel.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .linear import MXLinear, as_recipe
from .parts import check_cut
from .recipe import Recipe

Group = dist.ProcessGroup | None


class ColumnParallelMXLinear(MXLinear):
    """Rank r of n holds rows r N/n to (r+1) N/n of the weight (N, K), and of the bias.

    Takes the whole input (..., K), gives its part (..., N/n) of the output. The input gradient is
    summed over the group, in the dtype of the input.
    """

    group: Group

    @classmethod
    def from_linear(
        cls, linear: nn.Linear, recipe: Recipe | None = None, group: Group = None
    ) -> "ColumnParallelMXLinear":
        """This rank's part of `linear`, copied. N must be a multiple of n x block_size."""
        recipe = as_recipe(recipe)
        part = _part(0, linear.out_features, recipe, group)
        bias = None if linear.bias is None else linear.bias[part]
        return _make(cls, linear.weight[part], bias, recipe, group)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # nn.Linear's name
        return super().forward(_CopyToGroup.apply(input, self.group))


class RowParallelMXLinear(MXLinear):
    """Rank r of n holds columns r K/n to (r+1) K/n of the weight (N, K), and the whole bias.

    Takes its part (..., K/n) of the input, gives the whole output (..., N): the parts' products,
    each in the dtype of the output, summed over the group.
    """

    group: Group

    @classmethod
    def from_linear(
        cls, linear: nn.Linear, recipe: Recipe | None = None, group: Group = None
    ) -> "RowParallelMXLinear":
        """This rank's part of `linear`, copied. K must be a multiple of n x block_size."""
        recipe = as_recipe(recipe)
        part = _part(1, linear.in_features, recipe, group)
        return _make(cls, linear.weight[:, part], linear.bias, recipe, group)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # nn.Linear's name
        return self.add_bias(_SumOverGroup.apply(self.multiply(input), self.group))


class _CopyToGroup(torch.autograd.Function):
    """The same on every rank; gradients are summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return _all_reduce(g, ctx.group), None


class _SumOverGroup(torch.autograd.Function):
    """Summed over the ranks; every rank gets the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        return _all_reduce(x, group)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g, None


def _all_reduce(x: Tensor, group: Group) -> Tensor:
    total = x.contiguous().clone()
    dist.all_reduce(total, group=group)
    return total


def _part(axis: int, size: int, recipe: Recipe, group: Group) -> slice:
    """This rank's part of an axis of a weight."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    check_cut(axis, size, ranks, recipe)
    step = size // ranks
    return slice(rank * step, (rank + 1) * step)


def _make(cls: type[Any], weight: Tensor, bias: Tensor | None, recipe: Recipe, group: Group) -> Any:
    """A layer of `cls` with copies of `weight` and `bias` as its parameters."""
    out_features, in_features = weight.shape
    made = cls(in_features, out_features, bias is not None, "meta", recipe=recipe)
    made.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        made.bias = nn.Parameter(bias.detach().clone())
    made.group = group
    return made
