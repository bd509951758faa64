"""Layers whose weight is a DTensor: every rank multiplies its part, by whatever the recipe says.

A part is whole blocks, so that its operands are those of the whole layer.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from torch import Tensor

from .recipe import Recipe

FEATURES = ("out_features", "in_features")  # by the axis of a weight


def check_cut(weight: Any, shape: tuple[int, int], recipe: Recipe) -> None:
    """ValueError unless the parts of a DTensor weight are those of a layer of `shape` (N, K)."""
    if recipe.of_schemes:
        raise ValueError("recipe of a layer in parts must have no schemes, whose scales span parts")
    ranks: defaultdict[int, int] = defaultdict(lambda: 1)
    for count, placement in zip(weight.device_mesh.shape, weight.placements, strict=True):
        if placement.is_shard():
            ranks[placement.dim] *= count
    for axis, count in ranks.items():
        whole = count * recipe.together
        if shape[axis] % whole:
            raise ValueError(
                f"{FEATURES[axis]} must be a multiple of {whole} ({count} ranks, blocks of "
                f"{recipe.together}), not {shape[axis]}"
            )


def product(x: Tensor, weight: Any, multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """`multiply(x, weight)`, (..., K) and (N, K) to (..., N), of every rank's parts; a DTensor.

    By columns (weight Shard(0)) each rank has all of x and gives some features; by rows (Shard(1))
    it has some features of x and gives a part of every sum. Where the weight is whole, x may be cut
    along other axes than its last.
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
        if of_x.is_shard() and not of_x.is_shard(last):
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
