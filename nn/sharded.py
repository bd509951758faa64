"""Layers whose weight is a DTensor: every rank multiplies its part, by whatever the recipe says.

A part is whole blocks, or whole groups of schemes, so that its operands are those of the whole
layer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from .quantizers import SchemeQuantizer
from .recipe import Recipe

FEATURES = ("out_features", "in_features")  # by the axis of a weight
STYLES = ("ColwiseParallel", "RowwiseParallel")  # of PyTorch, which cut that axis


def check_cut(weight: Any, shape: tuple[int, int], recipe: Recipe, backward: bool) -> None:
    """ValueError unless the parts of a DTensor weight are those of a layer of `shape` (N, K).

    backward: whether there are backward products, too.
    """
    ranks: defaultdict[int, int] = defaultdict(lambda: 1)
    for count, placement in zip(weight.device_mesh.shape, weight.placements, strict=True):
        if placement.is_shard():
            ranks[placement.dim] *= count
    for axis, count in ranks.items():
        if recipe.of_schemes:
            _check_schemes(axis, count, shape[axis], recipe, backward)
            continue
        whole = count * recipe.together
        if shape[axis] % whole:
            raise ValueError(
                f"{FEATURES[axis]} must be a multiple of {whole} ({count} ranks, blocks of "
                f"{recipe.together}), not {shape[axis]}"
            )


def _check_schemes(axis: int, count: int, length: int, recipe: Recipe, backward: bool) -> None:
    """ValueError where a scale of an operand spans the parts of an axis of the weight."""
    if recipe.limits == "learned":
        raise ValueError(
            "limits of a layer in parts must not be learned: rows of weights have them"
        )
    for role, size in _groups_along(axis, recipe, backward):
        if size is None:
            raise ValueError(
                f"{role} must have a scheme without a scale for all of {FEATURES[axis]}, which are "
                f"cut into {count} parts, not {getattr(recipe, role)}; {_would(recipe, backward)}"
            )
        if length % (count * size):
            raise ValueError(
                f"{FEATURES[axis]} must be a multiple of {count * size} ({count} ranks, groups of "
                f"{size} of {role}), not {length}"
            )


def _groups_along(axis: int, recipe: Recipe, backward: bool) -> Iterator[tuple[str, int | None]]:
    """Roles, and features that share a scale along an axis of the weight; None for all of them."""
    uses = [("weight", "rows")] if axis == 0 else [("weight", "columns"), ("activation", "columns")]
    if backward and axis == 0:
        uses.append(("gradient", "columns"))
    if backward and not recipe.once:  # their transposes are quantised, too
        other = "gradient" if axis == 0 else "activation"
        uses += [("weight", "columns" if axis == 0 else "rows"), (other, "rows")]
    for role, side in uses:
        quantizer = recipe.quantizer(role)
        if isinstance(quantizer, SchemeQuantizer):
            for level in quantizer.scheme.levels:
                yield role, getattr(level.granularity, side)


def _would(recipe: Recipe, backward: bool) -> str:
    """Advice: how layers of a recipe can be cut."""
    fits = [
        style
        for axis, style in enumerate(STYLES)
        if all(size for _, size in _groups_along(axis, recipe, backward))
    ]
    return f"{fits[0]} would do" if fits else "schemes of tiles or of blocks of a row would do"


def rows_together(recipe: Recipe) -> bool:
    """Whether rows of an activation or of a gradient share a scale, so that they stay together."""
    quantizers = [recipe.quantizer(role) for role in ("activation", "gradient")]
    schemes = [each.scheme for each in quantizers if isinstance(each, SchemeQuantizer)]
    return any(level.granularity.rows != 1 for each in schemes for level in each.levels)


def product(
    x: Tensor, weight: Any, multiply: Callable[[Tensor, Tensor], Tensor], together: bool
) -> Tensor:
    """`multiply(x, weight)`, (..., K) and (N, K) to (..., N), of every rank's parts; a DTensor.

    By columns (weight Shard(0)) each rank has all of x and gives some features; by rows (Shard(1))
    it has some features of x and gives a part of every sum. Where the weight is whole, x may be cut
    along other axes than its last, unless its rows are `together`.
    """
    # Here, for it takes two seconds.
    from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

    last = x.ndim - 1

    def places(own: Placement, of_x: Placement) -> tuple[Placement, ...]:
        """Placements of x, its gradient, the weight's gradient and the result."""
        if own.is_shard(0):
            return Replicate(), Partial(), own, Shard(last)
        if own.is_shard(1):
            return Shard(last), Shard(last), own, Partial()
        if of_x.is_shard() and not (of_x.is_shard(last) or together):
            return of_x, of_x, Partial(), of_x
        return Replicate(), Replicate(), Replicate(), Replicate()

    mesh = weight.device_mesh
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, [Replicate()] * mesh.ndim, run_check=False)
    pairs = zip(weight.placements, x.placements, strict=True)
    of_x, of_dx, of_dw, of_y = zip(*(places(*pair) for pair in pairs), strict=True)
    part = x.redistribute(placements=of_x).to_local(grad_placements=of_dx)
    y = multiply(part, weight.to_local(grad_placements=of_dw))
    return DTensor.from_local(y, mesh, of_y, run_check=False)
