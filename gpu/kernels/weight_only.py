"""Few rows by packed 4-bit weights: the executor ``triton`` of `weight_only_matmul`.

Reading the weight is the work, so everything else has to stay out of its way: elements go from
memory to the tensor core's left operand without leaving the thread that read them, two to an
instruction, and the work is cut into equal runs of groups, one for each program that fits the GPU,
whatever the shape. A second kernel adds up tiles that several programs share.
"""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..schemes.weight_only import BIAS, BITS, CHUNK, TILE
from . import device
from .overlap import overlaps, ready

if TYPE_CHECKING:
    from ..schemes.weight_only import WeightOnlyRequest

WARPS = 4
# By the most rows of x: programs that run on one multiprocessor, steps that loads are ahead.
SHAPES = {16: (4, 3), 32: (3, 3), 64: (2, 4)}
INTERPRETED_PROGRAMS = 5
CAPABILITY = (9, 0)  # whose tensor core takes its left operand as the weights are packed
MOST_STEPS = 2**19  # times the number of programs is an int32
SUMS = 128  # of a program of the second kernel

ROWS, COLUMNS = tl.constexpr(TILE), tl.constexpr(CHUNK)
ELEMENTS, OFFSET = tl.constexpr(32 // BITS), tl.constexpr(BIAS)


def _conversion(one: int, biased: int, add: str) -> str:
    """PTX: two words to 8 registers of two floats each, q = (one | element) + biased.

    `one` is the float whose last fraction bit counts 1, to which an element is or-ed.
    """
    lines = [
        ".reg .b32 t, one, biased;",
        f"mov.b32 one, {one:#x};",
        f"mov.b32 biased, {biased:#x};",
    ]
    for register in range(8):
        word, shift = f"${8 + register // 4}", register % 4 * BITS
        if shift:
            lines.append(f"shr.u32 t, {word}, {shift};")
            word = "t"
        lines.append(f"lop3.b32 ${register}, {word}, 0x000f000f, one, 0xea;")  # (word & mask) | one
    lines += [f"{add} ${register}, ${register}, biased;" for register in range(8)]
    return "{" + "\n".join(lines) + "}"


# 128 and -136 in bfloat16, 1024 and -1032 in float16.
CONVERSIONS = {
    torch.bfloat16: _conversion(0x43004300, 0xC308C308, "add.rn.bf16x2"),
    torch.float16: _conversion(0x64006400, 0xE408E408, "add.rn.f16x2"),
}


def refusal(request: "WeightOnlyRequest") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    reason = device.refusal(request.device)
    if reason is not None:
        return reason
    if not device.interpreted():
        capability = device.capability_of(request.device)
        if capability != CAPABILITY:
            needed, own = (f"{major}.{minor}" for major, minor in (CAPABILITY, capability))
            return f"it needs compute capability {needed}, not {own}"
    most, rows = max(SHAPES), len(request.x)
    if rows > most:
        return f"x must have at most {most} rows, not {rows}"
    if request.weights.scales.numel() > MOST_STEPS * TILE:
        most, there = MOST_STEPS * TILE, request.weights.scales.numel()
        return f"the weight must have at most {most} groups, not {there}"
    return None


def run(request: "WeightOnlyRequest") -> Tensor:
    """The product (M, N)."""
    x, weights = request.x, request.weights
    m, n = len(x), weights.shape[0]
    tiles, groups, _ = weights.scales.shape
    rows = next(rows for rows in SHAPES if m <= rows)
    per_processor, stages = SHAPES[rows]
    programs = INTERPRETED_PROGRAMS
    if not device.interpreted():
        properties = torch.cuda.get_device_properties(request.device)
        programs = properties.multi_processor_count * per_processor
    programs = min(programs, tiles * groups)
    out = torch.empty((m, n), dtype=x.dtype, device=x.device)
    # A program shares its first and its last tile.
    shared = torch.empty((programs, 2, rows, TILE), dtype=torch.float32, device=x.device)
    sizes = m, n, groups, tiles * groups
    early = overlaps(request.device)
    _multiply[(programs,)](
        x,
        weights.words,
        weights.scales,
        out,
        shared,
        *sizes,
        M=rows,
        CHUNKS=weights.group // CHUNK,
        STAGES=stages,
        WARPS=WARPS,
        CONVERT=None if device.interpreted() else CONVERSIONS[x.dtype],
        EARLY=early,
        num_warps=WARPS,
        launch_pdl=early,
    )
    options = {"EARLY": early, "num_warps": 1, "launch_pdl": early}
    _add_up[tiles, m * TILE // SUMS](shared, out, *sizes, programs, M=rows, SIZE=SUMS, **options)
    return out


@triton.jit
def _first_step(program, steps, programs):
    """First step of a program. A step is a group of a tile; programs have as many, or one less."""
    return program * steps // programs


@triton.jit
def _program_of(step, steps, programs):
    """The program that has a step."""
    return ((step + 1) * programs - 1) // steps


@triton.jit
def _elements(words, TYPE: tl.constexpr, CONVERT: tl.constexpr):
    """Eight tensors of the shape of `words`, the elements of each pair of words (w, v).

    Tensor i holds elements i and i + 4 of w, tensor i + 4 those of v: a register of a thread has
    two 16-bit floats, which come from the halves of one word.
    """
    if CONVERT is not None:
        return tl.inline_asm_elementwise(
            CONVERT,
            "=&r,=&r,=&r,=&r,=&r,=&r,=&r,=&r,r,r",
            [words],
            dtype=(TYPE.value,) * 8,
            is_pure=True,
            pack=2,
        )
    pairs = tl.reshape(words, (words.numel // 2, 2))
    w, v = tl.split(pairs)
    return (
        _halves(w, 0, words.shape, TYPE),
        _halves(w, 1, words.shape, TYPE),
        _halves(w, 2, words.shape, TYPE),
        _halves(w, 3, words.shape, TYPE),
        _halves(v, 0, words.shape, TYPE),
        _halves(v, 1, words.shape, TYPE),
        _halves(v, 2, words.shape, TYPE),
        _halves(v, 3, words.shape, TYPE),
    )


@triton.jit
def _halves(word, i: tl.constexpr, SHAPE: tl.constexpr, TYPE: tl.constexpr):
    """Elements i and i + 4 of each word, side by side."""
    low, high = (word >> 4 * i) & 15, (word >> 4 * i + 16) & 15
    return (tl.reshape(tl.join(low, high), SHAPE) - OFFSET).to(TYPE)


@triton.jit
def _weights(words, TYPE: tl.constexpr, WARPS: tl.constexpr, CONVERT: tl.constexpr):
    """The elements (ROWS, COLUMNS) of the words (ROWS / 16 / WARPS, WARPS * 128) of a chunk.

    Axes are those of `mxdot.gpu.schemes.weight_only.AXES`. In registers nothing moves.
    """
    t0, t1, t2, t3, t4, t5, t6, t7 = _elements(words, TYPE, CONVERT)
    # Axes after those of the words: 32 columns, 16 columns, half.
    even = tl.join(tl.join(t0, t4), tl.join(t2, t6))
    odd = tl.join(tl.join(t1, t5), tl.join(t3, t7))
    # part, warp, row, pair, 8 columns, one of the pair (words come in pairs), ...
    parts = tl.reshape(tl.join(even, odd), (ROWS // 16 // WARPS, WARPS, 8, 4, 2, 2, 2, 2, 2))
    return tl.reshape(tl.permute(parts, (0, 1, 8, 2, 6, 7, 4, 3, 5)), (ROWS, COLUMNS))


@triton.jit
def _multiply(
    x,
    words,
    scales,
    out,
    shared,
    m,
    n,
    groups,
    steps,
    M: tl.constexpr,
    CHUNKS: tl.constexpr,
    STAGES: tl.constexpr,
    WARPS: tl.constexpr,
    CONVERT: tl.constexpr,
    EARLY: tl.constexpr,
):
    ready(EARLY)
    program, programs = tl.program_id(0), tl.num_programs(0)
    start = _first_step(program, steps, programs)
    stop = _first_step(program + 1, steps, programs)
    SIZE: tl.constexpr = ROWS * COLUMNS // ELEMENTS  # words of a chunk
    WIDTH: tl.constexpr = WARPS * 128
    part = tl.arange(0, SIZE // WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    row, column = tl.arange(0, M), tl.arange(0, COLUMNS)
    length = groups * CHUNKS * COLUMNS
    there = row[None, :] < m
    of_x = x + row[None, :] * length + column[:, None]
    of_words = words + start.to(tl.int64) * (CHUNKS * SIZE) + part
    weight = tl.arange(0, ROWS)
    of_scales = scales + start.to(tl.int64) * ROWS + weight
    scale = tl.load(of_scales)
    tile = start // groups
    group = start - tile * groups
    total = tl.zeros((ROWS, M), tl.float32)
    for step in tl.range(start, stop, num_stages=STAGES):
        sums = tl.zeros((ROWS, M), tl.float32)
        for chunk in tl.static_range(CHUNKS):
            packed = tl.load(of_words)
            of_words += SIZE
            values = tl.load(of_x + (group * CHUNKS + chunk) * COLUMNS, mask=there, other=0)
            sums = tl.dot(_weights(packed, x.dtype.element_ty, WARPS, CONVERT), values, sums)
        # Loaded a step ahead, for it is too short to be copied asynchronously.
        of_scales += tl.where(step + 1 < stop, ROWS, 0)
        later = tl.load(of_scales)
        total += sums * scale.to(tl.float32)[:, None]
        scale = later
        group += 1
        if (group == groups) | (step == stop - 1):
            at = tile * ROWS + weight
            if (group == groups) & (step + 1 - groups >= start):
                inside = there & (at < n)[:, None]
                result = total.to(out.dtype.element_ty)
                tl.store(out + row[None, :].to(tl.int64) * n + at[:, None], result, mask=inside)
            else:
                place = program * 2 + (start < tile * groups)
                sums_of = shared + place * (M * ROWS)
                tl.store(sums_of + row[None, :] * ROWS + weight[:, None], total, mask=there)
            total = tl.zeros((ROWS, M), tl.float32)
            tile += 1
            group = 0


# One group is no constant: the compiler cannot do without the branch that it would leave out.
@triton.jit(do_not_specialize=["groups"])
def _add_up(
    shared,
    out,
    m,
    n,
    groups,
    steps,
    programs,
    M: tl.constexpr,
    SIZE: tl.constexpr,
    EARLY: tl.constexpr,
):
    ready(EARLY)
    tile = tl.program_id(0)
    begin = tile * groups
    first = _program_of(begin, steps, programs)
    last = _program_of(begin + groups - 1, steps, programs)
    if first < last:
        i = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
        total = tl.zeros((SIZE,), tl.float32)
        for program in tl.range(first, last + 1, loop_unroll_factor=8):
            place = program * 2 + (_first_step(program, steps, programs) < begin)
            total += tl.load(shared + place * (M * ROWS) + i)
        row, at = i // ROWS, tile * ROWS + i % ROWS
        result = total.to(out.dtype.element_ty)
        tl.store(out + row.to(tl.int64) * n + at, result, mask=(row < m) & (at < n))
