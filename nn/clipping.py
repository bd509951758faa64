"""Limits of weights and activations that are learned, or found by OCTAV in each pass.

The gradient of a learned limit m is that of y = Q(x; m), which scales as its arguments do:
Q(cx; cm) = c Q(x; m), so that m dy/dm = y - x dy/dx (Euler). With dy/dx = 1 within the limit and 0
from it on, that is (y - x) / m within, and +1 or -1 beyond: what Esser et al., Learned Step Size
Quantization, arXiv:1902.08153, have for steps m / Q_P, without their factor 1 / sqrt(N Q_P). Choi
et al., PACT, arXiv:1805.06085, take 0 within.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..gpu.operators import operator
from ..model.schemes import Scheme
from ..model.schemes.calibrate import has_integers, thresholds
from .quantizers import SchemeQuantizer
from .recipe import Recipe

ROLES = ("weight", "activation")
NAMES = {role: f"{role}_limit" for role in ROLES}  # of a layer's Parameters
ITERATIONS = 20  # of OCTAV; twice what its fixed point takes


def new_limit(scheme: Scheme, out_features: int, device: torch.device) -> nn.Parameter:
    """A limit for each outermost group, float32 (1, 1) or (out_features, 1); 0: none yet."""
    rows = 1 if scheme.levels[0].granularity.rows is None else out_features
    return nn.Parameter(torch.zeros((rows, 1), dtype=torch.float32, device=device))


def first_limit(x: Tensor, scheme: Scheme) -> Tensor:
    """Where learning begins: OCTAV's limit for integers, the largest magnitude for floats."""
    return octav(x, scheme) if has_integers(scheme) else largest(x, scheme)


def largest(x: Tensor, scheme: Scheme) -> Tensor:
    """The largest finite magnitude of a matrix (rows, K), or of each row; (1, 1) or (rows, 1)."""
    groups = _groups(x, scheme)
    return groups.amax(dim=1, keepdim=True) if groups.numel() else groups.sum(1, keepdim=True)


def octav(x: Tensor, scheme: Scheme) -> Tensor:
    """The clipping of least expected squared error, of the same shape: the model's iteration."""
    found = _octav(_groups(x, scheme), scheme.elements[0].bits)
    return torch.minimum(found, largest(x, scheme))


def _groups(x: Tensor, scheme: Scheme) -> Tensor:
    """Finite magnitudes, float32, a row for each outermost group."""
    x = x.detach().abs().to(torch.float32)
    x = torch.where(x.isfinite(), x, 0.0)
    return x.reshape(1, x.numel()) if scheme.levels[0].granularity.rows is None else x


def _fake(groups: Tensor, bits: int) -> Tensor:
    return groups.new_empty((groups.shape[0], 1))


@operator("octav", _fake)
def _octav(groups: Tensor, bits: int) -> Tensor:
    return thresholds(groups, bits, ITERATIONS).to(torch.float32)[:, None]


def derivative(recipe: Recipe, role: str) -> str:
    """How gradients of a role pass beyond its limit."""
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
        # A limit of zero, as OCTAV's of zeros, is none: 0 / 0 would be a NaN, and a zero stay one.
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
