"""One interface to arrays of NumPy and tensors of PyTorch, for rules that are written once.

Functions that both libraries call alike (`where`, `floor`, `amax`, ...) come from `namespace(x)`,
with axes by position. Functions that they call differently are here. PyTorch is never imported:
whoever passes a tensor has imported it.
"""

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    cached_property = property  # protocols ask for a property
else:

    class cached_property:  # noqa: N801  # the name that functools has, whose lock no compiler traces
        """A property that is computed once and kept in the object's `__dict__`."""

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, x: Any, owner: type | None = None) -> Any:
            if x is None:
                return self
            value = vars(x)[self.name] = self.compute(x)
            return value


Array = Any
"""An array of NumPy or a tensor of PyTorch."""

FLOAT64_BIAS, FLOAT64_FRACTION = 1 - np.finfo(np.float64).minexp, np.finfo(np.float64).nmant


def is_tensor(x: object) -> bool:
    """Whether `x` is a tensor of PyTorch."""
    if isinstance(x, np.ndarray):
        return False
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def namespace(x: Array) -> Any:
    """The library of `x`: torch for tensors, numpy for everything else."""
    return sys.modules["torch"] if is_tensor(x) else np


def cast(x: Array, dtype: str) -> Array:
    """`x` in the dtype of that name; no copy where it has that dtype."""
    if is_tensor(x):
        return x.to(getattr(namespace(x), dtype))
    return np.asarray(x).astype(dtype, copy=False)


def dtype_name(x: Array) -> str:
    """The dtype as NumPy writes it: ``float32``."""
    return str(x.dtype).removeprefix("torch.")


def view(x: Array, dtype: str) -> Array:
    """The bits of `x` as a dtype of equal width."""
    return x.view(getattr(namespace(x), dtype) if is_tensor(x) else dtype)


def contiguous(x: Array) -> Array:
    """`x` with its elements in order in memory; no copy where they are."""
    return x.contiguous() if is_tensor(x) else np.ascontiguousarray(x)


def matched(array: NDArray, x: Array) -> Array:
    """`array` itself, or its copy on the device of a tensor `x`."""
    if not is_tensor(x):
        return array
    if array.dtype.name == "bfloat16":  # PyTorch does not take it from NumPy
        return view(matched(array.view(np.int16), x), "bfloat16")
    if array.size == 1:  # a device fills it in; the host would wait for a copy
        dtype = getattr(namespace(x), array.dtype.name)
        return x.new_full(array.shape, array.item(), dtype=dtype)
    return namespace(x).tensor(array, device=x.device)


def known_none(mask: Array) -> bool:
    """Whether no entry of a mask is true; False for a tensor, so that no device is waited for."""
    return not (is_tensor(mask) or mask.any())


MOST_TABLES = 256
_tables: dict[tuple[int, object], tuple[NDArray, Array]] = {}
"""Copies of tables, by id and device. Each stands with its table, whose id it keeps in use."""


def on_device(table: NDArray, x: Array) -> Array:
    """`table`, or its copy on the device of a tensor `x`.

    Copies of up to `MOST_TABLES` tables stay on their devices.
    """
    if not is_tensor(x):
        return table
    key = id(table), x.device
    if key not in _tables:
        if len(_tables) >= MOST_TABLES:  # loaded formats come and go
            _tables.clear()
        _tables[key] = table, matched(table, x)
    return _tables[key][1]


def look_up(table: NDArray, codes: Array, book: Array | int | None = None) -> Array:
    """table[codes], or table[book, codes], with indices of any integer dtype."""
    whole = on_device(table, codes)
    if is_tensor(codes):
        codes = cast(codes, "int32")  # uint8 would be a mask
        book = cast(book, "int32") if is_tensor(book) else book
    if book is None:
        return whole[codes]
    return whole[book][codes] if isinstance(book, int) else whole[book, codes]


def count_below(ascending: NDArray, x: Array) -> Array:
    """Number of entries of an ascending table below each `x`, int64."""
    values = contiguous(x) if is_tensor(x) else x
    return namespace(x).searchsorted(on_device(ascending, x), values)


def axis_last(x: Array, axis: int) -> Array:
    """`x` with an axis moved to the end; no copy where it is the last."""
    return x if axis in (-1, x.ndim - 1) else namespace(x).moveaxis(x, axis, -1)


def axis_back(x: Array, axis: int) -> Array:
    """The inverse of `axis_last`."""
    return x if axis in (-1, x.ndim - 1) else namespace(x).moveaxis(x, -1, axis)


def chunks(rows: int, *limits: tuple[int, int]) -> Iterator[slice]:
    """Slices that cover `rows` rows, each within every limit or of one row.

    limits: pairs (elements at once, elements of a row).
    """
    step = max(1, min(most // max(1, width) for most, width in limits))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def at_least(x: Array, low: float) -> Array:
    """The larger of each `x` and `low`; much faster than NumPy's clip for few values."""
    return namespace(x).clip(x, low, None) if is_tensor(x) else np.maximum(x, low)


def at_most(x: Array, high: float) -> Array:
    """The smaller of each `x` and `high`."""
    return namespace(x).clip(x, None, high) if is_tensor(x) else np.minimum(x, high)


LARGEST_POWER = 1023


def power(exponent: Array) -> Array:
    """2^exponent as float64, for integers from -1022 to `LARGEST_POWER`."""
    biased = cast(exponent, "int64") + FLOAT64_BIAS
    return view(namespace(biased).bitwise_left_shift(biased, FLOAT64_FRACTION), "float64")


def exponent(x: Array) -> Array:
    """floor(log2(x)) of non-negative normal float64 `x`, int64; -1023 for 0 and subnormals."""
    bits = view(x, "int64")
    return namespace(x).bitwise_right_shift(bits, FLOAT64_FRACTION) - FLOAT64_BIAS
