"""Integer schemes against the library's products, in one run: W8A8, and 4-bit weights alone."""

import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from ..schemes import ScaledTensor, int8_matmul, matmul, pack_weights, quantize, weight_only_matmul
from .fast import WEIGHTS
from .timing import BenchRow, graphed, milliseconds

SAMPLE = 16  # rows or columns of a result that are computed again
FEW_ROWS = (1, 2, 4, 8, 16, 32, 64)
LARGEST_ERROR = 2.0**-8  # of bfloat16 results, by the norm
INT32_PRODUCT = "torch._int_mm, which does not rescale"


def integer_products(size: int) -> Iterator[BenchRow]:
    """Rows on products of (size, size) matrices, then on few rows with a large weight."""
    yield from _bytes(size)
    for n, k in WEIGHTS:
        yield from _few_rows(n, k)


def normal(rows: int, columns: int) -> Tensor:
    """Normal float32 values, the same every time."""
    generator = torch.Generator("cuda").manual_seed(rows + columns)
    return torch.randn(rows, columns, device="cuda", generator=generator)


def _bytes(size: int) -> Iterator[BenchRow]:
    a, b = (quantize(normal(size, size), "int8_channel") for _ in "ab")
    affine = quantize(normal(size, size), "int8_affine_channel")
    x, y = (operand.codes.view(torch.int8) for operand in (a, b))
    library = milliseconds(lambda: torch._int_mm(x, y.t()))
    operations = 2 * size**3 / 1e9
    yield BenchRow(f"torch._int_mm, {size}^3", f"{operations / library:.0f} TOP/s")
    for left, what in ((a, "symmetric"), (affine, "a with zero points")):
        for dtype in (torch.bfloat16, torch.float32):
            result = int8_matmul(left, b, out_dtype=dtype, executor="triton")
            check_bits(left, b, result)
            time = milliseconds(lambda q=left, d=dtype: int8_matmul(q, b, out_dtype=d))
            title = f"int8_matmul, {what}, {str(dtype).removeprefix('torch.')}, {size}^3"
            speed = f"{operations / time:.0f} TOP/s"
            yield BenchRow(title, speed, f"{library / time:.2f}", INT32_PRODUCT)


def check_bits(a: ScaledTensor, b: ScaledTensor, result: Tensor) -> None:
    """SystemExit unless the first rows and columns of `result` have the bits of `matmul`."""
    few = [part(operand) for operand in (a, b)]
    want = matmul(few[0], few[1], "int32").to(result.dtype)
    if not torch.equal(result[:SAMPLE, :SAMPLE], want):
        sys.exit(f"int8_matmul of {a.scheme} x {b.scheme} has other bits than matmul")


def part(x: ScaledTensor) -> ScaledTensor:
    """The first rows."""
    zeros = None if x.zero_points is None else x.zero_points[:SAMPLE]
    scales = tuple(level[:SAMPLE] for level in x.scales)
    return ScaledTensor(x.scheme, x.codes[:SAMPLE], scales, zeros, None, x.axis)


def _few_rows(n: int, k: int) -> Iterator[BenchRow]:
    """Rows timed as CUDA graphs, because Python launches slower than small kernels end."""
    weight = quantize(normal(n, k), "int4_g128")
    packed = pack_weights(weight)
    values = weight.dequantize(torch.bfloat16)
    exact = weight.dequantize(torch.float32)
    for m in FEW_ROWS:
        x = normal(m, k).to(torch.bfloat16)
        want = x.double() @ exact[: SAMPLE * 128].double().t()
        result = weight_only_matmul(x, packed, executor="triton")[:, : SAMPLE * 128].double()
        error = float((result - want).norm() / want.norm())
        if not error < LARGEST_ERROR:
            sys.exit(f"weight_only_matmul is off by {error:.2e}, more than {LARGEST_ERROR:.2e}")
        library = milliseconds(graphed(lambda: x @ values.t()))  # noqa: B023
        time = milliseconds(graphed(lambda: weight_only_matmul(x, packed)))  # noqa: B023
        what = f"{m} row{'s' * (m > 1)} with a weight of {n} x {k}"
        speed = f"{packed.words.numel() * 4 / time / 1e9:.2f} TB/s"
        title = f"weight_only_matmul, int4_g128, {what}"
        yield BenchRow(title, speed, f"{library / time:.2f}", "bfloat16 of the library")
