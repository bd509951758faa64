"""Limits of a layer's operands: static, learned, found by OCTAV in each pass, or delayed.

The gradient of a learned limit m is the gradient of y = Q(x; m), which scales as its arguments do:
Q(cx; cm) = c Q(x; m), so that m dy/dm = y - x dy/dx (Euler). With dy/dx = 1 within the limit and 0
from it on, dy/dm is (y - x) / m within, and +1 or -1 beyond. Esser et al., Learned Step Size
Quantization, arXiv:1902.08153, have the same for steps m / Q_P, without their factor
1 / sqrt(N Q_P). Choi et al., PACT, arXiv:1805.06085, take 0 within.

Delayed scales come from the largest magnitudes of earlier steps. Micikevicius et al., FP8 Formats
for Deep Learning, arXiv:2209.05433, have scales of tensors from their history; libraries take a
maximum over a window of steps, with a margin. A layer has a float32 buffer (3, 1 + window): for
each of ROLES the largest magnitude of this step so far, then those of earlier steps, the latest
first. All passes of a step have the same scales and may be repeated, as activation checkpointing
does: `advance_scales` alone ends a step.
"""

import warnings
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..gpu.operators import operator
from ..model.formats import FLOAT32
from ..model.schemes import TENSOR, Limits, Scheme
from ..model.schemes.calibrate import has_integers, thresholds
from .quantizers import SchemeQuantizer
from .recipe import ROLES, Recipe

KEY = "activation_limits"  # of a layer, and in a state_dict
HISTORY = "amax_history"  # of a layer, and in a state_dict
NAMES = {role: f"{role}_limit" for role in ("weight", "activation")}  # of a layer's Parameters
# Cached here: torch.compile recompiles when a first call sets the property.
LARGEST = FLOAT32.largest_finite
ITERATIONS = 20  # of OCTAV; twice what its fixed point takes


class Limited(Protocol):
    """The attributes of `MXLinear` that limits read and set."""

    recipe: Recipe
    weight: Any
    out_features: int
    limits_begun: bool
    amax_history: Tensor
    _parameters: Any
    _buffers: Any

    @property
    def activation_limits(self) -> Limits | None: ...

    def register_buffer(self, name: str, tensor: Tensor | None) -> None: ...

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None: ...


# Static limits -----------------------------------------------------------------------------------


def static_scheme(recipe: Recipe) -> SchemeQuantizer | None:
    """Quantizer of activations if one outermost scale covers them all; else None.

    Scales of rows or blocks belong to positions in one input, and mean nothing in the next.
    """
    quantizer = recipe.quantizer("activation")
    if not isinstance(quantizer, SchemeQuantizer):
        return None
    return quantizer if quantizer.scheme.levels[0].granularity == TENSOR else None


def with_limits(recipe: Recipe, limits: Limits) -> SchemeQuantizer:
    """Quantizer of activations under limits of shape (1, 1); TypeError or ValueError if none."""
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
    """Form of limits in a state_dict: float32 (low, high)."""
    sides = limits.low.item(), limits.high.item()
    return torch.tensor(sides, dtype=torch.float32, device=device)


def from_tensor(saved: Any) -> Limits:
    """Inverse of `to_tensor`; ValueError for anything else."""
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


# Learned limits and OCTAV ------------------------------------------------------------------------


def new_limit(scheme: Scheme, out_features: int, device: torch.device) -> nn.Parameter:
    """A limit for each outermost group, float32 (1, 1) or (out_features, 1), but at least one; 0:
    none yet."""
    rows = 1 if scheme.levels[0].granularity.rows is None else max(out_features, 1)
    return nn.Parameter(torch.zeros((rows, 1), dtype=torch.float32, device=device))


def first_limit(x: Tensor, scheme: Scheme) -> Tensor:
    """First value of a learned limit: OCTAV's for integers, the largest magnitude for floats."""
    return octav(x, scheme) if has_integers(scheme) else largest(x, scheme)


def largest(x: Tensor, scheme: Scheme) -> Tensor:
    """The largest finite magnitude of a matrix (rows, K), or of each row; (1, 1) or (rows, 1)."""
    groups = _groups(x, scheme)
    return groups.amax(dim=1, keepdim=True) if groups.numel() else groups.sum(1, keepdim=True)


def octav(x: Tensor, scheme: Scheme) -> Tensor:
    """The clipping of least expected squared error, of the same shape: the model's iteration."""
    threshold = _octav(_groups(x, scheme), scheme.elements[0].bits)
    return torch.minimum(threshold, largest(x, scheme))


def _groups(x: Tensor, scheme: Scheme) -> Tensor:
    """Finite magnitudes, float32, a row for each outermost group; one of nothing without rows."""
    x = x.detach().abs().to(torch.float32)
    x = torch.where(x.isfinite(), x, 0.0)
    is_one = scheme.levels[0].granularity.rows is None or not x.shape[0]
    return x.reshape(1, x.numel()) if is_one else x


def _fake(groups: Tensor, bits: int) -> Tensor:
    return groups.new_empty((groups.shape[0], 1))


@operator("octav", _fake)
def _octav(groups: Tensor, bits: int) -> Tensor:
    return thresholds(groups, bits, ITERATIONS).to(torch.float32)[:, None]


def derivative(recipe: Recipe, role: str) -> str:
    """Rule for gradients of values beyond a role's limit."""
    if recipe.clipped_gradient == "hybrid":
        return "magnitude_aware" if role == "weight" else "zero"
    return recipe.clipped_gradient


class Clipped(torch.autograd.Function):
    """x (rows, K) itself, with the gradients of what `quantizer` makes of it within a limit.

    kind: ``straight_through``, ``zero`` or ``magnitude_aware``.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, limit: Tensor, quantizer: SchemeQuantizer, kind: str
    ) -> Tensor:
        ctx.save_for_backward(x, limit)
        ctx.quantizer, ctx.kind = quantizer, kind
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, limit = ctx.saved_tensors
        magnitude = x.abs()
        # A limit of zero, OCTAV's for zeros, does not limit: 0 / 0 is NaN, and zero would stay.
        inside = (magnitude < limit) | (limit == 0)
        dx = dlimit = None
        if ctx.needs_input_grad[0]:
            dx = g
            if ctx.kind == "zero":
                dx = torch.where(inside, g, 0.0)
            elif ctx.kind == "magnitude_aware":
                dx = torch.where(inside, g, (g * (limit / magnitude)).to(g.dtype))
        if ctx.needs_input_grad[1]:
            values = ctx.quantizer.values(x, False, limit).to(torch.float32)
            slope = (values - torch.where(inside, x, 0.0)) / limit
            slope = torch.where(limit > 0, slope, 0.0)
            dlimit = (g.to(torch.float32) * slope).sum_to_size(limit.shape)
        return dx, dlimit, None, None


# Delayed limits ----------------------------------------------------------------------------------


def new_history(recipe: Recipe, device: torch.device) -> Tensor:
    """History of a layer that has seen no step."""
    return torch.zeros((len(ROLES), 1 + recipe.window), dtype=torch.float32, device=device)


def delayed_limit(history: Tensor, role: str, x: Tensor, margin: int, record: bool) -> Tensor:
    """The magnitude (1, 1) that `x` is quantised within, which it exceeds or not.

    2^margin times the largest in the history; without a positive one, as in the first step, that of
    `x`. record: whether `x` counts for later steps.
    """
    row, amax = history[ROLES.index(role)], _amax(x)
    if record:
        row[0].copy_(torch.maximum(row[0], amax))
    before = row[1:].amax()
    wide = (before * 2.0**margin).clamp(max=LARGEST)
    return torch.where(before > 0, wide, amax).reshape(1, 1)


def _amax(x: Tensor) -> Tensor:
    """The largest magnitude, 0 where one is not finite or there are none; float32 of no axes."""
    if not x.numel():
        return x.new_zeros((), dtype=torch.float32)
    amax = x.detach().abs().amax().to(torch.float32)
    return torch.where(amax.isfinite(), amax, 0.0)


def advance_scales(model: nn.Module) -> nn.Module:
    """End a step: what layers with ``delayed`` limits have seen in it is their latest history.

    To be called after each step of the optimiser; until then scales stay as they are. A role that a
    layer has not seen since the last call keeps its history. Nothing waits for the device.
    Returns `model`; ValueError if no layer has ``delayed`` limits.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    histories = [b for name, b in model.named_buffers() if name.rpartition(".")[2] == HISTORY]
    if not histories:
        raise ValueError("model must have an MXLinear with limits delayed, not none")
    with torch.no_grad():
        for history in histories:
            rolled = torch.cat([torch.zeros_like(history[:, :1]), history[:, :-1]], dim=1)
            history.copy_(torch.where(history[:, :1] > 0, rolled, history))
    return model


# What the recipe says ----------------------------------------------------------------------------


def set_up(layer: Limited) -> None:
    """Give a new layer the buffer or the Parameters that the limits of its recipe need."""
    recipe, device = layer.recipe, layer.weight.device
    # Of its own: those of a layer it was made from stay as they are.
    others = (*NAMES.values(), HISTORY)
    for kind in ("_parameters", "_buffers"):
        kept = {k: v for k, v in getattr(layer, kind).items() if k not in others}
        vars(layer)[kind] = kept
    layer.limits_begun = False
    if recipe.limits == "delayed":
        layer.register_buffer(HISTORY, new_history(recipe, device))
    for role, name in NAMES.items() if recipe.limits == "learned" else ():
        quantizer = recipe.quantizer(role)
        if isinstance(quantizer, SchemeQuantizer):
            made = new_limit(quantizer.scheme, layer.out_features, device)
            layer.register_parameter(name, made)


def learned(layer: Limited) -> list[nn.Parameter]:
    """The learned limits that a layer has."""
    names = NAMES.values()
    return [own for name in names if (own := layer._parameters.get(name)) is not None]


def is_state(layer: Limited, x: Tensor) -> bool:
    """Whether a tensor is a limit, its gradient, or a history, which no cast may change."""
    if x is layer._buffers.get(HISTORY):
        return True
    return any(x is own or x is own.grad for own in learned(layer))


def begin(layer: Limited, **values: Tensor) -> None:
    """Learned limits that are still 0 become those that learning begins with, by role.

    Values without a finite magnitude above 0 begin none: the next pass is the first. A compiled
    graph does not look, except for values of which there are none.
    """
    begun, looks = True, not torch.compiler.is_compiling()
    for role, x in values.items():
        own, quantizer = getattr(layer, NAMES[role], None), layer.recipe.quantizer(role)
        if own is None or not isinstance(quantizer, SchemeQuantizer):
            continue
        if x.numel():
            with torch.no_grad():
                first = torch.where(own == 0, first_limit(x, quantizer.scheme), own)
                # A pass that waits for its backward pass may have saved the version.
                (own.data if looks else own).copy_(first)
        begun = begun and x.numel() > 0 and (not looks or bool(own.detach().any()))
    layer.limits_begun = begun


def warn_of_limits(layer: Limited) -> None:
    """A UserWarning for a learned limit that training has left at 0."""
    for role, name in NAMES.items():
        own = layer._parameters.get(name)
        left = layer.limits_begun and own is not None and not own.is_meta and not own.any()
        if left:
            warnings.warn(
                f"{name} is 0 after training, whose first {role} had no finite magnitude above 0: "
                "each pass is quantised within its own largest magnitude",
                stacklevel=3,
            )


def within(
    layer: Limited, role: str, x: Tensor, record: bool = False
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
        return x, delayed_limit(layer.amax_history, role, x, recipe.margin, record)
    if recipe.limits == "octav":
        limit = octav(x, quantizer.scheme)
    else:
        own = getattr(layer, NAMES[role])
        limit = torch.where(own == 0, largest(x, quantizer.scheme), own.abs())
    kind = derivative(recipe, role)
    if torch.is_grad_enabled() and (limit.requires_grad or kind != "straight_through"):
        x = Clipped.apply(x, limit, quantizer, kind)
    return x, limit.detach()
