"""Real tensors: two arrays of a file, and the slice that the package has."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...model.blocks import as_float32
from ...model.errors import one_line
from ...model.files import check_file
from ...model.npz import opened

REAL_FILE = Path(__file__).parent.parent / "real" / "minilm.npz"
"""A captured slice of real weights and activations; README.md beside it describes it."""

LARGEST = 2**34  # bytes of an npz file


def load_tensors(path: Path, names: tuple[str, ...] = ()) -> tuple[NDArray, NDArray]:
    """Two float32 arrays (rows, K) of an npz or safetensors file, flattened to two axes.

    Without names the first two arrays that fit each other; with one name that array against itself.
    ValueError, naming the file, when it cannot be read or holds nothing that fits.
    """
    try:
        with _open(path) as (available, read):
            for name in names:
                if name not in available:
                    raise ValueError(f"name must be one of {_some(available)}, not {name!r}")
            if not names:
                names = _fitting(available, read)
            x, y = (_rows(read(name), name) for name in (names[0], names[-1]))
    except ValueError as error:
        raise ValueError(f"{path}: {one_line(str(error))}") from None
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            one_line(f"{names[0]} and {names[-1]} must have equal last axes, ")
            + f"not {x.shape[1]} and {y.shape[1]}"
        )
    return x, y


Reader = Callable[[str], NDArray]


@contextmanager
def _open(path: Path) -> Iterator[tuple[list[str], Reader]]:
    """The names of a file's arrays, and a function that reads one; ValueError when it cannot."""
    import ml_dtypes  # noqa: F401  # makes bfloat16 a NumPy dtype

    with ExitStack() as stack:
        if path.suffix == ".safetensors":
            import safetensors

            problems: tuple[type[Exception], ...] = (OSError, safetensors.SafetensorError)
            try:
                check_file(path)
                tensors = stack.enter_context(safetensors.safe_open(path, framework="numpy"))
            except problems as error:
                reason = getattr(error, "strerror", None) or error
                raise ValueError(f"cannot be read as safetensors: {reason}") from None
            names, get = list(tensors.keys()), tensors.get_tensor
            problems += (TypeError, AttributeError)  # a dtype that NumPy has not
        else:
            problems = ()
            try:
                arrays = stack.enter_context(opened(path, LARGEST))
            except OSError as error:
                raise ValueError(f"cannot be read as npz: {error.strerror}") from None
            names, get = arrays.names, arrays.__getitem__

        def read(name: str) -> NDArray:
            try:
                return get(name)
            except problems as error:
                raise ValueError(f"{name} cannot be read: {error}") from None

        yield names, read


def _some(names: list[str]) -> str:
    """The names, or the first few of many."""
    more = f", ... ({len(names)} in all)" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _fitting(available: list[str], read: Reader) -> tuple[str, str]:
    """The first two float arrays of equal last axis."""
    usable = {}
    for name in available:
        array = read(name)
        if array.ndim >= 2 and array.dtype.kind in "fV":
            for earlier, length in usable.items():
                if length == array.shape[-1]:
                    return earlier, name
            usable[name] = array.shape[-1]
    raise ValueError("must hold two float arrays of equal last axis (--name chooses them)")


def _rows(x: NDArray, name: str) -> NDArray[np.float32]:
    if x.ndim < 1 or x.size == 0:
        raise ValueError(f"{name} must have rows to multiply, not shape {x.shape}")
    try:
        return as_float32(x).reshape(-1, x.shape[-1])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
