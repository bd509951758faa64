"""Effect of a recipe on one step: the loss and the gradient, at the same weights and batches.

Training runs that differ in one rounding drift apart as far as two seeds do; this does not.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mxdot.nn import Recipe, convert

Batch = tuple[Tensor, Tensor]
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class StepError:
    """Against float32, over batches.

    loss: the mean change of the loss, nats per byte. gradient: the mean relative error of the
    gradient of the blocks' weights, |g - g32| / |g32|. mean_gradient: the same of the gradient
    averaged over the batches, where errors that are random cancel and others stay.
    """

    loss: float
    gradient: float
    mean_gradient: float


def step_errors(
    model: nn.Module, recipes: Mapping[str, Recipe | None], batches: Sequence[Batch], loss: Loss
) -> dict[str, StepError]:
    """The error of each recipe; None is bfloat16. loss(model, x, y) decides on autocast."""
    float32 = [_step(model, batch, _in_float32(loss)) for batch in batches]
    errors = {}
    for name, recipe in recipes.items():
        copied = copy.deepcopy(model)
        if recipe is not None:
            copied = convert(copied, recipe, skip=["head"])
        steps = [_step(copied, batch, loss) for batch in batches]
        errors[name] = _compare(steps, float32)
    return errors


def _in_float32(loss: Loss) -> Loss:
    def without_autocast(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())

    return without_autocast


def _step(model: nn.Module, batch: Batch, loss: Loss) -> tuple[float, Tensor]:
    """The loss and the gradient of the blocks' weight matrices, one vector."""
    model.zero_grad()
    value = loss(model, *batch)
    value.backward()
    named = model.named_parameters()
    gradients = [p.grad for name, p in named if name.startswith("blocks") and p.ndim == 2]
    return value.item(), torch.cat([g.flatten() for g in gradients])


def _compare(steps: list[tuple[float, Tensor]], float32: list[tuple[float, Tensor]]) -> StepError:
    pairs = list(zip(steps, float32, strict=True))
    relative = [_relative(g, g32) for (_, g), (_, g32) in pairs]
    means = [sum(g for _, g in runs) / len(runs) for runs in (steps, float32)]
    return StepError(
        sum(loss - loss32 for (loss, _), (loss32, _) in pairs) / len(pairs),
        sum(relative) / len(pairs),
        _relative(*means),
    )


def _relative(got: Tensor, want: Tensor) -> float:
    return ((got - want).norm() / want.norm()).item()
