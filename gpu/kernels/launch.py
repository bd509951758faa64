"""Launches of kernels for calls of one kind.

Triton looks at every argument of every launch, which takes longer than a small kernel. Here only
the first launch pays for that. Hooks on Triton's launches see only the first one;
PyTorch's profiler sees all.
"""

from typing import Any

import torch
from torch import Tensor

from . import device


class Launch:
    """A kernel on a grid of programs, with its constants and options.

    Called with the arguments before the constants, by position. Tensors have the dtypes, alignment
    and device of the first call's; integers are equal to the first call's.
    """

    def __init__(self, kernel: Any, grid: tuple[int, ...], **constants: Any) -> None:
        self._kernel, self._grid, self._constants = kernel, (*grid, 1, 1)[:3], constants
        self._compiled: dict[int, tuple[Any, tuple[Any, ...]]] = {}  # by the current device

    def __call__(self, *arguments: Any) -> None:
        if device.interpreted():
            self._kernel[self._grid](*arguments, **self._constants)
            return
        current = torch.cuda.current_device()
        known = self._compiled.get(current)
        if known is None:
            compiled = self._kernel[self._grid](*arguments, **self._constants)
            names = self._kernel.arg_names[len(arguments) :]
            self._compiled[current] = compiled, tuple(self._constants[name] for name in names)
            return
        compiled, constants = known
        stream = torch._C._cuda_getCurrentRawStream(current)
        # Addresses are passed on; for a tensor the launcher would ask the driver.
        values = [x.data_ptr() if isinstance(x, Tensor) else x for x in arguments]
        code = compiled.function, compiled.packed_metadata
        compiled.run(*self._grid, stream, *code, None, None, None, *values, *constants)
