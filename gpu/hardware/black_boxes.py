"""The matrix units of this machine's GPU as black boxes for `mxdot probe`.

Each is named `cuda:...` and takes codes of the formats that its elements hold exactly: its own, and
FP8 as the FP16, BF16 or TF32 values of the same numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...model.errors import choice
from ...model.formats import BF16, E4M3, E5M2, FP16, INT8, TF32, ElementFormat
from ...model.formats.table import format_pairs
from ..tensors.mx import FLOAT8

CHUNK = 4096  # rows of a library's product, of which only the diagonal is wanted
GRANULE = 32  # elements: every matrix instruction takes a divisor of it
FP8 = (E4M3, E5M2)
Multiply = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, tuple[str, ...]]]


@dataclass(frozen=True)
class Kind:
    """A unit: what it is, which formats it takes (the first by default), and how to run it.

    multiply(a, b, c): float32 (n,) dot products of rows of `dtype` (None: of the format's own), and
    the instructions that computed them.
    """

    summary: str
    formats: tuple[ElementFormat, ...]
    dtype: torch.dtype | None
    takes_c: bool
    multiply: Multiply


class CudaUnit:
    """A `MatrixUnit` of mxdot.verify.probe.

    instructions: the matrix instructions of the last call, as far as known.
    """

    multiple = GRANULE

    def __init__(self, name: str, kind: Kind, formats: tuple[ElementFormat, ElementFormat]) -> None:
        self.name, self.kind, self.formats = name, kind, formats
        self.takes_c = kind.takes_c
        self.instructions: tuple[str, ...] = ()

    def __call__(
        self, a: NDArray[np.uint8], b: NDArray[np.uint8], c: NDArray[np.float32] | None
    ) -> NDArray[np.uint32]:
        """Bits (n,) of the dot products of codes a and b (n, K), started from c (n,) or +0."""
        x, y = (
            _elements(torch.from_numpy(np.ascontiguousarray(codes)).cuda(), fmt, self.kind.dtype)
            for codes, fmt in zip((a, b), self.formats, strict=True)
        )
        start = None if c is None else torch.from_numpy(np.array(c, np.float32)).cuda()
        result, self.instructions = self.kind.multiply(x, y, start)
        return result.cpu().numpy().view(np.uint32)


def _elements(codes: Tensor, fmt: ElementFormat, dtype: torch.dtype | None) -> Tensor:
    """Codes as elements of `dtype`, exactly."""
    if dtype is not None:
        return fmt.exact(codes).to(dtype)
    return codes.view(torch.int8 if fmt == INT8 else FLOAT8[fmt])


def _triton(small: bool, promote: int = 0) -> Multiply:
    """`tl.dot` in tiles that become wgmma, or (small) mma.sync."""

    def multiply(a: Tensor, b: Tensor, c: Tensor | None) -> tuple[Tensor, tuple[str, ...]]:
        from ..kernels import tensor_core

        rows = tensor_core.SMALL_ROWS if small else tensor_core.WARPGROUP_ROWS
        result, names = tensor_core.pairs(a, b, c, rows, promote)
        if a.dtype == torch.int8:
            return result.to(torch.float32) * 2.0 ** -(2 * INT8.mantissa_bits), names
        return result, names

    return multiply


def _library(product: Callable[[Tensor, Tensor], Tensor]) -> Multiply:
    """A library's matrix product: the diagonals of square ones."""

    def multiply(a: Tensor, b: Tensor, c: Tensor | None) -> tuple[Tensor, tuple[str, ...]]:
        parts = []
        for x, y in zip(a.split(CHUNK), b.split(CHUNK), strict=True):
            fill = -len(x) % GRANULE
            x, y = (torch.cat([z, z[:1].expand(fill, -1)]) if fill else z for z in (x, y))
            parts.append(product(x, y).diagonal()[: len(x) - fill])
        return torch.cat(parts), ()

    return multiply


def scaled_mm(a: Tensor, b: Tensor, fast: bool) -> Tensor:
    """cuBLAS's float32 product of float8 a (M, K) and b (N, K) with unit scales.

    Operands of two E5M2 are none of cuBLAS's: RuntimeError.
    """
    one = torch.ones((), dtype=torch.float32, device=a.device)
    return torch._scaled_mm(
        a, b.T, scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=fast
    )


def _mm(a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a, b.T, out_dtype=torch.float32)


def _int_mm(a: Tensor, b: Tensor) -> Tensor:
    return torch._int_mm(a, b.T).to(torch.float32) * 2.0 ** -(2 * INT8.mantissa_bits)


WIDE = (E5M2, E4M3)
HALF, BRAIN, TENSOR = ((*WIDE, own) for own in (FP16, BF16, TF32))
UNITS = {
    f"cuda:{name}": kind
    for name, kind in {
        "fp8": Kind("FP8, wgmma (Triton)", WIDE, None, True, _triton(small=False)),
        "fp8-promoted": Kind(
            "FP8, wgmma, in float32 every 128 elements (Triton)",
            WIDE,
            None,
            True,
            _triton(small=False, promote=128),
        ),
        "fp8-small": Kind("FP8, tiles of 16 (Triton)", WIDE, None, True, _triton(small=True)),
        "fp8-cublas": Kind(
            "FP8, cuBLAS, fast accumulation",
            (E4M3, E5M2),
            None,
            False,
            _library(lambda a, b: scaled_mm(a, b, fast=True)),
        ),
        "fp8-cublas-slow": Kind(
            "FP8, cuBLAS, slow accumulation",
            (E4M3, E5M2),
            None,
            False,
            _library(lambda a, b: scaled_mm(a, b, fast=False)),
        ),
        "fp16": Kind("FP16, wgmma (Triton)", HALF, torch.float16, True, _triton(small=False)),
        "fp16-small": Kind(
            "FP16, mma.sync (Triton)", HALF, torch.float16, True, _triton(small=True)
        ),
        "fp16-cublas": Kind("FP16, cuBLAS", HALF, torch.float16, False, _library(_mm)),
        "bf16": Kind("BF16, wgmma (Triton)", BRAIN, torch.bfloat16, True, _triton(small=False)),
        "bf16-small": Kind(
            "BF16, mma.sync (Triton)", BRAIN, torch.bfloat16, True, _triton(small=True)
        ),
        "tf32": Kind("TF32, wgmma (Triton)", TENSOR, torch.float32, True, _triton(small=False)),
        "tf32-small": Kind(
            "TF32, mma.sync (Triton)", TENSOR, torch.float32, True, _triton(small=True)
        ),
        "int8": Kind("INT8, wgmma (Triton)", (INT8,), None, False, _triton(small=False)),
        "int8-small": Kind("INT8, mma.sync (Triton)", (INT8,), None, False, _triton(small=True)),
        "int8-cublas": Kind("INT8, cuBLAS", (INT8,), None, False, _library(_int_mm)),
    }.items()
}


def cuda_unit(name: str, formats: str | None = None) -> CudaUnit:
    """The unit of a name of `UNITS`, for a format or pair of formats; its widest when None.

    ValueError for an unknown name, formats that it does not take, or a machine without CUDA.
    """
    kind = UNITS[choice("unit", name, UNITS)]
    pair = kind.formats[0], kind.formats[0]
    if formats is not None:
        (pair, *more) = format_pairs(formats)
        if more or not set(pair) <= set(kind.formats):
            known = ", ".join(fmt.name for fmt in kind.formats)
            raise ValueError(f"formats of {name} must be one pair of {known}, not {formats!r}")
    if not torch.cuda.is_available():
        raise ValueError(f"unit {name} needs a CUDA GPU, and PyTorch sees none")
    return CudaUnit(name, kind, pair)
