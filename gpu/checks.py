"""Argument checks of tensors: messages name the parameter, what is allowed and what was given."""

import sys
from typing import Any

import torch
from torch import Tensor

from .tensors.container import Container

INTEGERS = (
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32),
)
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype as messages write it: ``float32``."""
    return str(dtype).removeprefix("torch.")


def shown(dtype: object) -> str:
    """Text for messages of a value given as a dtype."""
    return dtype_name(dtype) if isinstance(dtype, torch.dtype) else repr(dtype)


def tensor(name: str, value: Any) -> Tensor:
    """`value` if it is a dense tensor, else TypeError."""
    if not holds_values(value):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(value).__name__}")
    # A compiler's tensors are dense, and it refuses the question in a backward pass.
    if not torch.compiler.is_compiling() and value.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, not {value.layout}")
    if is_dtensor(value):
        raise TypeError(f"{name} must be a tensor of one process, not a DTensor")
    return value.detach() if value.requires_grad else value


def holds_values(x: object) -> bool:
    """Whether `x` is a tensor, and not of codes."""
    return isinstance(x, Tensor) and not isinstance(x, Container)


def is_dtensor(x: object) -> bool:
    """Whether `x` is spread over ranks; its type is not asked, whose import takes two seconds."""
    return hasattr(x, "device_mesh")


def of_dtype(name: str, value: Any, dtype: torch.dtype) -> Tensor:
    """`value` if it is a tensor of `dtype`, else TypeError."""
    checked = tensor(name, value)
    if checked.dtype != dtype:
        given = dtype_name(checked.dtype)
        raise TypeError(f"{name} must have dtype {dtype_name(dtype)}, not {given}")
    return checked


def uint8(name: str, value: Any) -> Tensor:
    """`value` if it is a uint8 tensor, else TypeError."""
    return of_dtype(name, value, torch.uint8)


def integers(name: str, value: Any, low: int, high: int) -> Tensor:
    """A tensor of integers from `low` to `high` as int64; TypeError or ValueError if it is not."""
    x = tensor(name, value)
    if x.dtype not in INTEGERS:
        raise TypeError(f"{name} must be integers from {low} to {high}, not {dtype_name(x.dtype)}")
    wide = x.to(torch.int64)
    outside = (wide < low) | (wide > high)
    if outside.any():
        raise ValueError(f"{name} must be from {low} to {high}, not {int(wide[outside][0])}")
    return wide


def float_dtype(name: str, dtype: object) -> None:
    """TypeError unless `dtype` is a float of PyTorch's that values may have."""
    if dtype not in FLOATS:
        raise TypeError(f"{name} must be float32, float16, bfloat16 or float64, not {shown(dtype)}")


def floats(name: str, value: Any) -> Tensor:
    """`value` if it is a tensor of float32, or of what converts to it exactly.

    float64 must hold float32 values: ValueError names one that would be rounded.
    """
    x = tensor(name, value)
    float_dtype(name, x.dtype)
    if x.dtype == torch.float64:
        lost = (x.to(torch.float32).to(torch.float64) != x) & ~x.isnan()
        if lost.any():
            rounded = float(x[lost][0])
            raise ValueError(
                f"{name} of dtype float64 must hold float32 values, not {rounded!r}: "
                "to(torch.float32) rounds them"
            )
        return x.to(torch.float32)
    return x


def same_device(**tensors: Tensor | None) -> torch.device:
    """The one device of all `tensors`; ValueError names two that differ."""
    (first, one), *others = ((name, x) for name, x in tensors.items() if x is not None)
    for name, other in others:
        if other.device != one.device:
            raise ValueError(
                f"{first} and {name} must be on one device, not {one.device} and {other.device}"
            )
    return one.device


def cuda_is_there() -> None:
    """SystemExit, for a program that measures a GPU, unless PyTorch sees one."""
    if not torch.cuda.is_available():
        sys.exit("this is measured on a CUDA GPU, and PyTorch sees none")
