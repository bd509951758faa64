"""The speed of the GPU path, as ratios measured in one run: `python -m mxdot.gpu.bench`.

Every result is compared with the golden model on a sample before it is timed, and a differing bit
stops the run; fast products are held to an error against float64. Quantisation is measured against
a device copy that moves the same bytes, fast products against the library's product of bfloat16,
the others are counted in products of two elements a second.
"""

import argparse
import sys
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from ... import model
from ...model.formats import FORMATS
from .. import checks
from ..ops.matmul import matmul
from ..ops.quantize import quantize
from ..tensors.formats import code_dtype, unpack
from ..tensors.mx import MXTensor
from .fast import fast_products
from .integers import integer_products
from .timing import BenchRow, copy_time, milliseconds

PRODUCTS = [
    *(("exact", "e4m3"), ("exact", "int8"), ("int32", "int8"), ("exact", "e2m1")),
    *(("exact", "e5m2"), ("aligned:13", "e4m3"), ("hopper", "e4m3"), ("hopper-promoted", "e4m3")),
    *(("aligned:25", "e4m3"), ("blackwell", "e4m3"), ("aligned:13", "e5m2")),
    *(("float32", "e4m3"), ("fixed:48:-20", "e4m3"), ("fixed:640:-320", "e4m3")),
    *(("hopper-fp16", "fp16"), ("hopper-bf16", "bf16"), ("hopper-tf32", "tf32")),
    *(("volta", "fp16"), ("ampere", "fp16"), ("ampere-bf16", "bf16")),
    *(("cdna1-fp16", "fp16"), ("cdna1-bf16", "bf16"), ("cdna2-fp16", "fp16")),
    *(("cdna2-fp16", "bf16"), ("cdna2-bf16", "bf16"), ("cdna3-fp16", "fp16")),
    *(("cdna3-fp16", "bf16"), ("cdna3-xf32", "tf32"), ("cdna3-fp8", "e4m3fnuz")),
]
GRANULE = 1024  # of --size: tiles of dot_scaled
NARROW_EXPONENT_BITS = 5  # at most, of operands that are random codes and not values
SAMPLE = 16  # rows and columns of a product, or rows of a tensor, that the model repeats


def same(name: str, result: Tensor, want: np.ndarray) -> None:
    """SystemExit unless the sample `result` has the bits of `want`."""
    ours = np.ascontiguousarray(result.cpu().numpy())
    theirs = np.ascontiguousarray(want)
    if ours.tobytes() != theirs.tobytes():
        wrong = np.count_nonzero(ours.view(np.uint8) != theirs.view(np.uint8))
        sys.exit(f"{name} differs from mxdot.model in {wrong} bytes of a sample")


def source(rows: int, columns: int) -> Tensor:
    """bfloat16 values of a wide range, with a zero, a NaN and an infinity."""
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(rows, columns, device="cuda", generator=generator)
    x *= torch.randn(rows, 1, device="cuda", generator=generator).mul(4).exp2()
    x[0, 0], x[1, 1], x[2, 2] = 0, torch.nan, torch.inf
    return x.to(torch.bfloat16)


def quantisation(size: int) -> Iterator[BenchRow]:
    """Rows on quantising bfloat16 (size, size)."""
    from ..kernels.encode import Rules
    from ..kernels.quantize import quantize_rows
    from ..kernels.quantize_columns import quantize_both, quantize_columns

    x = source(size, size)
    sample = x[:32].float().cpu().numpy()
    elements, scale_bytes = x.numel(), x.numel() // 32

    def row(what: str, written: int, work: Callable[[], object]) -> BenchRow:
        moved = 2 * elements + written
        time = milliseconds(work)
        return BenchRow(
            f"bfloat16 to {what}",
            f"{moved / time / 1e9:.2f} TB/s",
            f"{copy_time(moved) / time:.2f}",
            "a device copy of the same bytes",
        )

    for name, packed in (("e4m3", False), ("e5m2", False), ("int8", False), ("e2m1", True)):
        rules = Rules(FORMATS[name])
        want = model.quantize(sample, name)
        codes, scales = quantize_rows(x, rules, packed=packed)
        codes = codes.view(size, -1)[:32]
        same(f"{name} codes", unpack(codes, name) if packed else codes, want.codes)
        same(f"{name} scales", scales.view(size, -1)[:32], want.scales)
        written = elements * (rules.format.bits if packed else 8) // 8 + scale_bytes
        title = f"{name}, rows" + (", packed" if packed else "")
        yield row(title, written, lambda r=rules, p=packed: quantize_rows(x, r, packed=p))

    rules = Rules(FORMATS["e4m3"])
    columns = model.quantize(sample, "e4m3", axis=0)
    one = elements + scale_bytes
    for transposed in (False, True):
        title = "columns, transposed" if transposed else "columns"
        result = quantize_columns(x[None], rules, transposed=transposed)
        both = quantize_both(x, rules, transposed=transposed)
        for codes, scales in (result, both[2:]):
            if transposed:
                same(title, codes.view(size, size)[:, :32].t(), columns.codes)
                same(title, scales.view(size, -1)[:, :1].t(), columns.scales)
            else:
                same(title, codes.view(size, size)[:32], columns.codes)
                same(title, scales.view(-1, size)[:1], columns.scales)
        same("rows of both", both[0].view(size, size)[:32], model.quantize(sample, "e4m3").codes)
        yield row(
            f"e4m3, {title}",
            one,
            lambda t=transposed: quantize_columns(x[None], rules, transposed=t),
        )
        yield row(
            f"e4m3, rows and {title}, one pass",
            2 * one,
            lambda t=transposed: quantize_both(x, rules, transposed=t),
        )
    yield row("e4m3, rows, plain PyTorch", one, lambda: quantize(x, "e4m3", executor="torch"))


def operand(name: str, rows: int, length: int, seed: int) -> MXTensor:
    """Random codes, NaN in the first row only, under scales of a narrow range.

    Of formats with more than five bits of exponent they are normal numbers, whose products float32
    holds.
    """
    fmt = FORMATS[name]
    generator = torch.Generator("cuda").manual_seed(seed)
    shape = (rows, length)
    if fmt.exponent_bits > NARROW_EXPONENT_BITS:
        x = torch.randn(shape, generator=generator, device="cuda")
        codes = torch.from_numpy(fmt.encode(x.cpu().numpy()).astype(np.int32)).to("cuda")
    else:
        codes = torch.randint(
            0, 2**fmt.bits, shape, generator=generator, dtype=torch.int32, device="cuda"
        )
        finite = torch.from_numpy(np.isfinite(fmt.values)).to("cuda")
        codes = torch.where(finite[codes], codes, 1)
    if fmt.nan_code is not None:
        codes[0, 0] = fmt.nan_code
    codes = codes.to(code_dtype(fmt))
    shape = (rows, length // 32)
    scales = torch.randint(120, 134, shape, generator=generator, dtype=torch.uint8, device="cuda")
    return MXTensor(codes, scales, fmt)


def part(x: MXTensor, rows: slice) -> model.MXArray:
    """Some rows, as the model takes them."""
    codes, scales = x.codes[rows].cpu().numpy(), x.scales[rows].cpu().numpy()
    return model.MXArray(codes, scales, x.format, x.block_size)


def products(size: int, only: str | None = None) -> Iterator[BenchRow]:
    """Rows on products (size, size) x (size, size), and of half that size for the emulations.

    only: the one accumulator to measure.
    """
    for accumulator, name in PRODUCTS:
        if only not in (None, accumulator):
            continue
        exact = accumulator in ("exact", "int32")
        n = size if exact else size // 2
        a, b = operand(name, n, n, 1), operand(name, n, n, 2)
        c = torch.randn(n, n, device="cuda", generator=torch.Generator("cuda").manual_seed(3))
        result = matmul(a, b, accumulator, c, executor="triton")
        rows, columns = slice(0, SAMPLE), slice(n - SAMPLE, n)
        start = c[rows, columns].cpu().numpy()
        want = model.matmul(part(a, rows), part(b, columns), accumulator, start)
        same(f"{accumulator} of {name}", result[rows, columns], want)
        time = milliseconds(lambda: matmul(a, b, accumulator, c, executor="triton"))  # noqa: B023
        yield BenchRow(f"{accumulator}, {name}, {n}^3", f"{n**3 / time / 1e9:.2f} T products/s")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m mxdot.gpu.bench", description=__doc__)
    parser.add_argument("--size", type=int, default=8192, help="rows and columns (default 8192)")
    parser.add_argument(
        "--only", choices=("quantize", "matmul", "fast", "integers"), help="one part of the table"
    )
    parser.add_argument("--accumulator", help="one accumulator of the part matmul")
    options = parser.parse_args()
    if options.size < 1 or options.size % GRANULE:
        parser.error(f"--size must be a multiple of {GRANULE}, not {options.size}")
    checks.cuda_is_there()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, size {options.size}\n")
    print(BenchRow("what", "speed", "ratio", "to"))
    print("|---|---|---|---|")
    tables = {
        "quantize": lambda: quantisation(options.size),
        "matmul": lambda: products(options.size, options.accumulator),
        "fast": lambda: fast_products(options.size),
        "integers": lambda: integer_products(options.size),
    }
    for name, table in tables.items():
        if options.only in (None, name):
            for row in table():
                print(row, flush=True)
    print("\nevery sample has the bits of mxdot.model, or of fast products the documented error")


if __name__ == "__main__":
    main()
