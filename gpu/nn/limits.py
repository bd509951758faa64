"""Static limits of a layer's activations: which recipes take them, and what is saved of them."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...model.schemes import TENSOR, Limits
from .quantizers import SchemeQuantizer
from .recipe import Recipe

KEY = "activation_limits"  # of a layer, and in a state_dict


def static_scheme(recipe: Recipe) -> SchemeQuantizer | None:
    """What quantises activations, if one scale is outermost for them all; else None.

    Scales of rows or blocks belong to positions in one input, and mean nothing in the next.
    """
    quantizer = recipe.quantizer("activation")
    if not isinstance(quantizer, SchemeQuantizer):
        return None
    return quantizer if quantizer.scheme.levels[0].granularity == TENSOR else None


def with_limits(recipe: Recipe, limits: Limits) -> SchemeQuantizer:
    """What quantises activations under limits of shape (1, 1); TypeError or ValueError if none."""
    if not isinstance(limits, Limits):
        raise TypeError(f"{KEY} must be Limits or None, not {type(limits).__name__}")
    quantizer = static_scheme(recipe)
    if quantizer is None:
        raise ValueError(
            f"{KEY} must be None unless activations have a scheme with an outermost scale per "
            f"tensor, not {recipe.activation}"
        )
    if limits.low.shape != (1, 1):
        raise ValueError(f"{KEY} must have shape (1, 1), not {limits.low.shape}")
    return replace(quantizer, limits=limits)


def to_tensor(limits: Limits, device: torch.device) -> Tensor:
    """What a state_dict has: float32 (low, high)."""
    sides = limits.low.item(), limits.high.item()
    return torch.tensor(sides, dtype=torch.float32, device=device)


def from_tensor(saved: Any) -> Limits:
    """The limits that `to_tensor` made it of; ValueError for anything else."""
    if not isinstance(saved, Tensor):
        raise ValueError(f"{KEY} must be a torch.Tensor, not {type(saved).__name__}")
    if saved.is_meta:
        raise ValueError(f"{KEY} must have values, not device meta")
    if saved.shape != (2,):
        raise ValueError(f"{KEY} must have shape (2,), not {tuple(saved.shape)}")
    low, high = saved.to("cpu", torch.float32).tolist()
    try:
        return Limits([[low]], [[high]])
    except ValueError as error:
        raise ValueError(f"{KEY}: {error}") from None
