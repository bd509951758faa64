"""Layers that are cut over ranks: parts are whole blocks, so that they are those of the layer."""

from collections import defaultdict
from typing import Any

from .recipe import Recipe

FEATURES = ("out_features", "in_features")  # by the axis of a weight


def check_cut(axis: int, size: int, ranks: int, recipe: Recipe) -> None:
    """ValueError unless an axis of a weight can be cut into parts for so many ranks."""
    if recipe.of_schemes:
        raise ValueError("recipe of a layer in parts must have no schemes, whose scales span parts")
    whole = ranks * recipe.block_size
    if size % whole:
        raise ValueError(
            f"{FEATURES[axis]} must be a multiple of {whole} ({ranks} ranks, blocks of "
            f"{recipe.block_size}), not {size}"
        )


def check_dtensor(weight: Any, recipe: Recipe) -> None:
    """ValueError unless products with a DTensor weight are those of PyTorch on whole blocks."""
    if not recipe.plain:
        got = "schemes" if recipe.of_schemes else f"accumulator {recipe.accumulator}"
        raise ValueError(
            f"recipe of a layer of DTensors must have element formats and be fast, not {got}"
        )
    ranks: defaultdict[int, int] = defaultdict(lambda: 1)
    for count, placement in zip(weight.device_mesh.shape, weight.placements, strict=True):
        if placement.is_shard():
            ranks[placement.dim] *= count
    for axis, count in ranks.items():
        check_cut(axis, weight.shape[axis], count, recipe)
