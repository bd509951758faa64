"""MXTensors and ScaledTensors in safetensors files: NAME.PART for each part, NAME.codes for one.

What is no tensor is in the file's metadata.
"""

import json
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from ...model.errors import integer, one_line
from ...model.files import check_file
from ...model.schemes import Scheme
from ...model.schemes.files import describe, described, element_of, scheme_of
from ..names import scheme_name
from .mx import MXTensor
from .scaled import ScaledTensor

KEY = "mxdot"  # of the metadata: {name: what `_facts` gives} as JSON

MX_FACTS = ("format", "block_size", "axis", "padding")
"""Facts of an MXTensor that a file keeps; a file cannot say that codes need no check."""


def save(path: str | PathLike[str], tensors: Mapping[str, MXTensor | ScaledTensor]) -> None:
    """Write `tensors` by name.

    A file keeps all that a format is. TypeError for anything that is neither an MXTensor nor a
    ScaledTensor, ValueError for a format that has the name of another of mxdot.model's.
    """
    from safetensors.torch import save_file

    if not isinstance(tensors, Mapping):
        raise TypeError(
            "tensors must map names to MXTensors and ScaledTensors, not be a "
            f"{type(tensors).__name__}"
        )
    parts, facts = {}, {}
    for name, x in tensors.items():
        facts[name] = _facts(f"tensors[{name!r}]", x)
        for part, tensor in x.named_parts().items():
            # Copies: safetensors refuses tensors that share memory.
            parts[f"{name}.{part}"] = tensor.clone(memory_format=torch.contiguous_format)
    save_file(parts, path, metadata={KEY: json.dumps(facts)})


def load(
    path: str | PathLike[str], device: torch.device | str = "cpu"
) -> dict[str, MXTensor | ScaledTensor]:
    """The tensors that `save` wrote, on `device`; ValueError, naming `path`, for any other file."""
    from safetensors import SafetensorError, safe_open

    tensors = {}
    try:
        check_file(path)
        with safe_open(path, framework="pt", device=str(device)) as file:
            all_facts = _all_facts(file.metadata())
            for name, facts in all_facts.items():
                tensors[name] = _made(
                    facts, lambda part, name=name: file.get_tensor(f"{name}.{part}")
                )
    except (SafetensorError, OverflowError, TypeError, ValueError, LookupError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"path must be a file written by mxdot.gpu.save, not {str(path)!r}: {one_line(reason)}"
        ) from None
    return tensors


def _all_facts(metadata: dict[str, str] | None) -> dict[str, dict[str, Any]]:
    """Facts per tensor from the metadata; ValueError unless `save` can have written them."""
    if metadata is None or KEY not in metadata:
        raise ValueError(f"it has no {KEY!r}")
    try:
        facts = json.loads(metadata[KEY])
    except RecursionError:
        raise ValueError(f"its {KEY!r} is nested too deeply") from None
    if not isinstance(facts, dict) or not all(isinstance(each, dict) for each in facts.values()):
        raise ValueError(f"its {KEY!r} must be facts by name")
    return facts


def _facts(name: str, x: MXTensor | ScaledTensor) -> dict[str, Any]:
    if not isinstance(x, MXTensor | ScaledTensor):
        raise TypeError(f"{name} must be an MXTensor or a ScaledTensor, not {type(x).__name__}")
    try:
        if isinstance(x, ScaledTensor):
            parts = list(x.named_parts())
            return {"scheme": describe(x.scheme), "axis": x.axis, "parts": parts}
        facts = {name: getattr(x, name) for name in MX_FACTS}
        return facts | {"format": described(x.format)}
    except ValueError as error:
        raise ValueError(f"{name} cannot be saved: {error}") from None


def _made(facts: dict[str, Any], part: Callable[[str], Tensor]) -> MXTensor | ScaledTensor:
    """Tensor with these facts, and parts that `part` gives by name."""
    if "scheme" not in facts:
        known = {name: facts[name] for name in MX_FACTS}
        known["format"] = element_of(known["format"])
        return MXTensor(part("codes"), part("scales"), **known)
    scheme = scheme_of(facts["scheme"])
    names = _part_names(scheme)
    if facts["parts"] != names:
        raise ValueError(f"parts of {scheme} must be {names}, not {facts['parts']}")
    parts = [part(name) for name in names]
    axis = integer("axis", facts["axis"], -parts[0].ndim, parts[0].ndim - 1)
    made = ScaledTensor.of_parts(scheme_name(scheme), parts, axis)
    made.check()
    return made


def _part_names(scheme: Scheme) -> list[str]:
    """Names of a ScaledTensor's parts, in order."""
    others = {"zero_points": scheme.zero_point, "selectors": len(scheme.elements) > 1}
    scales = [f"scales_{level}" for level in range(len(scheme.levels))]
    return ["codes", *scales, *(name for name, there in others.items() if there)]
