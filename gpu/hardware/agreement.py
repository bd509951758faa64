"""Silicon against the rules: random matrix products on the tensor cores, compared bit for bit.

    python -m mxdot.gpu.hardware.agreement [--size 4096] [--lengths 32 64 128 512] [--json FILE]

Every class of operands, in each pair of formats and length, is multiplied by the executor
``silicon`` and by another executor, whose bits are the model's; a corner of each product is
computed by mxdot.model too. Exit status 1 when a bit differs.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product as combinations
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

from ...model import BF16, E4M3, E5M2, FP16, TF32, ElementFormat
from ...model import matmul as model_matmul
from ...model.accumulators import accumulator, any_operands
from ...model.arrays import power
from ...model.formats import E8M0, FLOAT32
from .. import checks
from ..ops.matmul import Product, matmul
from ..tensors.formats import code_dtype
from ..tensors.mx import MXTensor
from . import silicon

BLOCK = 32
UNIT_SCALE = E8M0.bias
CORNER = 16  # rows and columns that the model computes too
PAIRS = (
    *((E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)),
    *((FP16, FP16), (FP16, E5M2), (BF16, BF16), (TF32, TF32)),
)
Draw = Callable[[Generator, ElementFormat, tuple[int, int]], Tensor]
"""int32 codes (rows, K) of a format."""


def _pick(rng: Generator, fmt: ElementFormat, shape: tuple[int, int], keep: np.ndarray) -> Tensor:
    codes = torch.tensor(np.flatnonzero(keep), dtype=torch.int32, device=rng.device)
    return codes[torch.randint(len(codes), shape, generator=rng, device=rng.device)]


def _rare(rng: Generator, shape: tuple[int, ...], share: float) -> Tensor:
    return torch.rand(shape, generator=rng, device=rng.device) < share


def _normal(rng: Generator, fmt: ElementFormat, shape: tuple[int, int]) -> Tensor:
    return fmt.encode(torch.randn(shape, generator=rng, device=rng.device)).to(torch.int32)


def _wide(rng: Generator, fmt: ElementFormat, shape: tuple[int, int]) -> Tensor:
    return _pick(rng, fmt, shape, np.isfinite(fmt.values))


def _subnormal(rng: Generator, fmt: ElementFormat, shape: tuple[int, int]) -> Tensor:
    tiny = _pick(rng, fmt, shape, np.abs(fmt.values) < 2.0**fmt.emin)
    return torch.where(_rare(rng, shape, 0.02), _wide(rng, fmt, shape), tiny)


def _tiny(rng: Generator, fmt: ElementFormat, shape: tuple[int, int]) -> Tensor:
    """Numbers whose products lie about the smallest float32, or the smallest that there are."""
    least = max(FLOAT32.lsb // 2 - 8, fmt.lsb)
    exponents = torch.randint(least, least + 16, shape, generator=rng, device=rng.device)
    values = torch.randn(shape, generator=rng, device=rng.device).double() * power(exponents)
    return fmt.encode(values).to(torch.int32)


def _sparse(rng: Generator, fmt: ElementFormat, shape: tuple[int, int]) -> Tensor:
    zeros = _pick(rng, fmt, shape, fmt.values == 0)
    return torch.where(_rare(rng, shape, 0.15), _wide(rng, fmt, shape), zeros)


def _special(rng: Generator, fmt: ElementFormat, shape: tuple[int, int]) -> Tensor:
    """NaN, infinities and zeros, in a third of the rows."""
    odd = _pick(rng, fmt, shape, ~np.isfinite(fmt.values) | (fmt.values == 0))
    special = _rare(rng, (shape[0], 1), 0.33) & _rare(rng, shape, 1 / shape[1])
    return torch.where(special, odd, _wide(rng, fmt, shape))


def _twice(rng: Generator, fmt: ElementFormat, shape: tuple[int, int]) -> Tensor:
    half = _wide(rng, fmt, (shape[0], shape[1] // 2))
    return torch.cat([half, half], dim=1)


def _opposed(rng: Generator, fmt: ElementFormat, shape: tuple[int, int]) -> Tensor:
    """The second half negates the first, except one element in sixteen."""
    half = _wide(rng, fmt, (shape[0], shape[1] // 2))
    other = _wide(rng, fmt, (shape[0], shape[1] // 2))
    sign = 1 << (fmt.bits - 1)
    return torch.cat([half, torch.where(_rare(rng, half.shape, 1 / 16), other, half ^ sign)], dim=1)


CLASSES: dict[str, tuple[Draw, Draw]] = {
    "normal": (_normal, _normal),
    "wide": (_wide, _wide),
    "subnormal": (_subnormal, _subnormal),
    "tiny": (_tiny, _tiny),
    "sparse": (_sparse, _sparse),
    "special": (_special, _special),
    "cancelling": (_twice, _opposed),
}


def running_values(rng: Generator, a: Tensor, b: Tensor) -> Tensor:
    """c (M, N) for float32 values a (M, K) and b (N, K): near the sums, against them, and odd."""
    sums = a.nan_to_num(0.0, 0.0, 0.0) @ b.nan_to_num(0.0, 0.0, 0.0).T
    shape, device = sums.shape, rng.device
    shift = torch.randint(-18, 19, shape, generator=rng, device=device).float().exp2()
    c = sums * torch.randn(shape, generator=rng, device=device) * shift
    kind = torch.randint(16, shape, generator=rng, device=device)
    c = torch.where(kind < 4, -sums, c)
    bits = torch.randint(-(2**31), 2**31, shape, generator=rng, device=device, dtype=torch.int32)
    c = torch.where(kind == 4, bits.view(torch.float32), c)  # any float32, NaN and Inf too
    c = torch.where(kind == 5, (bits & -0x7F800001).view(torch.float32), c)  # subnormal
    return torch.where(kind == 6, 0.0, c)


@dataclass(frozen=True)
class Case:
    """One matrix product: what was compared, and how many bits patterns differed."""

    accumulator: str
    formats: str
    operands: str
    c: bool
    length: int
    tried: int
    differing: int
    differing_from_model: int


@dataclass(frozen=True)
class Operands:
    """A drawn product."""

    a: MXTensor
    b: MXTensor
    c: Tensor | None


def draw(
    rng: Generator,
    operands: str,
    formats: tuple[ElementFormat, ElementFormat],
    shape: tuple[int, int, int],
    with_c: bool,
    scaled: bool,
) -> Operands:
    """Operands of a class for (M, N, K), with unit scales or with random ones in reach."""
    m, n, k = shape
    codes = [
        make(rng, fmt, (rows, k)).to(code_dtype(fmt))
        for make, fmt, rows in zip(CLASSES[operands], formats, (m, n), strict=True)
    ]
    span = (0, 0)
    if scaled:
        low, high = silicon.scale_limits(*formats)
        span = (-(-low // 2), high // 2) if operands in ("wide", "special") else (-6, 6)
    scales = [
        torch.randint(
            UNIT_SCALE + span[0],
            UNIT_SCALE + span[1] + 1,
            (rows, k // BLOCK),
            generator=rng,
            device=rng.device,
            dtype=torch.uint8,
        )
        for rows in (m, n)
    ]
    a, b = (MXTensor(x, s, fmt, BLOCK) for x, s, fmt in zip(codes, scales, formats, strict=True))
    c = None
    if with_c:
        c = running_values(rng, a.dequantize(), b.dequantize())
    return Operands(a, b, c)


def silicon_bits(rule: str, operands: Operands) -> Tensor:
    """Results of the tensor cores, int32 bits (M, N), NaN as they are; ValueError if refused."""
    a, b = operands.a, operands.b
    product = Product(
        *(a.codes, b.codes, a.scales, b.scales, a.format, b.format),
        BLOCK,
        accumulator(rule),
        operands.c,
    )
    reason = silicon.refusal(product)
    if reason is not None:
        raise ValueError(f"executor silicon cannot take this: {reason}")
    return silicon.run(product).view(torch.int32)


@any_operands()  # of hopper-fp16 E5M2, which FP16 holds
def compare(rule: str, operands: Operands, reference: str | None = None) -> tuple[int, int, int]:
    """(tried, differing, differing from the model in the corner)."""
    a, b, c = operands.a, operands.b, operands.c
    results = silicon_bits(rule, operands)
    want = matmul(a, b, rule, c, executor=reference)
    differing = int((results != want.view(torch.int32)).sum())
    x, y = (
        MXTensor(z.codes[:CORNER], z.scales[:CORNER], z.format, BLOCK).to_model() for z in (a, b)
    )
    start = None if c is None else c[:CORNER, :CORNER].cpu().numpy()
    by_model = model_matmul(x, y, rule, start).view(np.int32)
    corner = results[:CORNER, :CORNER].cpu().numpy()
    return results.numel(), differing, int((corner != by_model).sum())


def run(
    size: int, lengths: list[int], rules: list[str], reference: str | None, seed: int
) -> Iterator[Case]:
    """Every rule, class, format pair and length."""
    rng = torch.Generator("cuda").manual_seed(seed)
    for rule, length, formats, operands in combinations(rules, lengths, PAIRS, CLASSES):
        if not set(formats) <= set(silicon.FORMATS[rule]):
            continue
        with_c = bool(torch.randint(4, (), generator=rng, device="cuda"))
        scaled = rule == "hopper-mx"
        drawn = draw(rng, operands, formats, (size, size, length), with_c, scaled)
        tried, differing, from_model = compare(rule, drawn, reference)
        name = f"{formats[0].name}x{formats[1].name}"
        yield Case(rule, name, operands, with_c, length, tried, differing, from_model)


def main() -> int:
    """Print a line for each rule and class, and the total; 1 when anything differs."""
    parser = argparse.ArgumentParser(
        prog="python -m mxdot.gpu.hardware.agreement", description=__doc__
    )
    parser.add_argument("--size", type=int, default=4096, help="rows of both operands")
    parser.add_argument("--lengths", type=int, nargs="+", default=[32, 64, 128, 512])
    parser.add_argument(
        "--rules", nargs="+", choices=silicon.FORMATS, default=list(silicon.FORMATS), metavar="A"
    )
    parser.add_argument("--reference", choices=("torch", "triton"), help="(default: the fastest)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    checks.cuda_is_there()
    start = time.perf_counter()
    cases = list(run(args.size, args.lengths, args.rules, args.reference, args.seed))
    for rule, operands in combinations(args.rules, CLASSES):
        mine = [case for case in cases if (case.accumulator, case.operands) == (rule, operands)]
        tried, differing = sum(x.tried for x in mine), sum(x.differing for x in mine)
        print(f"{rule:16} {operands:12} {tried:14,} dot products {differing:10,} differ")
    tried, differing = sum(x.tried for x in cases), sum(x.differing for x in cases)
    from_model = sum(x.differing_from_model for x in cases)
    print(
        f"{tried:,} dot products, {differing:,} differ; {len(cases) * CORNER**2:,} against "
        f"mxdot.model, {from_model:,} differ; {time.perf_counter() - start:.0f} s"
    )
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(case) for case in cases], indent=1) + "\n")
    return 1 if differing or from_model else 0


if __name__ == "__main__":
    raise SystemExit(main())
