"""Real tensors: two arrays of a file or a checkpoint, and the slice that the package has."""

import json
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import ml_dtypes  # noqa: F401  # NumPy then knows bfloat16 by name
import numpy as np
from numpy.typing import NDArray

from ...model.blocks import as_float32
from ...model.errors import nearest, one_line, reason_of
from ...model.files import Arrays, check_file, opened, read_array
from ...model.formats import E4M3, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0, code_format
from ...model.units import DotConfig
from .weights import (
    GGUF,
    MOST_ROWS,
    HeldRows,
    activations,
    is_checkpoint,
    load_weight,
    open_checkpoint,
)

__all__ = [
    "LARGEST",
    "REAL_FILE",
    "SUFFIXES",
    "DtypeError",
    "array_names",
    "check_kind",
    "code_format",
    "load_array",
    "load_tensors",
    "load_values",
    "modes_taking",
    "values_of",
    "weight_names",
]

SUFFIXES = (".npz", ".npy", ".safetensors", GGUF)
"""Ends of the names of files of tensors."""
_KINDS = f"a file {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, or a folder of safetensors files"
ACTIVATION_ROWS = 16
"""Rows that meet those of a weight of a checkpoint."""
_FLOAT8 = {"F8_E4M3": E4M3, "F8_E5M2": E5M2, "F8_E4M3FNUZ": E4M3FNUZ, "F8_E5M2FNUZ": E5M2FNUZ}
"""Formats of FP8 tensors, by their names in safetensors files."""
_BYTES = {**_FLOAT8, "F8_E8M0": E8M0}
"""Formats of tensors that safetensors does not give to NumPy."""
_ALLOWED = f"float32, float16, bfloat16, float64, or in safetensors {', '.join(_FLOAT8)}"

REAL_FILE = Path(__file__).parent / "real" / "minilm.npz"
"""File of real weights and activations, described in its folder's README.md."""

LARGEST = 2**34  # bytes of a NumPy file


Rows = NDArray | HeldRows


def modes_taking(config: DotConfig, x: Rows, y: Rows) -> list[int]:
    """Modes whose formats the tensors have, or are quantised to; ValueError without any."""
    codes = [code_format(tensor) for tensor in (x, y)]
    modes = [
        mode
        for mode, pair in enumerate(config.formats)
        if all(own in (None, fmt) for own, fmt in zip(codes, pair, strict=True))
    ]
    if not modes:
        held = " and ".join(str(own or "values") for own in codes)
        raise ValueError(f"tensors must hold values, or codes of {config.formats_text}, not {held}")
    return modes


def load_values(path: Path, names: tuple[str, ...] = ()) -> tuple[NDArray, NDArray]:
    """Load as `load_tensors`, and return the values of codes as float32."""
    x, y = load_tensors(path, names)
    return values_of(x), values_of(y)


def values_of(x: Rows) -> NDArray[np.float32]:
    """Values of rows of codes, as float32, or the rows themselves."""
    return x.values if isinstance(x, HeldRows) else x.astype(np.float32, copy=False)


def load_tensors(path: Path, names: tuple[str, ...] = ()) -> tuple[Rows, Rows]:
    """Two float32 or FP8 arrays (rows, K) of a file of `SUFFIXES`, flattened to two axes.

    Without names the first two arrays that fit each other, or the only one of an npy file; with one
    name, or one array, that array against itself.
    A quantised weight of a checkpoint (`mxdot.model.checkpoints`), of a file or a directory, is
    HeldRows. Without names the first one counts. A single one meets standard normal activations.
    ValueError, naming the file, when it cannot be read or holds nothing that fits.
    """
    try:
        with _open(path) as (available, read):
            for name in names:
                _check_name(name, available)
            is_alone = len(names) < 2
            if not names:
                names = _fitting(available, read)
            x, y = (_rows(read(name), name) for name in (names[0], names[-1]))
            if isinstance(y, HeldRows) and is_alone:
                x = activations(names[0], y.shape[1], ACTIVATION_ROWS)
    except ValueError as error:
        raise ValueError(f"{path}: {one_line(str(error))}") from None
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            one_line(f"{names[0]} and {names[-1]} must have equal last axes, ")
            + f"not {x.shape[1]} and {y.shape[1]}"
        )
    return x, y


def weight_names(path: Path) -> list[str]:
    """Names of a checkpoint's quantised weights; none in another file, or one that is damaged."""
    try:
        with _open(path) as (available, _):
            return [*available.quantised]
    except ValueError:
        return []


def array_names(path: Path) -> list[str]:
    """Names of the arrays in a file of `SUFFIXES`; ValueError, naming the file, without one."""
    try:
        with _open(path) as (available, _):
            return [*available]
    except ValueError as error:
        raise ValueError(f"{path}: {one_line(str(error))}") from None


def check_kind(path: Path) -> None:
    """ValueError, naming the path, unless it is a file of `SUFFIXES` or a checkpoint's folder."""
    try:
        _check_existence(path)
        if not path.name.endswith(SUFFIXES) and not is_checkpoint(path):
            raise ValueError(f"must be {_KINDS}")
    except ValueError as error:
        raise ValueError(f"{path}: {one_line(str(error))}") from None


def _check_existence(path: Path) -> None:
    try:
        exists = path.exists()
    except OSError as error:  # of a folder that must not be searched, or a name that is too long
        raise ValueError(f"cannot be read: {reason_of(error)}") from None
    if not exists:
        raise ValueError("no such file")


def load_array(path: Path, name: str | None = None) -> tuple[NDArray, str]:
    """One array of a file of `SUFFIXES` as the file holds it, with all its rows, and its name.

    Without a name the only array of the file. An FP8 or E8M0 tensor of a safetensors file has its
    type of ml_dtypes. ValueError, naming the file, when it cannot be read or has no such array.
    """
    try:
        with _open(path, whole=True) as (available, read):
            if not available:
                raise ValueError("must hold an array, not none")
            if name is None and len(available) != 1:
                raise ValueError(f"name must choose one of {_some(available)}")
            chosen = available[0] if name is None else name
            _check_name(chosen, available)
            array = read(chosen)
            return (array.values if isinstance(array, HeldRows) else _typed(array)), chosen
    except ValueError as error:
        raise ValueError(f"{path}: {one_line(str(error))}") from None


def _check_name(name: str, available: list[str]) -> None:
    if name not in available:
        near = nearest(name, available)
        raise ValueError(f"name must be one of {_some(available)}, not {name!r}{near}")


class DtypeError(ValueError):
    """A tensor of a dtype that is not taken."""


Reader = Callable[[str], Rows]


class Names(list[str]):
    """Names of the arrays of a file. quantised: those of a checkpoint's quantised weights."""

    quantised: tuple[str, ...] = ()


@contextmanager
def _open(path: Path, *, whole: bool = False) -> Iterator[tuple[Names, Reader]]:
    """The names of a file's arrays, and a function that reads one; ValueError when it cannot.

    whole: all rows of a quantised weight, and scales in E8M0 too.
    """
    most = None if whole else MOST_ROWS
    _check_existence(path)
    if path.is_dir() or is_checkpoint(path):
        checkpoint = open_checkpoint(path)
        if not checkpoint:
            raise ValueError("must hold quantised weights in a layout that is known, not none")
        names = Names(checkpoint)
        names.quantised = tuple(checkpoint)
        yield names, lambda name: load_weight(checkpoint, name, most)
        return
    with _open_arrays(path, _BYTES if whole else _FLOAT8) as (arrays, read):
        names = Names(arrays)
        if path.suffix == ".safetensors":
            checkpoint = open_checkpoint(path)
            names.quantised = tuple(name for name in checkpoint if name not in names)
            names.extend(names.quantised)

            def get(name: str) -> Rows:
                quantised = name in names.quantised
                return load_weight(checkpoint, name, most) if quantised else read(name)

            yield names, get
        else:
            yield names, read


@contextmanager
def _open_arrays(
    path: Path, kinds: Container[str]
) -> Iterator[tuple[list[str], Callable[[str], NDArray]]]:
    """Arrays of a file that is no checkpoint. kinds: those of `_BYTES` that are read."""
    with ExitStack() as stack:
        if path.suffix == ".safetensors":
            import safetensors

            problems: tuple[type[Exception], ...] = (OSError, safetensors.SafetensorError)
            try:
                check_file(path)
                tensors = stack.enter_context(safetensors.safe_open(path, framework="numpy"))
            except problems as error:
                raise ValueError(f"cannot be read as safetensors: {reason_of(error)}") from None
            names = list(tensors.keys())

            def get(name: str) -> NDArray:
                kind = tensors.get_slice(name).get_dtype()
                try:
                    return _bytes(path, name) if kind in kinds else tensors.get_tensor(name)
                except (TypeError, AttributeError):  # of a dtype that NumPy has not
                    raise DtypeError(f"{name} must be {_ALLOWED}, not {kind}") from None

        elif path.suffix == ".npy":
            problems = (OSError,)
            names = [path.stem]

            def get(name: str) -> NDArray:
                return read_array(path, LARGEST)

        else:
            problems = ()
            arrays = _open_npz(path, stack)
            names, get = arrays.names, arrays.__getitem__

        def read(name: str) -> NDArray:
            try:
                return get(name)
            except problems as error:
                raise ValueError(f"{name} cannot be read: {reason_of(error)}") from None

        yield names, read


def _open_npz(path: Path, stack: ExitStack) -> Arrays:
    try:
        return stack.enter_context(opened(path, LARGEST))
    except OSError as error:
        raise ValueError(f"cannot be read as npz: {reason_of(error)}") from None
    except ValueError:
        if path.suffix == ".npz":
            raise
        raise ValueError(f"must be {_KINDS}") from None


def _bytes(path: Path, name: str) -> NDArray:
    """A tensor of `_BYTES` of a valid safetensors file."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))[name]
        start, end = entry["data_offsets"]
        file.seek(8 + size + start)
        dtype = _BYTES[entry["dtype"]].narrow
        return np.frombuffer(file.read(end - start), dtype).reshape(entry["shape"])


def _some(names: list[str]) -> str:
    """The names, or the first few of many."""
    more = f", ... ({len(names)} in all)" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _fitting(available: Names, read: Reader) -> tuple[str, str]:
    """The first quantised weight, the first two float arrays of equal last axis, or the only array
    of a file.
    """
    if available.quantised:
        return available.quantised[0], available.quantised[0]
    if len(available) == 1:
        return available[0], available[0]
    usable = {}
    for name in available:
        try:
            array = read(name)
        except DtypeError:
            continue
        if isinstance(array, np.ndarray) and array.ndim >= 2 and array.dtype.kind in "fV":
            for earlier, length in usable.items():
                if length == array.shape[-1]:
                    return earlier, name
            usable[name] = array.shape[-1]
    raise ValueError("must hold two float arrays of equal last axis (--name chooses them)")


def _typed(x: NDArray) -> NDArray:
    """`x`, where two bytes without a name are bfloat16: NumPy stores it so."""
    return x.view("bfloat16") if x.dtype == np.dtype("V2") else x


def _rows(x: Rows, name: str) -> Rows:
    if isinstance(x, HeldRows):
        return x
    x = _typed(x)
    if x.ndim < 1 or x.size == 0:
        raise ValueError(f"{name} must have rows to multiply, not shape {x.shape}")
    try:
        rows = as_float32(x, name) if code_format(x) is None else x
    except TypeError:
        raise ValueError(f"{name} must be {_ALLOWED}, not {x.dtype}") from None
    return rows.reshape(-1, x.shape[-1])
