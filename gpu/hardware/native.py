"""FP16, BF16 and TF32 tensor cores on elements of their own precision, against the fused rule.

    python -m mxdot.gpu.hardware.native [--size 2048] [--length 64] [--json FILE]

The rule of `fused:25`, written for any element whose products are exact in float64 and equal to the
model's, is compared with the units on random elements of every significand and exponent. Exit
status 1 when a bit differs.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product as combinations
from pathlib import Path

import torch
from torch import Generator, Tensor

from ...model.arrays import exponent as exponent64
from ...model.arrays import power as power64
from ...model.formats import BFLOAT16, FLOAT16, FLOAT32
from ...model.rounding import toward_zero
from .. import checks
from ..ops.outputs import OUTPUTS
from .agreement import running_values

FRACTION_BITS = 25
NO_EXPONENT = -4096
NAN = 0x7FFFFFFF
TILE = 512  # rows and columns computed by the rule at a time


@dataclass(frozen=True)
class Element:
    """An element: its dtype, smallest normal exponent, and how many terms a step of its unit takes.

    fraction_bits: of a significand; float32 elements of fewer than 23 stand for TF32.
    """

    dtype: torch.dtype
    emin: int
    terms: int
    fraction_bits: int

    @property
    def word(self) -> torch.dtype:
        """Integers of the width of the dtype."""
        return torch.int32 if self.dtype == torch.float32 else torch.int16

    def of_bits(self, bits: Tensor) -> Tensor:
        """Elements of random `bits`; digits that the element has not are cleared."""
        spare = OUTPUTS[self.dtype].mantissa_bits - self.fraction_bits
        return (bits & -(1 << spare)).view(self.dtype)

    def rounded(self, values: Tensor) -> Tensor:
        """float32 values as elements, toward zero where the dtype is wider than the element."""
        if self.dtype == torch.float32:
            return self.of_bits(values.view(torch.int32))
        return values.to(self.dtype)


ELEMENTS = {
    "fp16": Element(torch.float16, FLOAT16.emin, 16, FLOAT16.mantissa_bits),
    "bf16": Element(torch.bfloat16, BFLOAT16.emin, 16, BFLOAT16.mantissa_bits),
    "tf32": Element(torch.float32, FLOAT32.emin, 8, 10),
}
Draw = Callable[[Generator, Element, tuple[int, int]], Tensor]


def _normal(rng: Generator, element: Element, shape: tuple[int, int]) -> Tensor:
    return element.rounded(torch.randn(shape, generator=rng, device=rng.device))


def _wide(rng: Generator, element: Element, shape: tuple[int, int]) -> Tensor:
    """Normal numbers between 2^-14 and 2^14."""
    scale = torch.randint(-14, 15, shape, generator=rng, device=rng.device).float().exp2()
    fraction = 1 + torch.rand(shape, generator=rng, device=rng.device)
    sign = torch.randint(2, shape, generator=rng, device=rng.device) * 2.0 - 1
    return element.rounded(scale * fraction * sign)


def _any(rng: Generator, element: Element, shape: tuple[int, int]) -> Tensor:
    """Any bits; NaN and infinities in few places."""
    info = torch.iinfo(element.word)
    bits = torch.randint(
        info.min, info.max, shape, generator=rng, device=rng.device, dtype=element.word
    )
    values = element.of_bits(bits)
    rare = torch.rand(shape, generator=rng, device=rng.device) < 1 / (4 * shape[1])
    return torch.where(values.isfinite() | rare, values, torch.ones_like(values))


def _subnormal(rng: Generator, element: Element, shape: tuple[int, int]) -> Tensor:
    """Subnormal numbers, with others here and there."""
    smallest = 2.0**element.emin
    fraction = torch.rand(shape, generator=rng, device=rng.device, dtype=torch.float64) * 2 - 1
    tiny = element.rounded((fraction * smallest).float())
    other = torch.rand(shape, generator=rng, device=rng.device) < 0.05
    return torch.where(other, _normal(rng, element, shape), tiny)


CLASSES: dict[str, Draw] = {
    "normal": _normal,
    "wide": _wide,
    "any bits": _any,
    "subnormal": _subnormal,
}


def rule(element: Element, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """int32 bits (M, N) of c + a (M, K) x b (N, K)^T: `fused:25` in the element's steps."""
    x, y = (z.to(torch.float64) for z in (a, b))
    exponents_x, exponents_y = (_exponents(element, z) for z in (x, y))
    for start in range(0, a.shape[1], element.terms):
        step = slice(start, start + element.terms)
        products = x[:, None, step] * y[None, :, step]
        of_terms = (exponents_x[:, None, step] + exponents_y[None, :, step]).amax(dim=-1)
        wide = c.to(torch.float64)
        exponent = exponent64(wide.abs()).clamp(FLOAT32.emin, FLOAT32.emax)
        largest = torch.maximum(torch.where(c == 0, NO_EXPONENT, exponent), of_terms)
        shift = FRACTION_BITS - torch.where(largest < NO_EXPONENT // 2, 0, largest)
        total = (products * power64(shift)[..., None]).trunc_().sum(dim=-1)
        total += (wide * power64(shift)).trunc()
        c = toward_zero(total * power64(-shift))
    return torch.where(c.isnan(), NAN, c.view(torch.int32))


def _exponents(element: Element, values: Tensor) -> Tensor:
    """Exponents: subnormal numbers count as the smallest normal."""
    exponents = exponent64(values.abs()).clamp(min=element.emin)
    return torch.where((values == 0) | ~values.isfinite(), NO_EXPONENT, exponents).to(torch.int32)


def compare(element: Element, a: Tensor, b: Tensor, c: Tensor) -> int:
    """How many results of the tensor core, wgmma with c inside, differ from the rule."""
    from ..kernels import tensor_core  # Triton: only when it is used

    got = tensor_core.matrix(a, b, c).view(torch.int32)
    differing = 0
    for row, column in combinations(range(0, len(a), TILE), range(0, len(b), TILE)):
        rows, columns = slice(row, row + TILE), slice(column, column + TILE)
        want = rule(element, a[rows], b[columns], c[rows, columns])
        differing += int((got[rows, columns] != want).sum())
    return differing


@dataclass(frozen=True)
class Case:
    """One matrix product."""

    element: str
    operands: str
    length: int
    tried: int
    differing: int


def main() -> int:
    """Print a line for each unit and class; 1 when anything differs."""
    parser = argparse.ArgumentParser(
        prog="python -m mxdot.gpu.hardware.native", description=__doc__
    )
    parser.add_argument("--size", type=int, default=2048, help="rows of both operands")
    parser.add_argument("--length", type=int, default=64, help="elements of a dot product")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    checks.cuda_is_there()
    rng = torch.Generator("cuda").manual_seed(args.seed)
    cases = []
    for name, operands in combinations(ELEMENTS, CLASSES):
        element, shape = ELEMENTS[name], (args.size, args.length)
        a, b = (CLASSES[operands](rng, element, shape) for _ in "ab")
        c = running_values(rng, a.float(), b.float())
        found = compare(element, a, b, torch.where(c == 0, 0.0, c))
        cases.append(Case(name, operands, args.length, args.size**2, found))
        print(f"{name} {operands:10} {args.size**2:12,} dot products {found:10,} differ")
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(case) for case in cases], indent=1) + "\n")
    return 1 if any(case.differing for case in cases) else 0


if __name__ == "__main__":
    raise SystemExit(main())
