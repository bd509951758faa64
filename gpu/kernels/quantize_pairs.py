"""Dense E2M1 codes of bfloat16 blocks, two elements to an instruction, where a GPU has these.

The bits are those of the kernel in `quantize.py`: rounding to nearest even, and blocks that hold a
NaN or an infinity are poisoned.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import E2M1
from . import device
from .encode import NAN_SCALE, Rules, scale_code
from .launch import Launch

NEEDED = (9, 0)  # the compute capability that has the instructions below
TILE = 4096  # elements of a program
WARPS = 2  # of a program

# Magnitudes y below 8, as all are under their scale, have codes min(rne(2y), rne(y) + 2,
# rne(y / 2) + 4, 7): lines rounded where bfloat16 counts by 1, from 128 on. The bits of 192 + c
# are 0x4340 + c, and the fused addition rounds once.
CODES = tl.constexpr(
    """{
    .reg .b32 y, a, b, two, half, base, first, second, most;
    mov.b32 two, 0x40004000;
    mov.b32 half, 0x3f003f00;
    mov.b32 base, 0x43404340;
    mov.b32 first, 0x43424342;
    mov.b32 second, 0x43444344;
    mov.b32 most, 0x43474347;
    mul.rn.bf16x2 y, $1, $2;
    fma.rn.bf16x2 a, y, two, base;
    add.rn.bf16x2 b, y, first;
    min.u16x2 a, a, b;
    fma.rn.bf16x2 b, y, half, second;
    min.u16x2 a, a, b;
    min.u16x2 $0, a, most;
    }"""
)
# Two words of codes and two of elements, whose top bits are signs, to four codes in the lower half.
FOUR = tl.constexpr(
    """{
    .reg .b32 code, sign;
    prmt.b32 code, $1, $2, 0x6240;
    prmt.b32 sign, $3, $4, 0x7351;
    shr.u32 sign, sign, 4;
    lop3.b32 code, code, sign, 0x07070707, 0xe4;
    shr.u32 sign, code, 12;
    lop3.b32 $0, code, sign, 0x0f0f0f0f, 0xe4;
    }"""
)


def takes(x: Tensor, rules: Rules, packed: bool) -> bool:
    """Whether the kernel takes a contiguous `x`."""
    return (
        packed
        and (rules.format, rules.rounding, rules.nonfinite) == (E2M1, "nearest_even", "poison")
        and rules.block_size >= 8
        and x.dtype == torch.bfloat16
        and x.data_ptr() % 4 == 0  # pairs are loaded as words
        and not device.interpreted()
        and device.capability_of(x.device) >= NEEDED
    )


@cache
def launch(count: int, rules: Rules, where: torch.device) -> Launch:
    """The kernel for `count` blocks; called with x, codes, scales and the count."""
    tile = TILE // rules.block_size
    return Launch(
        _quantize_pairs,
        (triton.cdiv(count, tile),),
        PAIRS=rules.block_size // 2,
        BLOCKS=tile,
        ENCODING=rules.encoding(where),
        num_warps=WARPS,
    )


@triton.jit
def _larger(a, b):
    return tl.inline_asm_elementwise(
        "max.u16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def _quantize_pairs(
    x,
    codes,
    scales,
    count,
    PAIRS: tl.constexpr,
    BLOCKS: tl.constexpr,
    ENCODING: tl.constexpr,
):
    block = tl.program_id(0).to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    inside = (block < count)[:, None]
    words = x.to(tl.pointer_type(tl.int32), bitcast=True)
    at = block[:, None] * PAIRS + tl.arange(0, PAIRS)[None, :]
    pairs = tl.load(words + at, mask=inside, other=0)
    magnitudes = pairs & 0x7FFF7FFF
    both = tl.reduce(magnitudes, 1, _larger, keep_dims=True)
    largest = tl.maximum(both >> 16, both & 0xFFFF)
    poisoned = largest >= 0x7F80
    # The scale of a poisoned block is not seen, but its bits must not overflow.
    amax = tl.where(poisoned, 0, largest) if ENCODING.scale_rule else largest
    scale = scale_code(amax << 16, ENCODING)
    factor = (NAN_SCALE - 1 - scale) << 7  # 1 / scale as bfloat16: a normal number, for EMAX is 2
    factor |= factor << 16
    codes_of_pairs = tl.inline_asm_elementwise(
        CODES, "=r,r,r", [magnitudes, factor], dtype=tl.int32, is_pure=True, pack=1
    )
    even, odd = tl.split(codes_of_pairs.reshape((BLOCKS, PAIRS // 4, 2, 2)))
    left, right = tl.split(pairs.reshape((BLOCKS, PAIRS // 4, 2, 2)))
    four = tl.inline_asm_elementwise(
        FOUR, "=r,r,r,r,r", [even, odd, left, right], dtype=tl.int32, is_pure=True, pack=1
    )
    low, high = tl.split(four)
    dense = tl.where(poisoned, 0, (low & 0xFFFF) | (high << 16))
    to = codes.to(tl.pointer_type(tl.int32), bitcast=True)
    place = block[:, None] * (PAIRS // 4) + tl.arange(0, PAIRS // 4)[None, :]
    tl.store(to + place, dense, mask=inside)
    tl.store(
        scales + block[:, None], tl.where(poisoned, NAN_SCALE, scale).to(tl.uint8), mask=inside
    )
