"""Limits of a layer: static ones of activations, and what the recipe's others need and are."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..model.schemes import TENSOR, Limits
from . import clipping, delayed
from .quantizers import SchemeQuantizer
from .recipe import Recipe

if TYPE_CHECKING:
    from .linear import MXLinear

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


# What the recipe says ----------------------------------------------------------------------------


def set_up(layer: "MXLinear") -> None:
    """Give a new layer the buffer or the Parameters that the limits of its recipe need."""
    recipe, device = layer.recipe, layer.weight.device
    # Of its own: those of a layer it was made from stay as they are.
    others = (*clipping.NAMES.values(), delayed.HISTORY)
    for kind in ("_parameters", "_buffers"):
        kept = {k: v for k, v in getattr(layer, kind).items() if k not in others}
        vars(layer)[kind] = kept
    layer.limits_begun = False
    if recipe.limits == "delayed":
        layer.register_buffer(delayed.HISTORY, delayed.new_history(recipe, device))
    for role, name in clipping.NAMES.items() if recipe.limits == "learned" else ():
        quantizer = recipe.quantizer(role)
        if isinstance(quantizer, SchemeQuantizer):
            made = clipping.new_limit(quantizer.scheme, layer.out_features, device)
            layer.register_parameter(name, made)


def learned(layer: "MXLinear") -> list[nn.Parameter]:
    """The learned limits that a layer has."""
    names = clipping.NAMES.values()
    return [own for name in names if (own := layer._parameters.get(name)) is not None]


def is_state(layer: "MXLinear", x: Tensor) -> bool:
    """Whether a tensor is a limit, its gradient, or a history, which no cast may change."""
    if x is layer._buffers.get(delayed.HISTORY):
        return True
    return any(x is own or x is own.grad for own in learned(layer))


def begin(layer: "MXLinear", **values: Tensor) -> None:
    """Learned limits that are still 0 become those that learning begins with, by role."""
    layer.limits_begun = True
    with torch.no_grad():
        for role, x in values.items():
            own, quantizer = (
                getattr(layer, clipping.NAMES[role], None),
                layer.recipe.quantizer(role),
            )
            if own is not None and isinstance(quantizer, SchemeQuantizer):
                own.copy_(torch.where(own == 0, clipping.first_limit(x, quantizer.scheme), own))


def within(
    layer: "MXLinear", role: str, x: Tensor, record: bool = False
) -> tuple[Tensor, Tensor | None]:
    """`x` (rows, K) with the gradient of its role, and the magnitudes it is quantised within.

    None: its own extremes, or static limits. record: whether it counts for later delayed scales.
    """
    recipe = layer.recipe
    quantizer = recipe.quantizer(role)
    static = role == "activation" and layer.activation_limits is not None
    if recipe.limits == "current" or static or not isinstance(quantizer, SchemeQuantizer):
        return x, None
    if recipe.limits == "delayed":
        return x, delayed.limit(layer.amax_history, role, x, recipe.margin, record)
    if recipe.limits == "octav":
        limit = clipping.octav(x, quantizer.scheme)
    else:
        own = getattr(layer, clipping.NAMES[role])
        limit = torch.where(own == 0, clipping.largest(x, quantizer.scheme), own.abs())
    kind = clipping.derivative(recipe, role)
    if torch.is_grad_enabled() and (limit.requires_grad or kind != "straight_through"):
        x = clipping.Clipped.apply(x, limit, quantizer, kind)
    return x, limit.detach()
