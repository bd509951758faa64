"""Files of checkpoints: safetensors, whole directories of them, and GGUF."""

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from mmap import ACCESS_READ, mmap
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..errors import nearest, one_line
from ..files import check_file, read_text
from ..schemes import ScaledArray
from .layouts import LAYOUTS, Layout
from .models import gguf_mxfp4, gguf_q8_0

DTYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "I16": np.int16,
    "U16": np.uint16,
    "I32": np.int32,
    "U32": np.uint32,
    "I64": np.int64,
    "U64": np.uint64,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F32": np.float32,
    "F64": np.float64,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}
"""Dtypes of safetensors files, by name."""
INPUT_SCALES = (".pre_quant_scale", "._weight_act_pre_scale")
"""Ends of the names of numbers that multiply a layer's inputs (AWQ, SmoothQuant)."""
LARGEST_HEADER = 100_000_000  # bytes, the limit of the format
LARGEST_CONFIG = 10_000_000
DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError)
"""Errors that numbers of a damaged file lead to, besides ValueError and TypeError."""
KERNEL_ORDER = "Int4TilePackedTo4dTensor"
"""Class of torchao whose codes are in the order of a kernel."""


class Stored(NamedTuple):
    """A tensor of a file: its bytes, dtype and shape."""

    data: memoryview
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def array(self) -> NDArray:
        """The tensor, without a copy."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)


class Checkpoint(Mapping[str, ScaledArray]):
    """Quantised weights of a checkpoint, by the name of the weight without its suffix.

    path: a safetensors or GGUF file, or a directory with safetensors files and config.json.
    Weights are read when they are asked for. layouts: the layout of each weight, by name. others:
    tensors of safetensors files that belong to no quantised weight, by their whole names.
    input_scales: numbers that multiply the inputs of a weight's layer (``pre_quant_scale``), by
    the weight's name; they are no part of the weight.
    Raises OSError for a file that cannot be read, and ValueError, naming the file, for one that is
    cut or of another kind.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.config = _config(self.path)
        self._weights: dict[str, tuple[Layout | str, dict[str, Stored]]] = {}
        self.layouts: dict[str, str] = {}
        self._others: dict[str, Stored] = {}
        self._input_scales: dict[str, tuple[str, Stored]] = {}
        if self.path.suffix == ".gguf":
            self._take_gguf()
        else:
            self._take_safetensors()

    def _take_safetensors(self) -> None:
        tensors: dict[str, Stored] = {}
        classes: dict[str, str] = {}
        for file in _safetensors(self.path):
            stored, about = _header(file)
            tensors |= stored
            classes |= _classes(file, about)
        for layout_name, layout in LAYOUTS.items():
            first = layout.suffixes[0]
            for full in [name for name in tensors if name.endswith(first)]:
                name = full[: -len(first)]
                if name in self.layouts or any(name + s not in tensors for s in layout.suffixes):
                    continue
                suffixes = [*layout.suffixes, *layout.optional]
                parts = {s: tensors[name + s] for s in suffixes if name + s in tensors}
                with _explained(self.path, name):
                    kind = classes.get(f"{name}.weight")
                    accepted = layout.takes(_arrays(parts), self.config, kind)
                if accepted:
                    self.layouts[name] = layout_name
                    self._weights[name] = layout, parts
                    for suffix in parts:
                        tensors.pop(name + suffix)
        for name in self.layouts:
            for full in [name + end for end in INPUT_SCALES if name + end in tensors]:
                if name in self._input_scales:
                    first = self._input_scales[name][0]
                    raise ValueError(
                        f"{self.path}: {name}: scales of inputs must be one of {first} and {full}, "
                        "not both"
                    )
                self._input_scales[name] = full, tensors.pop(full)
        self._others = tensors

    @property
    def others(self) -> dict[str, NDArray]:
        """Tensors that belong to no quantised weight, as the file has them, without copies."""
        return {name: stored.array for name, stored in self._others.items()}

    @property
    def input_scales(self) -> dict[str, NDArray]:
        """Numbers that multiply the inputs of a layer, by the name of its weight."""
        return {name: stored.array for name, (_, stored) in self._input_scales.items()}

    def _take_gguf(self) -> None:
        for full, (kind, stored) in _gguf_tensors(self.path).items():
            if kind in GGUF_READERS:
                name = full.removesuffix(".weight")
                self.layouts[name] = f"gguf {GGUF_NAMES[kind]}"
                self._weights[name] = GGUF_NAMES[kind], {"": stored}

    def __getitem__(self, name: str) -> ScaledArray:
        if name not in self._weights:
            raise KeyError(
                f"weight must be one of {', '.join(self._weights) or 'none'}, not {name!r}"
                f"{nearest(name, self._weights)}"
            )
        layout, parts = self._weights[name]
        with _explained(self.path, name):
            if isinstance(layout, str):
                return _BY_NAME[layout](parts[""].array)
            return layout.read(_arrays(parts), self.config)

    def tensors_of(self, name: str) -> list[str]:
        """Names of the tensors of a safetensors file that hold a weight and its input scale."""
        inputs = [self._input_scales[name][0]] if name in self._input_scales else []
        return [*(name + suffix for suffix in self._weights[name][1]), *inputs]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def _arrays(parts: Mapping[str, Stored]) -> dict[str, NDArray]:
    return {suffix: part.array for suffix, part in parts.items()}


@contextmanager
def _explained(path: Path, name: str) -> Iterator[None]:
    """Context whose errors name the file and the weight; tensors of odd shapes are ValueErrors."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}: {name}: {one_line(str(error))}") from None
    except DAMAGE as error:
        raise ValueError(
            f"{path}: {name}: its tensors and config.json must fit each other: "
            f"{one_line(str(error))}"
        ) from None


def _config(path: Path) -> Mapping:
    """`quantization_config` of the model's config.json; empty without one."""
    file = (path if path.is_dir() else path.parent) / "config.json"
    if not file.is_file():
        return {}
    try:
        config = json.loads(read_text(file, LARGEST_CONFIG))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: it must be JSON: {one_line(str(error))}") from None
    found = config.get("quantization_config") if isinstance(config, dict) else None
    return found if isinstance(found, dict) else {}


def _safetensors(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise ValueError(f"{path}: it must hold safetensors files, not none")
    return files


def _mapped(path: Path) -> memoryview:
    check_file(path)
    with path.open("rb") as file:
        try:
            return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
        except ValueError:
            raise ValueError(f"{path}: it must not be empty") from None


def _classes(path: Path, about: Mapping) -> dict[str, str]:
    """torchao's class of each weight, by its name; ValueError for the order of a kernel."""
    classes: dict[str, str] = {}
    for name, text in about.items():
        try:
            entry = json.loads(text)
        except (TypeError, ValueError, RecursionError):  # of another library
            continue
        if not isinstance(entry, dict) or "_type" not in entry:
            continue
        classes[name] = str(entry["_type"])
        options = entry.get("_data")
        swizzled = isinstance(options, dict) and options.get("is_swizzled_scales")
        if swizzled or classes[name] == KERNEL_ORDER:
            raise ValueError(
                f"{path}: {name} must have codes and scales by row, not in the order of a kernel "
                f"(swizzled scales, {KERNEL_ORDER})"
            )
    return classes


def _header(path: Path) -> tuple[dict[str, Stored], Mapping]:
    """The tensors of a safetensors file, and what it says about them."""
    data = _mapped(path)
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(LARGEST_HEADER, len(data) - 8):
        raise ValueError(f"{path}: it must be a safetensors file, whole, not {len(data)} bytes")
    try:
        entries = json.loads(bytes(data[8 : 8 + size]))
        tensors, about = {}, dict(entries.pop("__metadata__", {}))
        for name, entry in entries.items():
            if entry["dtype"] not in DTYPES:
                continue
            start, end = entry["data_offsets"]
            dtype, shape = np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"])
            part = data[8 + size + start : 8 + size + end]
            if not all(isinstance(count, int) and count >= 0 for count in shape):
                raise ValueError(f"{name} must have a shape of whole numbers, not {[*shape]}")
            if end - start != len(part) or len(part) != dtype.itemsize * prod(shape):
                raise ValueError(f"{name} must have {end - start} bytes, not {len(part)}")
            tensors[name] = Stored(part, dtype, shape)
    except (ValueError, TypeError, *DAMAGE, RecursionError) as error:
        raise ValueError(f"{path}: it must be a safetensors file: {one_line(str(error))}") from None
    return tensors, about


# GGUF ---------------------------------------------------------------------------------------------

GGUF_READERS = {8: (gguf_q8_0, 34), 39: (gguf_mxfp4, 17)}
"""Reader of each type of GGUF, and its bytes per 32 elements."""
GGUF_NAMES = {8: "Q8_0", 39: "MXFP4"}
_BY_NAME = {GGUF_NAMES[kind]: read for kind, (read, _) in GGUF_READERS.items()}
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _LIST = 8, 9
_MAGIC = b"GGUF"


class _Cursor:
    """Reads little-endian values of a GGUF file one after the other."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> Any:
        layout = struct.Struct(f"<{form}")
        (value,) = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return value

    def text(self) -> str:
        size = self.take("Q")
        raw = bytes(self.data[self.at : self.at + size])
        if len(raw) != size:
            raise ValueError("it is cut")
        self.at += size
        return raw.decode()

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _LIST:
            inner, count = self.take("I"), self.take("Q")
            return [self.value(inner) for _ in range(count)]
        return self.take(_SCALARS[kind])


def _gguf_tensors(path: Path) -> dict[str, tuple[int, Stored]]:
    """Type and bytes of the tensors of a GGUF file that have a reader."""
    data = _mapped(path)
    try:
        cursor = _Cursor(data)
        if bytes(data[:4]) != _MAGIC:
            raise ValueError(f"its first bytes are {bytes(data[:4])!r}, not {_MAGIC!r}")
        cursor.at = 4
        version, count, pairs = cursor.take("I"), cursor.take("Q"), cursor.take("Q")
        if version not in (2, 3):
            raise ValueError(f"its version is {version}, not 2 or 3")
        options = {}
        for _ in range(pairs):
            name = cursor.text()
            options[name] = cursor.value(cursor.take("I"))
        infos = []
        for _ in range(count):
            name, axes = cursor.text(), cursor.take("I")
            shape = tuple(cursor.take("Q") for _ in range(axes))[::-1]
            infos.append((name, shape, cursor.take("I"), cursor.take("Q")))
        align = int(options.get("general.alignment", 32))
        start = -(-cursor.at // align) * align
        tensors = {}
        for name, shape, kind, offset in infos:
            if kind not in GGUF_READERS:
                continue
            bytes_each = GGUF_READERS[kind][1]
            stored = (*shape[:-1], shape[-1] // 32, bytes_each)
            part = data[start + offset : start + offset + int(np.prod(stored))]
            if len(part) != int(np.prod(stored)):
                raise ValueError(f"{name} is cut")
            tensors[name] = kind, Stored(part, np.dtype(np.uint8), stored)
        return tensors
    except (ValueError, TypeError, *DAMAGE, RecursionError, struct.error) as error:
        raise ValueError(f"{path}: it must be a GGUF file, whole: {one_line(str(error))}") from None
