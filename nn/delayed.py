"""Delayed scales: those of a step come from the largest magnitudes of the steps before it.

Micikevicius et al., FP8 Formats for Deep Learning, arXiv:2209.05433, have scales of tensors from
their history; a maximum over a window of steps, with a margin, is what libraries do.

A layer has a buffer, float32 (3, 1 + window): for each of ROLES the largest magnitude of this step
so far, then those of the steps before, the latest first. All passes of a step have the same scales
and may be repeated, as activation checkpointing does: `advance_scales` alone ends a step.
"""

import torch
from torch import Tensor, nn

from ..model.formats import FLOAT32
from .recipe import ROLES, Recipe

HISTORY = "amax_history"  # of a layer, and in a state_dict


def new_history(recipe: Recipe, device: torch.device) -> Tensor:
    """Of a layer that has seen no step."""
    return torch.zeros((len(ROLES), 1 + recipe.window), dtype=torch.float32, device=device)


def limit(history: Tensor, role: str, x: Tensor, margin: int, record: bool) -> Tensor:
    """The magnitude (1, 1) that `x` is quantised within, which it exceeds or not.

    2^margin times the largest in the history; without a positive one, as in the first step, that of
    `x`. record: whether `x` counts for later steps.
    """
    row, amax = history[ROLES.index(role)], _largest(x)
    if record:
        row[0].copy_(torch.maximum(row[0], amax))
    before = row[1:].amax()
    wide = (before * 2.0**margin).clamp(max=FLOAT32.largest_finite)
    return torch.where(before > 0, wide, amax).reshape(1, 1)


def _largest(x: Tensor) -> Tensor:
    """The largest magnitude, 0 where one is not finite or there are none; float32 of no axes."""
    if not x.numel():
        return x.new_zeros((), dtype=torch.float32)
    amax = x.detach().abs().amax().to(torch.float32)
    return torch.where(amax.isfinite(), amax, 0.0)


def advance_scales(model: nn.Module) -> nn.Module:
    """End a step: what layers with ``delayed`` limits have seen in it is their latest history.

    To be called after each step of the optimiser; until then scales stay as they are. A role that a
    layer has not seen since the last call keeps its history. Nothing waits for the device.
    Returns `model`; ValueError where no layer of it has such limits.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    found = [b for name, b in model.named_buffers() if name.rpartition(".")[2] == HISTORY]
    if not found:
        raise ValueError("model must have an MXLinear with limits delayed, not none")
    with torch.no_grad():
        for history in found:
            rolled = torch.cat([torch.zeros_like(history[:, :1]), history[:, :-1]], dim=1)
            history.copy_(torch.where(history[:, :1] > 0, rolled, history))
    return model
