"""Operators of PyTorch, `torch.ops.mxdot`: a compiled graph calls them, and does not look inside.

A compiler may contract a product and a sum, take the sign of a zero for +, or divide otherwise than
the library does, and so change bits; what is an operator keeps them.
"""

from collections.abc import Callable
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
            if watched or not all(map(_is_plain, (*args, *kwargs.values()))):
                return whole(*args, **kwargs)
            with torch.no_grad():  # as the operator, which has no gradient
                return function(*args, **kwargs)

        return call

    return register


def _is_plain(argument: Any) -> bool:
    if isinstance(argument, list):
        return all(map(_is_plain, argument))
    if isinstance(argument, Tensor):
        return argument.device.type != "meta" and type(argument) is Tensor
    return True
