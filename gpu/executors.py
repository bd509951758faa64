"""Choice of an executor: plain PyTorch, Triton kernels, or the matrix unit itself.

An executor is a module with `refusal(request)`, which says why it cannot take a request (None when
it can), and `run(request)` or `prepare(request)`. `prepare` gives the work for similar requests
(`call_cache.Prepared`), or None if `run` has to look at each. An executor is imported when it is
asked.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Protocol

import torch

from ..model.errors import choice

# By name; in the order of preference on CUDA. Elsewhere plain PyTorch is taken.
QUANTIZE = {"triton": ".kernels.quantize", "torch": ".ops.quantize"}
BOTH = {"triton": ".kernels.quantize_columns", "torch": ".ops.quantize_both"}
DEQUANTIZE = {"triton": ".kernels.dequantize", "torch": ".tensors.dequantize"}
DEQUANTIZE_TWO = {"triton": ".kernels.dequantize_two", "torch": ".ops.dequantize_two"}
SCHEME_DEQUANTIZE = {"triton": ".kernels.scheme_dequantize", "torch": ".tensors.scheme_dequantize"}
SCHEME_VALUES = {"triton": ".kernels.scheme_values", "torch": ".schemes.quantized_values"}
SCHEME_QUANTIZE = {"triton": ".kernels.scheme_quantize", "torch": ".schemes.quantize"}
QUANTIZE_REGROUPED = {"triton": ".kernels.quantize_regrouped", "torch": ".ops.quantize_regrouped"}
QUANTIZED_VALUES = {"triton": ".kernels.quantized_values", "torch": ".ops.quantized_values"}
REGROUP = {"triton": ".kernels.regroup", "torch": ".ops.regroup"}
PACKED_VALUES = {"triton": ".kernels.packed_values", "torch": ".tensors.packed_values"}
UNPACK = {"triton": ".kernels.unpack", "torch": ".tensors.unpack"}
FEW_ROWS = {"triton": ".kernels.few_rows", "torch": ".ops.few_rows"}
INT8 = {"triton": ".kernels.int8", "torch": ".schemes.int8"}
WEIGHT_ONLY = {"triton": ".kernels.weight_only", "torch": ".schemes.weight_only"}
WEIGHT_VALUES = {"triton": ".kernels.weight_values", "torch": ".schemes.weight_values"}
MATMUL = {"triton": ".kernels.matmul", "torch": ".accumulators", "silicon": ".hardware.silicon"}
BY_ITSELF = ("triton", "torch")  # the others run only when they are named
NEEDS_TRITON = ("triton", "silicon")


class Request(Protocol):
    """Request to an executor: anything on one device."""

    @property
    def device(self) -> torch.device: ...


@cache
def _module(path: str) -> ModuleType:
    return import_module(path, __package__)


def by_themselves(device: torch.device) -> tuple[str, ...]:
    """The executors that are asked on a device where none is named, the first first."""
    if device.type != "cuda":
        return ("torch",)
    return tuple(name for name in BY_ITSELF if name not in NEEDS_TRITON or find_spec("triton"))


def refusal(modules: dict[str, str], name: str, request: Request) -> str | None:
    """Why the executor `name` cannot take `request`; None when it can."""
    if name in NEEDS_TRITON and find_spec("triton") is None:
        return "Triton is not installed"
    return _module(modules[name]).refusal(request)


def _chosen(modules: dict[str, str], wanted: str | None, request: Request) -> ModuleType:
    """The executor `wanted`, or the best one that takes `request` when None.

    ValueError says why a wanted executor cannot, or why none can.
    """
    if wanted is None:
        names = by_themselves(request.device)
        reasons = []
        for name in names:
            reason = refusal(modules, name, request)
            if reason is None:
                return _module(modules[name])
            reasons.append(f"executor {name} cannot take this: {reason}")
        raise ValueError("; ".join(reasons))
    choice("executor", wanted, modules)
    reason = refusal(modules, wanted, request)
    if reason is not None:
        raise ValueError(f"executor {wanted} cannot take this: {reason}")
    return _module(modules[wanted])


def choose(modules: dict[str, str], wanted: str | None, request: Request) -> Callable[..., Any]:
    """The `run` of the executor `wanted`, or of the best one that takes `request` when None.

    ValueError says why a wanted executor cannot.
    """
    return _chosen(modules, wanted, request).run


def prepare(modules: dict[str, str], wanted: str | None, request: Request) -> Any:
    """Result of that executor's `prepare`; None without one."""
    make = getattr(_chosen(modules, wanted, request), "prepare", None)
    return None if make is None else make(request)


def run(modules: dict[str, str], wanted: str | None, request: Request) -> Any:
    """Result of `request` by the executor of `choose`."""
    return choose(modules, wanted, request)(request)
