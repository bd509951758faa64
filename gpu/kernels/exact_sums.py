"""`exact` and `int32` on the matrix units, which sum small integers without error.

An element is an integer in units of the format's smallest subnormal (E4M3: 18 bits and a sign). It
is cut into digits so short that the products of 32 pairs of elements, summed over the pairs of
digits of one weight, stay below 2^24: float16 holds the digits and the float32 accumulators of the
matrix unit hold the sums, all exactly. E4M3 takes two digits of 9 bits and four products, E5M2 four
digits of 8 bits, FP16 five, most others are one digit. The sums of the weights join in float64, and
each block is added to c with one rounding.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.arrays import power as power64
from ...model.formats import E8M0, FLOAT16, FLOAT32, FLOAT64, ElementFormat
from ...model.products import Pair
from .arithmetic import add_to_odd, is_finite, nearest_even, sum3_to_odd
from .device import interpreted
from .operands import TILE, padded_rows, tile_origin

if TYPE_CHECKING:
    from ..ops.matmul import Product

CHUNK = 32  # terms that a matrix unit sums before float64 takes over
SHORTEST, LONGEST = 16, 256  # blocks: a matrix unit's step; what is unrolled, and float64 holds
FLOAT16_BITS, FLOAT32_BITS, FLOAT64_BITS = (
    fmt.significand_bits for fmt in (FLOAT16, FLOAT32, FLOAT64)
)
STAGED = 160 * 2**10  # bytes of operands in flight


@dataclass(frozen=True)
class Digits:
    """Cut of elements of two formats: digits of `bits` bits, `a` and `b` of them each."""

    bits: int
    a: int
    b: int


class Sums(NamedTuple):
    """The sums of a product, one constexpr.

    bits: per digit. a_digits, b_digits: per element. block: elements under one scale. chunk: terms
    that a matrix unit sums. two: whether two float64 hold a block's sum; lower: weights in the
    second one. directed: whether the GPU's directed roundings add a block to c.
    """

    bits: int
    a_digits: int
    b_digits: int
    block: int
    chunk: int
    two: bool
    lower: int
    has_c: bool
    has_inf: bool
    directed: bool


def largest_integer(fmt: ElementFormat) -> int:
    """The largest magnitude of a finite element in units of the smallest subnormal."""
    _, significand, exponent = fmt.triples
    return int((significand << (exponent - exponent.min())).max())


@cache
def digits(a: ElementFormat, b: ElementFormat) -> Digits:
    """The widest digits whose sums stay exact in float32."""
    largest_a, largest_b = largest_integer(a), largest_integer(b)
    for bits in range(FLOAT16_BITS, 0, -1):
        top = 2**bits - 1
        count_a, count_b = (-(-x.bit_length() // bits) for x in (largest_a, largest_b))
        pairs = min(count_a, count_b) * CHUNK
        if pairs * min(top, largest_a) * min(top, largest_b) <= 2**FLOAT32_BITS:
            return Digits(bits, count_a, count_b)
    raise AssertionError("one-bit digits always fit")


def lower_weights(bits: int, block_size: int) -> int:
    """Count of weights of digits of `bits` bits, from the lowest, that one float64 sums exactly."""
    chunks = max(1, block_size // CHUNK)
    return (FLOAT64_BITS - FLOAT32_BITS - 1 - int(math.log2(chunks))) // bits + 1


def refusal(_a: ElementFormat, _b: ElementFormat, block_size: int) -> str | None:
    """Why matrix units cannot take blocks of this size; None when they can."""
    if not SHORTEST <= block_size <= LONGEST or block_size & (block_size - 1):
        return f"block_size must be a power of two from {SHORTEST} to {LONGEST}, not {block_size}"
    return None


@cache
def _digit_table(fmt: ElementFormat, bits: int, count: int, device: torch.device) -> Tensor:
    """float16 (count, codes): every digit of a code with its sign, lowest first.

    A NaN is NaN in every digit; an infinity is 0, its products are taken apart.
    """
    values = torch.from_numpy(fmt.values.copy())
    units = (values / fmt.smallest).nan_to_num(0, 0, 0).to(torch.int64)
    magnitude = units.abs()
    parts = [(magnitude >> (bits * i)) % 2**bits * units.sign() for i in range(count)]
    table = torch.where(values.isnan(), torch.nan, torch.stack(parts).to(torch.float64))
    return table.to(torch.float16).to(device)


@cache
def _value_table(fmt: ElementFormat, device: torch.device) -> Tensor:
    """float16 (1, codes): the elements themselves."""
    return torch.from_numpy(fmt.values[None].copy()).to(torch.float16).to(device)


def _looked_up(codes: Tensor, table: Tensor) -> Tensor:
    """`table` (count, codes) at `codes` (R, K): (count, R padded, K), zero rows at the end."""
    rows, length = codes.shape
    result = torch.empty(
        (table.shape[0], padded_rows(rows), length), dtype=table.dtype, device=codes.device
    )
    size = 1024
    grid = (triton.cdiv(result[0].numel(), size),)
    _look_up[grid](codes, table, result, codes.numel(), result[0].numel(), *table.shape, SIZE=size)
    return result


@triton.jit
def _look_up(codes, table, result, total, padded, count, entries, SIZE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    code = tl.load(codes + at, mask=at < total, other=0).to(tl.int32)
    for _ in range(count):
        tl.store(result + at, tl.load(table + code), mask=at < padded)
        result += padded
        table += entries


def _scale_values(scales: Tensor, unit: int) -> Tensor:
    """float64 (blocks, R padded): the scales times 2^unit; NaN for the NaN scale."""
    rows, blocks = scales.shape
    exponents = scales.t().to(torch.int64) + (unit - E8M0.bias)
    values = torch.zeros((blocks, padded_rows(rows)), dtype=torch.float64, device=scales.device)
    values[:, :rows] = torch.where(scales.t() == E8M0.nan_code, torch.nan, power64(exponents))
    return values


def run(product: "Product") -> Tensor:
    """Dot products of the rows of `a` (M, K) and `b` (N, K): float32 (M, N)."""
    (m, n), length = product.shape, product.a_codes.shape[1]
    device, (a_format, b_format) = product.device, product.formats
    cut = digits(a_format, b_format)
    a = _looked_up(product.a_codes, _digit_table(a_format, cut.bits, cut.a, device))
    b = _looked_up(product.b_codes, _digit_table(b_format, cut.bits, cut.b, device))
    has_inf = product.has_inf
    a_value = _looked_up(product.a_codes, _value_table(a_format, device)) if has_inf else a
    b_value = _looked_up(product.b_codes, _value_table(b_format, device)) if has_inf else b
    result = torch.empty((m, n), dtype=torch.float32, device=device)
    sum_bits = Pair(a_format, b_format).bits + int(math.log2(product.block_size))
    parts = cut.a + cut.b + 2 * has_inf
    two = sum_bits > FLOAT64_BITS
    _exact[(triton.cdiv(m, TILE) * triton.cdiv(n, TILE),)](
        a,
        b,
        a_value,
        b_value,
        _scale_values(product.a_scales, a_format.emin - a_format.mantissa_bits),
        _scale_values(product.b_scales, b_format.emin - b_format.mantissa_bits),
        result if product.c is None else product.c,
        result,
        m,
        n,
        length,
        a.shape[1],
        b.shape[1],
        product.a_scales.shape[1],
        SUMS=Sums(
            bits=cut.bits,
            a_digits=cut.a,
            b_digits=cut.b,
            block=product.block_size,
            chunk=min(CHUNK, product.block_size),
            two=two,
            lower=lower_weights(cut.bits, product.block_size),
            has_c=product.c is not None,
            has_inf=has_inf,
            directed=not interpreted(),
        ),
        TILE=TILE,
        num_warps=8 if two else 4,
        num_stages=max(1, min(3, STAGED // (2 * parts * TILE * product.block_size))),
    )
    return result


@triton.jit
def _add_once(c, total, scale, DIRECTED: tl.constexpr):
    """RNE_fp32(c + total x scale), rounded once, a zero of either sign; float64 except c.

    On a GPU: of the sums rounded down and up, the odd one is the sum rounded to odd.
    """
    if DIRECTED:
        return tl.inline_asm_elementwise(
            """{
            .reg .f64 c, down, up;
            .reg .b32 low, high;
            .reg .pred odd;
            cvt.f64.f32 c, $1;
            fma.rm.f64 down, $2, $3, c;
            fma.rp.f64 up, $2, $3, c;
            mov.b64 {low, high}, down;
            and.b32 low, low, 1;
            setp.ne.u32 odd, low, 0;
            selp.f64 up, down, up, odd;
            cvt.rn.f32.f64 $0, up;
            }""",
            "=f,f,d,d",
            [c, total, scale],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    else:
        known = tl.where(is_finite(c), c, 0.0).to(tl.float64)
        addend = total * scale
        finite = addend == addend
        rounded = nearest_even(add_to_odd(known, tl.where(finite, addend, 0.0)))
        return tl.where(finite, tl.where(is_finite(c), rounded, c), float("nan"))


@triton.jit
def _add_two(c, upper, lower, scale):
    """RNE_fp32(c + (upper + lower) x scale), rounded once; float64 except c."""
    known = tl.where(is_finite(c), c, 0.0).to(tl.float64)
    new = nearest_even(sum3_to_odd(upper * scale, lower * scale, known))
    whole = (upper + lower) * scale  # NaN where a digit or a scale is
    return tl.where(whole == whole, tl.where(is_finite(c), new, c), float("nan"))


@triton.jit
def _exact(
    a,
    b,
    a_value,
    b_value,
    a_scales,
    b_scales,
    c_start,
    result,
    m,
    n,
    length,
    a_rows,
    b_rows,
    blocks,
    SUMS: tl.constexpr,
    TILE: tl.constexpr,
):
    BLOCK: tl.constexpr = SUMS.block
    A_DIGITS: tl.constexpr = SUMS.a_digits
    B_DIGITS: tl.constexpr = SUMS.b_digits
    CHUNK: tl.constexpr = SUMS.chunk
    first_row, first_column = tile_origin(m, TILE)
    row = first_row + tl.arange(0, TILE)
    column = first_column + tl.arange(0, TILE)
    inside = (row < m)[:, None] & (column < n)[None, :]
    at = row.to(tl.int64)[:, None] * n + column[None, :]
    c = tl.zeros((TILE, TILE), tl.float32)
    if SUMS.has_c:
        c = tl.load(c_start + at, mask=inside, other=0.0)
        c = tl.where(c == 0, 0.0, c)
    k = tl.arange(0, CHUNK)
    a_at = row.to(tl.int64)[:, None] * length + k[None, :]
    b_at = column.to(tl.int64)[None, :] * length + k[:, None]
    a_digit = a_rows.to(tl.int64) * length
    b_digit = b_rows.to(tl.int64) * length
    for _ in range(blocks):
        total = tl.zeros((TILE, TILE), tl.float64)
        upper = tl.zeros((TILE, TILE), tl.float64)
        special = tl.zeros((TILE, TILE), tl.float32)
        for _ in tl.static_range(0, BLOCK, CHUNK):
            for weight in tl.static_range(A_DIGITS + B_DIGITS - 1):
                sums = tl.zeros((TILE, TILE), tl.float32)
                for i in tl.static_range(A_DIGITS):
                    if i <= weight and weight - i < B_DIGITS:
                        x = tl.load(a + i * a_digit + a_at)
                        y = tl.load(b + (weight - i) * b_digit + b_at)
                        sums = tl.dot(x, y, sums)
                term = sums.to(tl.float64) * (2.0 ** (SUMS.bits * weight))
                if SUMS.two and weight >= SUMS.lower:
                    upper += term
                else:
                    total += term
            if SUMS.has_inf:
                x = tl.load(a_value + a_at)
                y = tl.load(b_value + b_at)
                special = tl.dot(x, y, special)
            a_at += CHUNK
            b_at += CHUNK
        scale = tl.load(a_scales + row)[:, None] * tl.load(b_scales + column)[None, :]
        a_scales += a_rows
        b_scales += b_rows
        if SUMS.two:
            new = _add_two(c, upper, total, scale)
        else:
            new = _add_once(c, total, scale, SUMS.directed)
        if SUMS.has_inf:
            new = tl.where(is_finite(special), new, c + special)
        c = new
    tl.store(result + at, tl.where(c == 0, 0.0, c), mask=inside)  # a zero is +0
