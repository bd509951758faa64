"""A model's directory as transformers writes it: config.json, and weights in safetensors files.

All of it is data, and may be hostile: architectures are the classes of the installed transformers,
never code of the directory, and nothing is fetched or written. Only these files are opened.
"""

import importlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...model.checkpoints import LAYOUTS, Checkpoint
from ...model.errors import missing_package, reason_of
from ...model.files import read_bytes
from ...util.data.encoder import OFFLINE

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
LARGEST_JSON = 2**26  # bytes
CHOICES = ("auto_map", "backbone", "use_pretrained_backbone", "use_timm_backbone")
MODULES = ("layers", "experts", "blocks")  # in names of how many there are
FEW = 256  # modules that are always allowed: some configurations name layers that are not there
ROOM = 2**26  # elements of buffers that are always allowed: masks of positions
LARGER = 4  # a model than its file: weights that are tied are stored once


def load_model(directory: Path) -> Any:
    """The model of a directory, in float32.

    Weights of a quantised checkpoint are decoded (`mxdot.model.checkpoints`).
    Raises ValueError, naming the file, for what is missing, damaged, quantised in a layout that is
    not known, or of an architecture that transformers does not have; ModuleNotFoundError without
    transformers.
    """
    transformers = _transformers()
    if not directory.is_dir():
        raise ValueError(f"model must be a directory, not {str(directory)!r}")
    path = directory / CONFIG
    values = read_json(path)
    quantised = values.pop("quantization_config", None)
    kind, config = _architecture(transformers, values, path)
    weights = _weights(directory)
    if quantised is not None:
        weights = _decoded(directory, weights)
    try:
        _check_size(kind, config, weights, path)
        # Without a directory of its own to look into: the class fits names and tied weights.
        model, loading = kind.from_pretrained(
            None,
            config=config,
            state_dict=weights,
            dtype=torch.float32,
            attn_implementation="eager",
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except Exception as error:  # whatever a hostile configuration leads to
        raise ValueError(f"{path} must be of a model that can be made, not: {_first(error)}") from (
            error
        )
    _check_complete(loading, directory)
    return model.eval()


def _transformers() -> Any:
    """The library, without network and messages."""
    os.environ.update(dict.fromkeys(OFFLINE, "1"))  # read when the library is first imported
    for name in ("torchao", "torch.utils._pytree"):  # it imports torchao where that is installed
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        library = importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        needs = "models of directories need transformers"
        raise missing_package(error, "transformers", needs, "nn") from None
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    return library


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; ValueError, naming it, for anything else."""
    if not path.is_file():
        raise ValueError(f"model must hold {path.name}, not {str(path.parent)!r}")
    try:
        values = json.loads(read_bytes(path, LARGEST_JSON))
    except OSError as error:
        raise ValueError(f"{path} must be a file that can be read: {reason_of(error)}") from None
    except (ValueError, RecursionError) as error:  # of a number with too many digits, too
        raise ValueError(f"{path} must be JSON: {_first(error)}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold an object, not a {type(values).__name__}")
    return values


def _architecture(transformers: Any, values: dict[str, Any], path: Path) -> tuple[Any, Any]:
    """The class and the configuration that `values` describe."""
    name = values.get("model_type")
    if not isinstance(name, str) or name not in transformers.CONFIG_MAPPING:
        raise ValueError(
            f"{path} must have a model_type that transformers {transformers.__version__} knows, "
            f"not {name!r}"
        )
    try:
        config = transformers.CONFIG_MAPPING[name].from_dict(_without_choices(values))
    except Exception as error:
        raise ValueError(f"{path} must describe a {name}: {_first(error)}") from error
    names = values.get("architectures")
    for each in names if isinstance(names, list) else ():
        kind: Any = getattr(transformers, each, None) if isinstance(each, str) else None
        fits = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
        if fits and kind.config_class is type(config):
            return kind, config
    raise ValueError(f"{path} must name a class of {name} in architectures, not {names!r}")


def _without_choices(values: Any) -> Any:
    """`values` without what chooses code or another model by name, of a hub, at any depth."""
    if isinstance(values, dict):
        return {
            key: _without_choices(value)
            for key, value in values.items()
            if key not in CHOICES and not str(key).endswith("_implementation")
        }
    return [_without_choices(value) for value in values] if isinstance(values, list) else values


def _weights(directory: Path) -> dict[str, Tensor]:
    """Tensors by name, of one file or of those that an index names."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    names = [WEIGHTS]
    if not (directory / WEIGHTS).is_file():
        if not (directory / INDEX).is_file():
            raise ValueError(f"model must hold {WEIGHTS} or {INDEX}, not {str(directory)!r}")
        names = _parts(directory / INDEX)
    weights: dict[str, Tensor] = {}
    for name in names:
        if not (directory / name).is_file():
            raise ValueError(f"model must hold {name}, not {str(directory)!r}")
        try:
            weights |= load_file(directory / name)
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            text = _first(error)
            raise ValueError(f"{directory / name} must be a whole safetensors file: {text}") from (
                None
            )
    return weights


def _decoded(directory: Path, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a quantised checkpoint in float32, and its other tensors as they are.

    Numbers that multiply a layer's inputs multiply the columns of its weight instead.
    """
    checkpoint = Checkpoint(directory)
    if not checkpoint:
        raise ValueError(
            f"{directory} must hold weights in high precision, or quantised in one of "
            f"{', '.join(LAYOUTS)}, not in another layout"
        )
    weights, input_scales = dict(weights), checkpoint.input_scales
    for name in checkpoint:
        try:
            values = torch.from_numpy(checkpoint[name].dequantize())
        except TypeError as error:  # of a tensor with another dtype
            raise ValueError(str(error)) from None
        inputs = input_scales.get(name)
        if inputs is not None:
            if inputs.shape != values.shape[-1:]:
                raise ValueError(
                    f"{directory}: {name}: scales of its inputs must have shape "
                    f"{tuple(values.shape[-1:])}, not {inputs.shape}"
                )
            values = values * torch.from_numpy(inputs.astype("f4"))
        parts = checkpoint.tensors_of(name)
        for part in parts:
            weights.pop(part, None)
        if any(part.endswith("_blocks") for part in parts):  # stacked experts, inputs first
            weights[name] = values.transpose(-1, -2).contiguous()
        else:
            weights[f"{name}.weight"] = values
    return weights


def _check_size(kind: Any, config: Any, weights: Mapping[str, Tensor], path: Path) -> None:
    """ValueError for a model far larger than its weights, before there is memory for it."""
    for name, count in _counts(config.to_dict()):
        if count > max(len(weights), FEW):
            raise ValueError(f"{name} of {count} for {len(weights)} tensors")
    with torch.device("meta"):
        made = kind(config)
    there = sum(tensor.numel() for tensor in weights.values())
    for what, tensors in (("parameters", made.parameters()), ("buffers", made.buffers())):
        wanted = sum(tensor.numel() for tensor in tensors)
        if wanted > LARGER * max(there, ROOM * (what == "buffers")):
            raise ValueError(f"{what} of {wanted} for weights of {there}")


def _counts(values: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Numbers of modules in a configuration, at any depth: each is made before it has a size."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from _counts(value, str(key))
    elif isinstance(values, list):
        for value in values:
            yield from _counts(value, name)
    elif isinstance(values, int) and any(word in name for word in MODULES):
        yield name, values


def _parts(path: Path) -> list[str]:
    """The names of files in an index: those of its own directory alone."""
    places = read_json(path).get("weight_map")
    names = list(dict.fromkeys(map(str, places.values()))) if isinstance(places, dict) else []
    if not names:
        raise ValueError(f"{path} must map names to files in weight_map")
    for name in names:
        if name != Path(name).name or not name.endswith(".safetensors"):
            raise ValueError(f"{path} must name safetensors files in its own folder, not {name!r}")
    return names


def _check_complete(loading: Mapping[str, Any], directory: Path) -> None:
    """Weights that were missing, or of other shapes, were drawn at random."""
    shapes = sorted(str(each[0]) for each in loading.get("mismatched_keys") or ())
    missing = sorted(map(str, loading.get("missing_keys") or ()))
    for what, names in (("of another shape", shapes), ("missing", missing)):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ValueError(
                f"{directory} must hold every weight of its {CONFIG}: {names[0]}{more} {what}"
            )


def _first(error: BaseException) -> str:
    """The first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
