"""Batches of a model's inputs: how calibration and evaluation run them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Batch = Tensor | tuple[Any, ...] | list[Any] | Mapping[str, Any]


def check_batches(batches: Iterable[Batch]) -> None:
    """TypeError for one batch in place of several, or for anything else that is not iterable."""
    if isinstance(batches, Tensor | Mapping | str) or not isinstance(batches, Iterable):
        raise TypeError(f"batches must be an iterable of batches, not {type(batches).__name__}")


def run(model: nn.Module, batch: Batch, index: int) -> Any:
    """Run the model on a batch: a tensor, a tuple or list of arguments, or arguments by name."""
    if isinstance(batch, Tensor):
        return model(batch)
    if isinstance(batch, tuple | list):
        return model(*batch)
    if isinstance(batch, Mapping):
        return model(**batch)
    raise TypeError(
        "batches must hold tensors, tuples, lists or mappings that the model's forward takes, "
        f"not {type(batch).__name__} (batch {index})"
    )


@contextmanager
def evaluation_mode(*models: nn.Module) -> Iterator[None]:
    """Models in evaluation mode, without gradients and uncompiled; in the end as before."""
    modes = {module: module.training for model in models for module in model.modules()}
    try:
        for model in models:
            model.eval()
        # Compiled code would be made anew for the hooks, and again without them.
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            yield
    finally:
        for module, training in modes.items():
            module.training = training
