"""MXTensors in safetensors files: NAME.codes and NAME.scales, the rest in the file's metadata."""

import json
from collections.abc import Mapping
from os import PathLike

import torch

from ...model.formats import FORMATS
from .mx import MXTensor

KEY = "mxdot"  # of the metadata: {name: {"format", "block_size", "axis", "padding"}} as JSON


def save(path: str | PathLike[str], tensors: Mapping[str, MXTensor]) -> None:
    """Write `tensors` by name.

    TypeError for anything that is not an MXTensor, ValueError for a format that has no entry in
    mxdot.model.FORMATS: a file keeps its name only.
    """
    from safetensors.torch import save_file

    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors must map names to MXTensors, not be a {type(tensors).__name__}")
    parts, facts = {}, {}
    for name, x in tensors.items():
        if not isinstance(x, MXTensor):
            raise TypeError(f"tensors[{name!r}] must be an MXTensor, not {type(x).__name__}")
        if FORMATS.get(x.format.name) != x.format:
            raise ValueError(
                f"tensors[{name!r}] must have a format of mxdot.model.FORMATS, not {x.format}"
            )
        # Copies: safetensors refuses tensors that share memory.
        parts[f"{name}.codes"] = x.codes.clone(memory_format=torch.contiguous_format)
        parts[f"{name}.scales"] = x.scales.clone(memory_format=torch.contiguous_format)
        facts[name] = {
            "format": x.format.name,
            "block_size": x.block_size,
            "axis": x.axis,
            "padding": x.padding,
        }
    save_file(parts, path, metadata={KEY: json.dumps(facts)})


def load(path: str | PathLike[str], device: torch.device | str = "cpu") -> dict[str, MXTensor]:
    """The tensors that `save` wrote, on `device`; ValueError when `path` holds none."""
    from safetensors import safe_open

    with safe_open(path, framework="pt", device=str(device)) as file:
        metadata = file.metadata() or {}
        if KEY not in metadata:
            raise ValueError(f"path must be a file written by mxdot.gpu.save, not {str(path)!r}")
        return {
            name: MXTensor(file.get_tensor(f"{name}.codes"), file.get_tensor(f"{name}.scales"), **f)
            for name, f in json.loads(metadata[KEY]).items()
        }
