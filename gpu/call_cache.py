"""Cache of work that depends only on the kind of a call, so that small calls stay fast.

A kind is everything that checks and kernels may look at except the values: arguments, shapes,
strides, dtypes, devices and the alignment of memory.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

MOST = 1024  # kinds of calls that are kept of a function
ALIGNMENT = 16  # bytes, the widest access of a kernel


def once(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, whose results are kept where its arguments, given by position, are hashable.

    For functions of their arguments alone. A compiler, which traces into it, sees no store.
    """
    kept = lru_cache(maxsize=MOST, typed=True)(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch.compiler.is_compiling():
            try:
                return kept(*args, **kwargs)  # pyright: ignore[reportArgumentType]
            except TypeError:  # not hashable, or refused: then it is again
                pass
        return function(*args, **kwargs)

    return call


def kind(x: Tensor) -> tuple[Hashable, ...]:
    """Facts of a tensor that a kernel may depend on."""
    return x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % ALIGNMENT


class Prepared:
    """Work for calls of one kind, made by the first of them; at most `MOST` kinds.

    What is kept must hold no tensor of that first call.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, Callable[..., Any]] = {}

    def __call__(self, key: Hashable, make: Callable[[], Callable[..., Any]]) -> Any:
        """Work that `make` made for the first call with this `key`."""
        work = self._kept.get(key)
        if work is None:
            if len(self._kept) >= MOST:
                self._kept.clear()
            work = self._kept[key] = make()
        return work
