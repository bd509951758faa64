"""Functions that torch.compile calls, and does not compile.

A compiler may contract a product and a sum, and so lose the exact remainder of a quotient. It also
traces NumPy, and would leave arrays of its own in the model's tables.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def eager(function: Callable[P, R]) -> Callable[P, R]:
    """`function` in eager mode, also where a graph is compiled around it, which breaks there."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            # Not as a decorator: importing the compiler takes a second.
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return call
