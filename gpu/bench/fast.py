"""`mx_matmul` against bfloat16, Triton's `dot_scaled` and torchao's emulation, in one run.

Each result is compared with a float64 product of its operands on a sample of rows first.
"""

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import torch
from torch import Tensor

from ..ops.mx_matmul import mx_matmul
from ..ops.quantize import quantize
from ..ops.regroup import regroup
from ..tensors.mx import MXTensor
from .timing import BenchRow, graphed, milliseconds

SAMPLE = 16  # rows of a result that float64 repeats
# bfloat16 results are off by up to 2^-8 each; a lost block would be off by far more.
LARGEST_ERROR = 2.0**-8
WEIGHTS = ((28672, 8192), (8192, 28672))  # (N, K)
FEW_ROWS = (1, 16, 64)


def check(name: str, result: Tensor, a: MXTensor, b: MXTensor) -> None:
    """SystemExit when `result` is not a b^T, by the norm of a sample of rows."""
    want = a.dequantize()[:SAMPLE].double() @ b.dequantize().double().t()
    error = float((result[:SAMPLE].double() - want).norm() / want.norm())
    if not error < LARGEST_ERROR:
        sys.exit(f"{name} is off by {error:.2e} of the result, more than {LARGEST_ERROR:.2e}")


def operands(rows: int, columns: int, length: int) -> tuple[MXTensor, MXTensor]:
    """Normal values as MXFP8 by the scale rule ``floor``, which torchao has too."""
    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (
        torch.randn(n, length, device="cuda", generator=generator).to(torch.bfloat16)
        for n in (rows, columns)
    )
    return quantize(a, "e4m3"), quantize(b, "e4m3")


def fast_products(size: int) -> Iterator[BenchRow]:
    """Rows on products of (size, size) matrices, then on few rows with a large weight."""
    a, b = operands(size, size, size)
    x, y = a.dequantize(torch.bfloat16), b.dequantize(torch.bfloat16)
    x8, y8 = regroup(a), regroup(b)
    ways: dict[str, Callable[[], Tensor]] = {
        "mx_matmul, bfloat16": lambda: mx_matmul(a, b),
        "mx_matmul, float8": lambda: mx_matmul(a, b, method="float8"),
        "mx_matmul, float8, b regrouped before": lambda: mx_matmul(a, y8),
        "mx_matmul, float8, both regrouped before": lambda: mx_matmul(x8, y8),
        "Triton's dot_scaled": lambda: _dot_scaled(a, b),
    }
    if find_spec("torchao"):
        ways["torchao's MX emulation"] = _torchao(x, y)
    library = milliseconds(lambda: x @ y.t())
    flops = 2 * size**3 / 1e9
    yield BenchRow(f"bfloat16 of the library, {size}^3", f"{flops / library:.0f} TFLOP/s")
    for name, work in ways.items():
        check(name, work(), a, b)
        time = milliseconds(work)
        speed = f"{flops / time:.0f} TFLOP/s"
        yield BenchRow(
            f"{name}, {size}^3", speed, f"{library / time:.2f}", "bfloat16 of the library"
        )
    if not find_spec("torchao"):
        yield BenchRow("torchao's MX emulation", "not measured: torchao is not installed")
    for n, k in WEIGHTS:
        yield from _few_rows(n, k)


def _few_rows(n: int, k: int) -> Iterator[BenchRow]:
    """Rows timed as CUDA graphs, because Python launches slower than small kernels end."""
    _, b = operands(1, n, k)
    y, y8 = b.dequantize(torch.bfloat16), regroup(b)
    for m in FEW_ROWS:
        a, _ = operands(m, 1, k)
        x, x8 = a.dequantize(torch.bfloat16), regroup(a)
        library = milliseconds(graphed(lambda: x @ y.t()))  # noqa: B023
        what = f"{m} rows with a weight of {n} x {k}"
        yield BenchRow(f"bfloat16 of the library, {what}", f"{2 * n * k / library / 1e9:.2f} TB/s")
        ways = {
            "b regrouped before": lambda: mx_matmul(a, y8),  # noqa: B023
            "both regrouped before": lambda: mx_matmul(x8, y8),  # noqa: B023
        }
        for name, work in ways.items():
            check(f"{name}, {what}", work(), a, b)
            time = milliseconds(graphed(work))
            speed = f"{n * k * 33 / 32 / time / 1e9:.2f} TB/s"
            title = f"mx_matmul, float8, {name}, {what}"
            yield BenchRow(title, speed, f"{library / time:.2f}", "bfloat16 of the library")


def _dot_scaled(a: MXTensor, b: MXTensor) -> Tensor:
    from ..kernels.dot_scaled import multiply

    return multiply(a, b)


def _torchao(x: Tensor, y: Tensor) -> Callable[[], Tensor]:
    """torchao's product of its own MX tensors of the same values."""
    from torchao.prototype.mx_formats.mx_tensor import MXTensor as TorchaoTensor  # pyright: ignore[reportMissingImports]

    a, b = (TorchaoTensor.to_mx(v, torch.float8_e4m3fn, 32) for v in (x, y))
    return lambda: torch.mm(a, b.t())
