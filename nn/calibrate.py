"""calibrate: activations of a network are quantised within limits that a calibration set gave."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..model import schemes
from ..model.schemes import Scheme
from .batches import Batch, check_batches, evaluation_mode, run
from .limits import static_scheme
from .linear import MXLinear
from .quantizers import group_columns, whole_groups


def calibrate(model: nn.Module, batches: Iterable[Batch], method: str = "amax") -> nn.Module:
    """Give each MXLinear of `model` limits for its inputs (`MXLinear.activation_limits`).

    For layers whose activations have a scheme with an outermost scale per tensor (``int8_affine``,
    ``fp8_e4m3_tensor``, ``nvfp4``); the others stay as they are. The model is returned.
    batches: tensors, tuples or lists of arguments, or mappings of names to arguments, of the
    model's forward. It runs in evaluation mode, without gradients and uncompiled, with the weights
    quantised, and activations too, within their own extremes.
    method: one of `mxdot.model.schemes.calibrate`, which gets the rows of each call of a layer as a
    batch, filled up with zeros to whole groups. It takes them all together: every layer's inputs
    stay in host memory, in the dtype they have, until its limits are found, with copies in float64
    for one layer at a time.
    Raises TypeError or ValueError, naming the argument, for anything else, also for layers that get
    no input, or one that is not finite. No limits have changed then.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    check_batches(batches)
    layers = _layers(model)
    for scheme in set(layers.values()):  # what it refuses is refused before any work
        schemes.calibrate([_array(torch.zeros(1, 1), scheme)], scheme, method)
    inputs = _recorded(model, batches, layers)
    limits_of = {}
    for layer, scheme in layers.items():
        rows = inputs.pop(layer)
        limits_of[layer] = schemes.calibrate((_array(x, scheme) for x in rows), scheme, method)
    for layer, limits in limits_of.items():
        layer.activation_limits = limits
    return model


def _layers(model: nn.Module) -> dict[MXLinear, Scheme]:
    """The layers that take limits, with their activations' schemes; ValueError if none does."""
    if any(isinstance(module, nn.DataParallel) for module in model.modules()):
        raise ValueError(
            "model must be without torch.nn.DataParallel, which runs copies of the layers: "
            "calibrate its module"
        )
    every = [module for module in model.modules() if isinstance(module, MXLinear)]
    if not every:
        raise ValueError("model must have an MXLinear to calibrate, not none")
    quantizers = {layer: static_scheme(layer.recipe) for layer in every}
    layers = {layer: each.scheme for layer, each in quantizers.items() if each is not None}
    if not layers:
        others = ", ".join(sorted({str(layer.recipe.activation) for layer in every}))
        raise ValueError(
            "activations must have a scheme with an outermost scale per tensor to be calibrated, "
            f"not {others}"
        )
    return layers


def _recorded(
    model: nn.Module, batches: Iterable[Batch], layers: Iterable[MXLinear]
) -> dict[MXLinear, list[Tensor]]:
    """The inputs of each layer, call by call, as matrices in host memory."""
    names = {module: repr(name) for name, module in model.named_modules()}
    inputs: dict[MXLinear, list[Tensor]] = {layer: [] for layer in layers}
    count = 0

    def record(layer: Any, args: tuple[Tensor, ...], kwargs: dict[str, Tensor], _: Tensor) -> None:
        x = args[0] if args else kwargs["input"]
        if not x.isfinite().all():
            raise ValueError(
                "batches must give every layer finite inputs, not batch "
                f"{count} layer {names[layer]}"
            )
        if x.numel():
            rows = x.reshape(-1, layer.in_features)
            inputs[layer].append(rows.detach().to("cpu", copy=True))

    with _observed(model, inputs, record):
        for batch in batches:
            run(model, batch, count)
            count += 1
    if not count:
        raise ValueError("batches must hold at least one batch, not none")
    missed = [names[layer] for layer, seen in inputs.items() if not seen]
    if missed:
        raise ValueError(
            f"batches must reach every layer with at least one row, not miss {', '.join(missed)}"
        )
    return inputs


@contextmanager
def _observed(model: nn.Module, layers: Iterable[MXLinear], hook: Any) -> Iterator[None]:
    """`model` as calibration runs it, with `hook` on the layers; in the end all is as before."""
    limits = {layer: layer.activation_limits for layer in layers}
    handles = [layer.register_forward_hook(hook, with_kwargs=True) for layer in layers]
    try:
        for layer in limits:
            layer.activation_limits = None
        with evaluation_mode(model):
            yield
    finally:
        for handle in handles:
            handle.remove()
        for layer, kept in limits.items():
            layer.activation_limits = kept


def _array(rows: Tensor, scheme: Scheme) -> NDArray[np.float32]:
    """A matrix as the model takes it, in whole groups."""
    return whole_groups(rows.to(torch.float32), scheme, group_columns(scheme)).numpy()
