"""Operators of PyTorch, `torch.ops.mxdot`: a compiled graph calls them, and does not look inside.

A compiler may contract a product and a sum, drop the sign of a zero, or divide differently from the
library, and so change bits. An operator keeps them.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack

P = ParamSpec("P")
R = TypeVar("R")


def operator(name: str, fake: Callable[..., R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function the operator `mxdot::name`, which changes none of its arguments.

    fake: results of the right shapes and dtypes for tensors without values.
    """

    def register(function: Callable[P, R]) -> Callable[P, R]:
        whole = torch.library.custom_op(f"mxdot::{name}", function, mutates_args=())
        whole.register_fake(fake)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            # Compilers, tracers and the device meta hand in tensors without values, or look on;
            # others need not pay for the detour.
            watched = torch.compiler.is_compiling() or _len_torch_dispatch_stack()
            if watched or kwargs or not _are_plain(args):
                return whole(*args, **kwargs)
            if not torch.is_grad_enabled():
                return function(*args, **kwargs)
            torch._C._set_grad_enabled(False)  # as the operator, which has no gradient
            try:
                return function(*args, **kwargs)
            finally:
                torch._C._set_grad_enabled(True)

        return call

    return register


def _are_plain(arguments: Iterable[Any]) -> bool:
    for x in arguments:
        if isinstance(x, list):
            if not _are_plain(x):
                return False
        elif isinstance(x, Tensor) and (type(x) is not Tensor or x.is_meta):
            return False
    return True
