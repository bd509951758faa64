"""evaluate: how far a quantised model's layers, and the whole of it, are from a reference."""

import math
import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..model.errors import choice
from . import attention
from .attention import observed
from .batches import Batch, check_batches, evaluation_mode, run
from .experts import MXExperts
from .linear import MXLinear
from .recipe import Recipe

METRICS = {"sqnr": "SQNR, dB", "cosine": "cosine", "mse": "MSE"}
FORMATS = {"sqnr": "{:.1f}", "cosine": "{:.6f}", "mse": "{:.3g}"}
WHOLE = "the whole model"


@dataclass
class OutputErrors:
    """Errors of outputs against a reference, all as one vector; sums in float64."""

    count: int = 0
    power: float = 0.0  # sums of squares
    reference: float = 0.0
    error: float = 0.0
    product: float = 0.0
    largest: float = 0.0  # error
    different: int = 0  # outputs that do not equal the reference's

    def add(self, results: Tensor, references: Tensor) -> None:
        """More outputs and their reference, of one shape."""
        x, y = (t.detach().to(torch.float64).flatten() for t in (results, references))
        error = x - y
        self.count += len(x)
        self.power += float(x @ x)
        self.reference += float(y @ y)
        self.product += float(x @ y)
        self.error += float(error @ error)
        if len(x):
            self.largest = max(self.largest, float(error.abs().max()))
            self.different += int((x != y).sum())

    @property
    def differing(self) -> float:
        """Share of the outputs that do not equal the reference's."""
        return self.different / max(self.count, 1)

    @property
    def cosine(self) -> float:
        """Cosine similarity of both; 1 where both are zero."""
        norms = math.sqrt(self.power * self.reference)
        return self.product / norms if norms else float(self.power == self.reference)

    @property
    def mse(self) -> float:
        """The mean of the squared errors."""
        return self.error / max(self.count, 1)

    @property
    def sqnr(self) -> float:
        """10 log10 of the reference's power over the errors', in dB; infinite without errors."""
        if not self.error:
            return math.inf
        ratio = self.reference / self.error
        return 10 * math.log10(ratio) if ratio else -math.inf

    @property
    def relative(self) -> float:
        """The largest error over the root mean square of the reference."""
        return self.largest / math.sqrt(self.reference / self.count) if self.reference else math.inf


@dataclass(frozen=True)
class LayerErrors:
    """Errors of one layer. alone: given the reference's inputs; within: as it runs in the model."""

    name: str
    kernel: str
    alone: OutputErrors = field(default_factory=OutputErrors)
    within: OutputErrors = field(default_factory=OutputErrors)


@dataclass(frozen=True)
class Evaluation:
    """Errors layer by layer, in the order of the model, and of what it returns; `str` is a table.

    metric: what `values` gives, and what the table has of layers as they run in the model.
    """

    layers: tuple[LayerErrors, ...]
    whole: OutputErrors
    metric: str

    def values(self) -> dict[str, float]:
        """The metric of each layer alone by its name, and of the whole model."""
        of_layers = {layer.name: getattr(layer.alone, self.metric) for layer in self.layers}
        return {**of_layers, WHOLE: getattr(self.whole, self.metric)}

    def __str__(self) -> str:
        columns = ["layer", *METRICS.values(), f"{METRICS[self.metric]} in the model", "kernel"]
        lines = [row_text(columns), row_text(["---"] * len(columns))]
        for layer in self.layers:
            within = _shown(layer.within, self.metric)
            lines.append(row_text([layer.name, *_all(layer.alone), within, layer.kernel]))
        whole = _all(self.whole)
        lines.append(row_text([WHOLE, *whole, _shown(self.whole, self.metric), ""]))
        return "\n".join(lines)


def row_text(cells: Iterable[str]) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def _all(errors: OutputErrors) -> list[str]:
    return [_shown(errors, metric) for metric in METRICS]


def _shown(errors: OutputErrors, metric: str) -> str:
    return FORMATS[metric].format(getattr(errors, metric))


Calls = dict[str, list[tuple[tuple[Tensor, ...], Tensor]]]
AttentionCalls = list[tuple[Recipe | None, tuple[Any, ...], dict[str, Any], Tensor]]


def evaluate(
    model: nn.Module, reference: nn.Module, batches: Iterable[Batch], metric: str = "sqnr"
) -> Evaluation:
    """The errors of `model`'s layers and of its output against those of `reference`.

    model: a network with MXLinears or MXExperts, converted, frozen or made quantised.
    reference: the network that it stands for, with layers of the same names, which take and give
    tensors of the same shapes; not the same object: `copy.deepcopy` a model before `convert`.
    batches: as `calibrate` takes them. Both run in evaluation mode, without gradients and
    uncompiled; the outputs of one batch are kept at a time.
    metric: ``sqnr``, ``cosine`` or ``mse``. Of an output that is a tuple, a list or a mapping the
    first tensor counts.
    Calls of attention by a recipe's format count as layers, ``attention 1`` and so on.
    Layers that no batch called are left out; a UserWarning names them: something may read their
    weight, in high precision.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    for name, each in (("model", model), ("reference", reference)):
        if not isinstance(each, nn.Module):
            raise TypeError(f"{name} must be a torch.nn.Module, not {type(each).__name__}")
    choice("metric", metric, METRICS)
    check_batches(batches)
    layers = _layers(model)
    if not layers:
        raise ValueError("model must have an MXLinear to evaluate, not none")
    others = _others(layers, reference)
    errors = {name: LayerErrors(name, layer.kernel) for name, layer in layers.items()}
    attended: dict[str, LayerErrors] = {}
    whole = OutputErrors()
    with evaluation_mode(model, reference):
        for index, batch in enumerate(batches):
            reference_output, wanted, there = _observed(reference, others, batch, index)
            output, calls, here = _observed(model, layers, batch, index)
            _compare(errors, layers, calls, wanted)
            _compare_attention(attended, here, there)
            whole.add(first_tensor(output), first_tensor(reference_output))
    if not whole.count:
        raise ValueError("batches must hold at least one batch with an output, not none")
    called = tuple(layer for layer in errors.values() if layer.alone.count)
    if len(called) < len(errors):
        left = ", ".join(name for name, layer in errors.items() if not layer.alone.count)
        warnings.warn(
            f"evaluate leaves out layers that model never called: {left}; something else may "
            "multiply by their weight, in high precision",
            stacklevel=2,
        )
    if attention.has_attention(model) and not attended:
        warnings.warn(
            "evaluate leaves out attention, which model never computes by "
            "scaled_dot_product_attention: it stays in high precision",
            stacklevel=2,
        )
    return Evaluation((*called, *attended.values()), whole, metric)


def _layers(model: nn.Module) -> dict[str, MXLinear | MXExperts]:
    """Layers that are compared: experts whole."""
    named = dict(model.named_modules())
    whole = tuple(f"{name}." for name, each in named.items() if isinstance(each, MXExperts))
    return {
        name: each
        for name, each in named.items()
        if isinstance(each, MXLinear | MXExperts) and not name.startswith(whole)
    }


def _others(layers: Mapping[str, nn.Module], reference: nn.Module) -> dict[str, nn.Module]:
    """The reference's layers of the same names."""
    named = dict(reference.named_modules())
    missing = [repr(name) for name in layers if name not in named]
    if missing:
        raise ValueError(f"reference must have the layers of model, not miss {', '.join(missing)}")
    shared = [repr(name) for name, layer in layers.items() if named[name] is layer]
    if shared:
        raise ValueError(f"reference must have layers of its own, not share {', '.join(shared)}")
    return {name: named[name] for name in layers}


def _observed(
    model: nn.Module, layers: Mapping[str, nn.Module], batch: Batch, index: int
) -> tuple[Any, Calls, AttentionCalls]:
    """The output, and what came into the layers, and attention, and out of them, call by call."""
    calls: Calls = {name: [] for name in layers}
    attended: AttentionCalls = []
    with ExitStack() as stack:
        stack.enter_context(observed(lambda *call: attended.append(call)))
        for name, layer in layers.items():

            def record(
                _: Any, args: tuple[Tensor, ...], kwargs: Any, y: Tensor, name: str = name
            ) -> None:
                given = (*args, *kwargs.values())
                # Networks may change them in place.
                calls[name].append((tuple(x.clone() for x in given), y.clone()))

            handle = layer.register_forward_hook(record, with_kwargs=True)
            stack.callback(handle.remove)
        return run(model, batch, index), calls, attended


def _compare(
    errors: Mapping[str, LayerErrors],
    layers: Mapping[str, MXLinear | MXExperts],
    results: Calls,
    references: Calls,
) -> None:
    for name, of_layer in errors.items():
        counts = len(results[name]), len(references[name])
        if counts[0] != counts[1]:
            raise ValueError(
                f"model must call layer {name!r} as often as reference, {counts[1]} times, not "
                f"{counts[0]}"
            )
        for (_, here), ((x, *routes), there) in zip(results[name], references[name], strict=True):
            if here.shape != there.shape:
                shapes = f"{tuple(there.shape)}, not {tuple(here.shape)}"
                raise ValueError(f"outputs of layer {name!r} must have the same shape, {shapes}")
            of_layer.within.add(here, there)
            layer = layers[name]
            # Not that of its output, which autocast inside the model may have set.
            dtype = here.dtype
            if layer.keeps_weight:
                dtype = layer.dtype if isinstance(layer, MXExperts) else layer.weight.dtype
            of_layer.alone.add(layer(x.to(dtype), *routes), there)


def _compare_attention(
    errors: dict[str, LayerErrors], results: AttentionCalls, references: AttentionCalls
) -> None:
    """Compare calls of attention by a recipe with the reference's of the same number."""
    if all(recipe is None for recipe, *_ in results):
        return
    if len(results) != len(references):
        raise ValueError(
            f"model must call attention as often as reference, {len(references)} times, not "
            f"{len(results)}"
        )
    for number, (call, other) in enumerate(zip(results, references, strict=True), 1):
        (recipe, _, _, here), (_, args, kwargs, there) = call, other
        if recipe is None:
            continue
        name = f"attention {number}"
        if name not in errors:
            errors[name] = LayerErrors(name, attention.kernel_name(recipe, here.device))
        errors[name].within.add(here, there)
        errors[name].alone.add(attention.attention(recipe, *args, **kwargs), there)


def first_tensor(output: Any) -> Tensor:
    """The tensor of an output, or its first."""
    if isinstance(output, Tensor):
        return output
    parts = output.values() if isinstance(output, Mapping) else output
    if isinstance(parts, Iterable):
        for part in parts:
            if isinstance(part, Tensor):
                return part
    raise TypeError(f"outputs of model must be a tensor, or have one, not {type(output).__name__}")
