"""load_checkpoint: codes of quantised checkpoints become weights of frozen layers as they are.

A weight is read, placed and let go before the next one is read, and no floats are made of it.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from ..gpu.checks import is_dtensor
from ..gpu.schemes import ScaledTensor
from ..gpu.tensors.container import alike, holds_codes
from ..gpu.tensors.mx import MXTensor
from ..gpu.tensors.packed import PackedTensor
from ..model.arrays import matched
from ..model.checkpoints import Checkpoint
from ..model.errors import flag, nearest
from ..model.formats import FORMATS
from ..model.schemes import ScaledArray, Scheme
from ..model.schemes.table import mx
from .experts import CODES, MXExperts, projections
from .linear import MXLinear
from .products import multiplied_codes, without_gaps
from .quantizers import MXQuantizer, Operand, SchemeQuantizer

Weight = ScaledArray | ScaledTensor | MXTensor | PackedTensor
FLOATS = ("bfloat16", "float16", "float32", "float64")  # narrower ones are codes
Layers = list[tuple[MXLinear, int | None]]  # and which expert of a stacked weight


@torch.no_grad()
def load_checkpoint(
    model: nn.Module,
    checkpoint: str | PathLike[str] | Mapping[str, Any],
    *,
    rename: Callable[[str], str] | None = None,
    device: torch.device | str = "cpu",
    strict: bool = True,
) -> nn.Module:
    """Load quantised weights into layers of `model` that hold codes, bit for bit.

    Layers hold codes by ``freeze(model, keep_weight=False)`` or `quantized_init`, on any device;
    on the device meta they get their memory here, on `device`, one by one. Memory stays below all
    codes and one layer of float32.
    checkpoint: a path that `mxdot.model.checkpoints.Checkpoint` reads, a Checkpoint, or any mapping
    of names to ScaledArrays, MXTensors and ScaledTensors (`mxdot.gpu.load`). Names are those of
    layers; a stacked weight (experts, N, K) goes to the layers of MXExperts. `others` of a
    Checkpoint (biases, norms, embeddings) are loaded too, where the model has their names.
    A weight must be quantised as the layer's recipe says, whatever the rule of its scales:
    ``Recipe(weight=checkpoint[name].scheme, activation=None)`` is such a recipe.
    rename: takes a name of the checkpoint and gives the model's.
    strict: whether every weight of the checkpoint must have a layer, and every layer of codes a
    weight.
    Returns the model. A UserWarning names tensors that stay on the device meta.
    Raises TypeError or ValueError, naming the layer; layers loaded before stay.
    """
    checkpoint = _checked(model, checkpoint, rename)
    flag("strict", strict)
    new_name = rename or str
    layers = dict(_layers(model))
    targets = {name: layers.get(new_name(name)) for name in checkpoint}
    if strict:
        _check_names(targets, layers, new_name)
    if isinstance(checkpoint, Checkpoint):
        _check_inputs(targets, checkpoint, new_name)
    for name, target in targets.items():
        if target is None:
            continue
        weight: Any = checkpoint[name]
        for layer, expert in target:
            try:
                _place(layer, _held(layer, weight, expert, len(target), device))
            except (TypeError, ValueError) as error:
                raise type(error)(f"{new_name(name)}: {error}") from None
        weight = None  # there is no room for two
    if isinstance(checkpoint, Checkpoint):
        _load_others(model, checkpoint, new_name, device)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    left = [name for name, tensor in tensors.items() if tensor.is_meta]
    if left:
        warnings.warn(
            f"load_checkpoint leaves on the device meta: {', '.join(left)}; the checkpoint has no "
            "values for them",
            stacklevel=2,
        )
    return model


def _checked(model: Any, checkpoint: Any, rename: Any) -> Mapping[str, Any]:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if not (rename is None or callable(rename)):
        raise TypeError(f"rename must take a name and give one, or be None, not {rename!r}")
    if isinstance(checkpoint, str | PathLike):
        checkpoint = Checkpoint(checkpoint)
    if not isinstance(checkpoint, Mapping):
        raise TypeError(f"checkpoint must be a path or a mapping, not {type(checkpoint).__name__}")
    return checkpoint


def _layers(model: nn.Module) -> Iterator[tuple[str, Layers]]:
    """Layers that hold codes by the name of their weight."""
    inner = set()
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        if isinstance(module, MXExperts) and not module.keeps_weight:
            for own in projections(module):
                stacked: Any = getattr(module, CODES + own)
                inner.update(stacked)
                yield f"{prefix}{own}", [(layer, i) for i, layer in enumerate(stacked)]
        elif isinstance(module, MXLinear) and not module.keeps_weight and module not in inner:
            yield name, [(module, None)]


def _check_inputs(
    targets: Mapping[str, Layers | None], checkpoint: Checkpoint, new_name: Callable
) -> None:
    for name in checkpoint.input_scales:
        if targets[name] is not None:
            raise ValueError(
                f"{new_name(name)}: a layer must take its inputs as they are, not multiplied by "
                f"{checkpoint.tensors_of(name)[-1]}"
            )


def _check_names(
    targets: Mapping[str, Layers | None], layers: Mapping[str, Layers], new_name: Callable
) -> None:
    for name, target in targets.items():
        if target is None:
            own = new_name(name)
            raise ValueError(
                f"weights must be of layers that hold codes ({', '.join(layers) or 'none'}; freeze "
                f"with keep_weight=False), not of {own!r}{nearest(own, layers)}"
            )
    given = {new_name(name) for name in targets}
    missing = [name for name in layers if name not in given]
    if missing:
        raise ValueError(f"checkpoint must have every layer of codes, not lack {missing[0]!r}")


def _held(
    layer: MXLinear,
    weight: Weight,
    expert: int | None,
    count: int,
    device: torch.device | str,
) -> Operand:
    """A weight of the checkpoint, or one of its `count` experts, as the layer holds its own."""
    if isinstance(weight, PackedTensor):
        weight = weight.unpack()
    if not isinstance(weight, ScaledArray | ScaledTensor | MXTensor):
        raise TypeError(
            "weight must be a ScaledArray, a ScaledTensor or an MXTensor, not "
            f"{type(weight).__name__}"
        )
    target = torch.empty(0, device=device if layer.weight.is_meta else layer.weight.device)
    want = layer.out_features, layer.in_features
    shape, whole = tuple(weight.shape), want if expert is None else (count, *want)
    if shape != whole or weight.axis % len(shape) != len(shape) - 1:
        raise ValueError(f"weight must have shape {whole} and axis -1, not {shape}, {weight.axis}")
    if tuple(layer.weight.shape) != want:
        raise ValueError(
            f"features of the layer must be whole groups of its recipe, not {want} filled up to "
            f"{tuple(layer.weight.shape)}"
        )
    quantizer = layer.recipe.quantizer("weight")
    assert isinstance(quantizer, MXQuantizer | SchemeQuantizer)  # the layer holds codes
    if isinstance(quantizer, MXQuantizer):
        own = mx(FORMATS[quantizer.format], quantizer.block_size, "floor")
    else:
        own = quantizer.scheme
    given = (
        mx(weight.format, weight.block_size, "floor")
        if isinstance(weight, MXTensor)
        else weight.scheme
    )
    if _facts(given, want) != _facts(own, want):
        raise ValueError(f"weight must be of the recipe's {_said(own)}, not {_said(given)}")
    parts = [_moved(part, expert, target) for part in _parts(weight)]
    if isinstance(quantizer, MXQuantizer):
        sizes = own.elements[0], quantizer.block_size, -1
        codes = MXTensor.of_valid_codes(*parts, *sizes)
    else:
        codes = ScaledTensor.of_parts(quantizer.text, parts, -1)
    return without_gaps(multiplied_codes(codes, layer.recipe, layer.rule))


def _parts(weight: ScaledArray | ScaledTensor | MXTensor) -> list[Any]:
    """Codes, scales of every level, and zero points and selectors where there are some."""
    if not isinstance(weight, ScaledArray):
        return [*weight.named_parts().values()]
    others = [x for x in (weight.zero_points, weight.selectors) if x is not None]
    return [weight.codes, *weight.level_scales, *others]


def _moved(part: Any, expert: int | None, target: Tensor) -> Tensor:
    """A part on the device of `target`; of one expert, where every expert has its own."""
    if expert is not None:
        part = part[expert if len(part) > 1 else 0]
    if isinstance(part, Tensor):
        return part.to(target.device, copy=True, memory_format=torch.contiguous_format)
    return matched(part, target)


def _facts(scheme: Scheme, shape: tuple[int, int]) -> tuple[Any, ...]:
    """All that codes of a matrix depend on: rules of scales do not count."""
    levels = [(level.granularity.group(shape), level.format) for level in scheme.levels]
    return scheme.elements, levels, scheme.zero_point


def _said(scheme: Scheme) -> str:
    elements, levels = (
        " or ".join(map(str, scheme.elements)),
        ", ".join(f"{x.format} per {x.granularity}" for x in scheme.levels),
    )
    return f"{elements} in {levels}{' with zero points' * scheme.zero_point}"


def _place(layer: MXLinear, codes: Operand) -> None:
    """Put codes in the place of a layer's own."""
    if is_dtensor(layer.weight):
        raise ValueError("weight must be loaded before it is cut over ranks, not be a DTensor")
    if not alike(codes, layer.weight):
        raise ValueError(f"weight must be {layer.weight.data}, not {codes}")
    if layer.weight.is_meta:
        layer.weight = nn.Parameter(codes, requires_grad=False)
    else:
        layer.weight.copy_(codes)


def _load_others(
    model: nn.Module,
    checkpoint: Checkpoint,
    new_name: Callable[[str], str],
    device: torch.device | str,
) -> None:
    """Load tensors that are not quantised, where the model has their names."""
    own: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    own |= dict(model.named_buffers(remove_duplicate=False))
    for name, array in checkpoint.others.items():
        target = own.get(new_name(name))
        if target is None or holds_codes(target):
            continue
        if tuple(target.shape) != array.shape:
            shape = tuple(target.shape)
            raise ValueError(f"{new_name(name)} must have shape {shape}, not {array.shape}")
        if target.is_floating_point() != (array.dtype.name in FLOATS):
            raise ValueError(
                f"{new_name(name)} must have a dtype of the kind of {target.dtype}, not "
                f"{array.dtype}, whose codes are of no layout that Checkpoint reads"
            )
        module, leaf = _place_of(model, new_name(name))
        values = matched(array, torch.empty(0, device=device))
        module.load_state_dict({leaf: values}, strict=False, assign=target.is_meta)
        if target.is_meta:  # replaced, under this name alone
            made = getattr(module, leaf)
            for tied in [other for other, tensor in own.items() if tensor is target]:
                setattr(*_place_of(model, tied), made)
                own[tied] = made


def _place_of(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module of a parameter or a buffer, and the name there."""
    module, _, leaf = name.rpartition(".")
    return model.get_submodule(module), leaf
