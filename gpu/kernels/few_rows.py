"""Products of up to 16 rows and a quantised weight: the executor ``triton`` of `few_rows_matmul`.

Reading the codes is the work: programs share out tiles of rows and parts of K, so that each
multiprocessor has loads in flight, and a second kernel adds up the parts. A program is one warp
with a small tile: warps of one program would wait for one another. With one row 4-bit codes are
read four at a time; each of the four makes a matrix, which every fourth column of x multiplies, so
that nothing is put side by side. With several rows nothing moves from one thread to another: a
thread reads 32 columns of a row, and the same of a row of x. The tensor core takes 4 of each 16
columns from a thread, but a sum does not depend on the order of its columns.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import (
    E2M1,
    E4M3,
    E5M2,
    E8M0,
    ElementFormat,
    FloatFormat,
    IntegerFormat,
    ScaleFormat,
)
from ..names import named_format, named_scheme
from ..ops.few_rows import FLOATS, MOST_ROWS
from ..tensors.mx import MXTensor
from ..tensors.packed import described
from . import device
from .decode import Codes, codes_refusal, decode, scale_value
from .overlap import overlaps, ready

if TYPE_CHECKING:
    from ..ops.few_rows import FewRows, Weights

LEAST_GROUP = 16  # elements of a row that share a scale
PROGRAMS = 8  # on a multiprocessor
INTERPRETED_PROGRAMS = 5
BFLOAT16_PRODUCTS = (9, 0)  # the compute capability that multiplies two bfloat16 at once
SUMS = 256  # of a program of the second kernel
WORDS = {1: torch.int32, 2: torch.int64}  # four columns of x, by bytes of one
FP8 = {torch.float8_e4m3fn: E4M3, torch.float8_e5m2: E5M2}


def _e2m1_conversion() -> str:
    """PTX: two halves of four E2M1 codes, and two bfloat16 scales, to 4 registers of two bfloat16.

    A code's magnitude, put where bfloat16 has the lowest bits of the exponent and the first of the
    fraction, is 2^-126 times the value.
    """
    lines = [".reg .b32 t, sign, unit;", "mov.b32 unit, 0x7e807e80;"]  # 2^126
    for register in range(4):
        word, shift = "$4", 12 - 4 * register
        if shift:
            lines.append(f"shl.b32 t, $4, {shift};")
            word = "t"
        lines += [
            f"and.b32 sign, {word}, 0x80008000;",
            f"shr.b32 t, {word}, 6;",
            f"lop3.b32 ${register}, t, 0x01c001c0, sign, 0xea;",  # (t & mask) | sign
            f"mul.rn.bf16x2 ${register}, ${register}, unit;",
            f"mul.rn.bf16x2 ${register}, ${register}, $5;",
        ]
    return "{" + "\n".join(lines) + "}"


E2M1_CONVERSION = _e2m1_conversion()


class Tile(NamedTuple):
    """Rows and columns of a weight that a program has at once, its warps and steps of loads."""

    rows: int
    columns: int
    warps: int
    stages: int


# For one row, by the bits of a code; for more rows, by whether groups are shorter than NARROW, or
# of 4-bit codes.
VECTOR = {8: Tile(4, 512, 1, 4), 4: Tile(4, 1024, 1, 3)}
MATRIX = {False: Tile(16, 256, 1, 3), True: Tile(16, 128, 1, 4)}
NARROW = 32
PACKED, PACKED_PROGRAMS = Tile(32, 128, 1, 1), 12
SMALL_VECTOR, SMALL_MATRIX = Tile(16, 64, 1, 1), Tile(16, 32, 1, 1)  # for the interpreter


# PTX: eight columns of x in four registers to pairs four columns apart.
PAIRS = """{
prmt.b32 $0, $4, $6, 0x5410; prmt.b32 $1, $4, $6, 0x7632;
prmt.b32 $2, $5, $7, 0x5410; prmt.b32 $3, $5, $7, 0x7632;
}"""


class Scale(NamedTuple):
    """Compile-time parameters of a level of scales, one constexpr.

    form: ``float``, ``power`` (E8M0) or ``codes``. whole: whether rows have one scale. width:
    elements of a row that share one. height: rows that do.
    """

    form: str
    whole: bool
    width: int
    height: int


class Layout(NamedTuple):
    """Codes of a weight as the kernel reads them: (N, bytes of a row) and scales per level."""

    element: ElementFormat
    bits: int
    codes: Tensor
    levels: Sequence[tuple[ElementFormat | ScaleFormat, Tensor, int, int]]


def layout(weights: "Weights") -> Layout:
    """Element, bits that a code takes, codes, and format, scales, rows, columns of each level."""
    parts = weights.named_parts()
    _, kind, name, sizes, packed = described(weights)
    if kind == MXTensor.__name__:
        element = named_format(name)
        levels = [(E8M0, parts["scales"], 1, sizes[0])]
    else:
        scheme = named_scheme(name)
        element = scheme.elements[0]
        groups = [level.granularity.group(tuple(weights.shape)) for level in scheme.levels]
        levels = [
            (level.format, parts[f"scales_{i}"], *groups[i])
            for i, level in enumerate(scheme.levels)
        ]
    codes = parts["packed" if packed else "codes"]
    return Layout(element, element.bits if packed else 8, codes, levels)


def refusal(request: "FewRows") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    reason = device.refusal(request.device)
    if reason is not None:
        return reason
    if len(request.x) > MOST_ROWS:
        return f"x must have at most {MOST_ROWS} rows, not {len(request.x)}"
    weights, x = request.weights, request.x
    if x.dtype not in FLOATS and not (x.dtype in FP8 and _has_fp8(x.device)):
        return f"x must be bfloat16 or float16 on this device, not {x.dtype}"
    _, kind, name, sizes, _ = described(weights)
    if kind != MXTensor.__name__:
        scheme = named_scheme(name)
        if len(scheme.elements) > 1 or scheme.zero_point:
            return f"elements must be of one format, without zero points, not those of {scheme}"
    made = layout(weights)
    reason = codes_refusal(made.element)
    if reason is not None:
        return reason
    if isinstance(made.element, IntegerFormat) and made.element.sign_magnitude:
        return f"elements must not be sign-magnitude integers, not {made.element}"
    if made.bits not in (4, 8):
        return f"packed codes must have 4 bits, not {made.bits}"
    if (sizes[1] if kind == MXTensor.__name__ else sizes[0]) not in (-1, 1):
        return "groups must run along K"
    length = weights.shape[1]
    if made.bits == 4 and length % 4:
        return f"K of packed codes must be a multiple of 4, not {length}"
    for fmt, scales, _, width in made.levels:
        if width != length and (width < LEAST_GROUP or width & (width - 1)):
            return f"groups must be a power of two of {LEAST_GROUP} elements or more, not {width}"
        if not (fmt == E8M0 or scales.dtype.is_floating_point or isinstance(fmt, FloatFormat)):
            return f"scales must be floats or powers of two, not {fmt}"
    if len(made.levels) > 1 and not made.levels[0][1].dtype.is_floating_point:
        return "the outer scales must be floats"
    if len(made.levels) > 2 or (len(made.levels) == 2 and made.levels[0][3] != length):
        return "scales of groups must be of the innermost level alone"
    return None


def _has_fp8(where: torch.device) -> bool:
    """Whether the device reads FP8 numbers."""
    return device.interpreted() or device.has_fp8_conversion(where)


def _codes_of(x: Tensor) -> Codes | None:
    """How FP8 codes `x` are read; None of other types."""
    return Codes.of(FP8[x.dtype], x.device) if x.dtype in FP8 else None


def _converts(made: Layout, inner: Scale, x: Tensor) -> bool:
    """Whether E2M1 codes and scales, exact in bfloat16, are multiplied there."""
    if made.element != E2M1 or x.dtype == torch.float16 or device.interpreted():
        return False
    short = inner.whole or inner.form != "float"
    return short and device.capability_of(x.device) >= BFLOAT16_PRODUCTS


def _multiplied_type(made: Layout, inner: Scale, x: Tensor) -> tl.dtype:
    """The type of products of two rows or more. float16 has FP8 codes and takes fewer steps."""
    is_codes = x.dtype.itemsize == 1 and made.element in (E4M3, E5M2) and inner.whole
    return tl.float16 if x.dtype == torch.float16 or is_codes else tl.bfloat16


def _scale(
    fmt: ElementFormat | ScaleFormat, scales: Tensor, height: int, width: int, length: int
) -> Scale:
    whole = width == length
    if fmt == E8M0:
        return Scale("power", whole, width, height)
    if scales.dtype.is_floating_point:
        return Scale("float", whole, width, height)
    return Scale("codes", whole, width, height)


def run(request: "FewRows") -> Tensor:
    """The product (M, N)."""
    x, made = request.x, layout(request.weights)
    n, length = request.weights.shape
    m = len(x)
    vector, small = m == 1, device.interpreted()
    packed = made.bits == 4 and not vector
    if packed:
        tile = PACKED
    elif small:
        tile = SMALL_VECTOR if vector else SMALL_MATRIX
    else:
        tile = VECTOR[made.bits] if vector else MATRIX[made.levels[-1][3] < NARROW]
    programs = INTERPRETED_PROGRAMS
    if not small:
        properties = torch.cuda.get_device_properties(request.device)
        programs = properties.multi_processor_count * (PACKED_PROGRAMS if packed else PROGRAMS)
    if not n:
        return torch.empty((m, n), dtype=request.out_dtype, device=x.device)
    tiles, steps = triton.cdiv(n, tile.rows), triton.cdiv(length, tile.columns)
    parts = max(1, min(steps, programs // tiles))
    out = torch.empty((m, n), dtype=request.out_dtype, device=x.device)
    sums = out if parts == 1 else torch.empty((parts, m, n), dtype=torch.float32, device=x.device)
    levels = [(_scale(*level, length), level[1]) for level in made.levels]
    inner = levels[-1]
    outer = levels[0] if len(levels) == 2 else (None, inner[1])
    early = overlaps(x.device)
    tensors = outer[1], inner[1], request.scales, sums, m, n, length
    constants = {
        "OUTER": outer[0],
        "INNER": inner[0],
        "SCALE": Codes.of(made.levels[-1][0], x.device) if inner[0].form == "codes" else None,
        "FORMAT": Codes.of(made.element, x.device),
        "CONVERT": E2M1_CONVERSION if made.bits == 4 and _converts(made, inner[0], x) else None,
        "PER_ROW": request.scales is not None and request.scales.numel() > 1,
        "TYPE": _multiplied_type(made, inner[0], x),
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "EARLY": early,
        "launch_pdl": early,
    }
    codes = made.codes if made.bits == 8 else made.codes.view(torch.uint16)
    if packed:
        pairs = x.itemsize == 2 and not small
        _multiply_packed[(tiles, parts)](
            _aligned(x, 16).view(torch.int32) if pairs else x,
            codes,
            *tensors,
            **constants,
            PAIRS=PAIRS if pairs else None,
            M=8 if m <= 8 else MOST_ROWS,
            WHOLE_STEPS=length % tile.columns == 0,
            num_warps=tile.warps,
        )
    else:
        words = x if made.bits == 8 else _aligned(x.flatten(), 4 * x.itemsize)
        _multiply[(tiles, parts)](
            words if made.bits == 8 else words.view(WORDS[x.itemsize]),
            codes,
            *tensors,
            **constants,
            EACH=1 if made.bits == 8 else 4,
            X=_codes_of(x),
            M=MOST_ROWS,
            VECTOR=vector,
            STAGES=tile.stages,
            num_warps=tile.warps,
        )
    if parts > 1:
        _add_up[(triton.cdiv(m * n, SUMS),)](
            sums, out, m * n, parts, SIZE=SUMS, EARLY=early, num_warps=2, launch_pdl=early
        )
    return out


def _aligned(x: Tensor, size: int) -> Tensor:
    """`x` at an address that is a multiple of `size`."""
    return x.clone() if x.data_ptr() % size else x


@triton.jit
def _scale_at(stored, LEVEL: tl.constexpr, CODES: tl.constexpr):
    """float32 values of stored scales of a level."""
    if LEVEL.form == "power":
        return scale_value(stored)
    elif LEVEL.form == "codes":
        return decode(stored, CODES)
    else:
        return stored.to(tl.float32)


@triton.jit
def _load_scales(
    scales,
    row,
    there,
    k,
    length,
    INNER: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Stored scales of a tile from column k on, (ROWS, groups)."""
    PARTS: tl.constexpr = max(1, COLUMNS // INNER.width)
    across = length // INNER.width
    group = k // INNER.width + tl.arange(0, PARTS)[None, :]
    at = (row // INNER.height).to(tl.int64)[:, None] * across + group
    return tl.load(scales + at, mask=there[:, None] & (group < across), other=0)


@triton.jit
def _over_columns(
    stored,
    INNER: tl.constexpr,
    SCALE: tl.constexpr,
    COLUMNS: tl.constexpr,
    EACH: tl.constexpr,
):
    """float32 scales (ROWS, COLUMNS / EACH), one for every EACH-th column."""
    ROWS: tl.constexpr = stored.shape[0]
    PARTS: tl.constexpr = stored.shape[1]
    SHARE: tl.constexpr = COLUMNS // PARTS // EACH
    scale = _scale_at(stored, INNER, SCALE)[:, :, None]
    return tl.reshape(tl.broadcast_to(scale, (ROWS, PARTS, SHARE)), (ROWS, PARTS * SHARE))


@triton.jit
def _values(
    codes,
    scale,
    FORMAT: tl.constexpr,
    WHOLE: tl.constexpr,
    EACH: tl.constexpr,
    CONVERT: tl.constexpr,
    TYPE: tl.constexpr,
):
    """Values of the first, second, ... of EACH codes, times `scale` unless WHOLE."""
    if CONVERT is not None:
        return tl.inline_asm_elementwise(
            CONVERT,
            "=&r,=&r,=&r,=&r,r,r",
            [codes, scale.to(tl.bfloat16)],
            dtype=(tl.bfloat16,) * 4,
            is_pure=True,
            pack=2,
        )
    elif EACH == 1 and WHOLE and FORMAT.converts and tl.float16 == TYPE:
        eight: tl.constexpr = tl.float8e5 if FORMAT.has_inf else tl.float8e4nv
        return (codes.to(eight, bitcast=True).to(TYPE),)
    elif EACH == 1:
        return (_value(codes, scale, FORMAT, WHOLE),)
    else:
        return (
            _value(codes & 15, scale, FORMAT, WHOLE),
            _value((codes >> 4) & 15, scale, FORMAT, WHOLE),
            _value((codes >> 8) & 15, scale, FORMAT, WHOLE),
            _value((codes >> 12) & 15, scale, FORMAT, WHOLE),
        )


@triton.jit
def _value(code, scale, FORMAT: tl.constexpr, WHOLE: tl.constexpr):
    value = decode(code, FORMAT)
    if not WHOLE:
        value *= scale
    return value


@triton.jit
def _column(words, i: tl.constexpr, X: tl.constexpr, EACH: tl.constexpr, TYPE: tl.constexpr):
    """Column i of the EACH columns of x that a word holds side by side."""
    if EACH == 1 and (X is None or tl.float16 == TYPE):
        return words
    elif EACH == 1:  # by float32: a compiler's FP8 to bfloat16 may lose infinities
        return words.to(tl.float32)
    elif X is None:
        return (words >> (i * 16)).to(tl.int16).to(TYPE, bitcast=True)
    else:
        return decode(((words >> (i * 8)) & 255).to(tl.uint8), X)


@triton.jit
def _multiply(
    x,
    codes,
    outer,
    inner,
    of_x,
    sums,
    m,
    n,
    length,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    SCALE: tl.constexpr,
    FORMAT: tl.constexpr,
    EACH: tl.constexpr,
    CONVERT: tl.constexpr,
    PER_ROW: tl.constexpr,
    X: tl.constexpr,
    TYPE: tl.constexpr,
    M: tl.constexpr,
    VECTOR: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    EARLY: tl.constexpr,
    STAGES: tl.constexpr,
):
    ready(EARLY)
    PARTS: tl.constexpr = COLUMNS // EACH
    ZERO: tl.constexpr = 0.0 if EACH == 1 else 0  # of x
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = row < n
    across = length // EACH
    j = tl.arange(0, PARTS)
    of_row = codes + row.to(tl.int64)[:, None] * across + j[None, :]
    line = tl.arange(0, M)
    if VECTOR:
        total = tl.zeros((ROWS, PARTS), tl.float32)
    else:
        total = tl.zeros((ROWS, M), tl.float32)
    part, parts, steps = tl.program_id(1), tl.num_programs(1), tl.cdiv(length, COLUMNS)
    start, stop = part * steps // parts, (part + 1) * steps // parts
    stored = inner
    if not INNER.whole:
        stored = _load_scales(inner, row, there, start * COLUMNS, length, INNER, COLUMNS)
    for step in tl.range(start, stop, num_stages=STAGES):
        at = step * PARTS + j
        inside = at < across
        code = tl.load(of_row + step * PARTS, mask=there[:, None] & inside[None, :], other=0)
        if INNER.whole:
            scale = tl.full((ROWS, PARTS), 1.0, tl.float32)
        else:
            # Loaded a step ahead, for they are too short to be copied asynchronously.
            later = _load_scales(inner, row, there, (step + 1) * COLUMNS, length, INNER, COLUMNS)
            scale = _over_columns(stored, INNER, SCALE, COLUMNS, EACH)
            stored = later
        values = _values(code, scale, FORMAT, INNER.whole, EACH, CONVERT, TYPE)
        if VECTOR:
            words = tl.load(x + at, mask=inside, other=ZERO)
        else:
            words = tl.load(
                x + (line[None, :] * across + at[:, None]),
                mask=inside[:, None] & (line < m)[None, :],
                other=ZERO,
            )
        for i in tl.static_range(EACH):
            other = _column(words, i, X, EACH, TYPE)
            if VECTOR:
                total += values[i].to(tl.float32) * other.to(tl.float32)[None, :]
            else:
                total = tl.dot(values[i].to(TYPE), other.to(TYPE), total)
    if VECTOR:
        result = tl.sum(total, axis=1)[:, None] + tl.zeros((ROWS, M), tl.float32)
    else:
        result = total
    _store(result, row, line, m, n, outer, inner, of_x, sums, OUTER, INNER, SCALE, PER_ROW)


@triton.jit
def _store(
    result,
    row,
    line,
    m,
    n,
    outer,
    inner,
    of_x,
    sums,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    SCALE: tl.constexpr,
    PER_ROW: tl.constexpr,
):
    """Write the sums (rows, lines) of a part of K, times the scales of whole rows."""
    there = row < n
    if INNER.whole:
        whole = tl.load(inner + row // INNER.height, mask=there, other=0)
        result *= _scale_at(whole, INNER, SCALE)[:, None]
    if OUTER is not None:
        whole = tl.load(outer + row // OUTER.height, mask=there, other=0)
        result *= _scale_at(whole, OUTER, None)[:, None]
    if of_x is not None:
        scale = tl.load(of_x + line * PER_ROW, mask=line < m, other=1.0)
        result *= scale[None, :]
    at = (tl.program_id(1) * m + line)[None, :].to(tl.int64) * n + row[:, None]
    written = there[:, None] & (line < m)[None, :]
    tl.store(sums + at, result.to(sums.dtype.element_ty), mask=written)


# Packed codes and several rows --------------------------------------------------------------------


@triton.jit
def _thread_scales(scales, row, step, length, INNER: tl.constexpr, COLUMNS: tl.constexpr):
    """Stored scales of a step, (threads, rows of a thread, scales of its columns).

    row: (threads, rows of a thread). Threads come first, for the compiler to load a thread's own.
    """
    LANE: tl.constexpr = COLUMNS // 4
    GROUPS: tl.constexpr = max(1, LANE // INNER.width)
    across = length // INNER.width
    first = (step * COLUMNS + tl.arange(0, 32) % 4 * LANE) // INNER.width
    group = first[:, None, None] + tl.arange(0, GROUPS)[None, None, :]
    at = (row // INNER.height).to(tl.int64)[:, :, None] * across + group
    return tl.load(scales + at, mask=group < across, other=0)


@triton.jit
def _over_words(scale, WORDS: tl.constexpr):
    """Scales (threads, rows, groups) of the words (rows, threads * WORDS)."""
    THREADS: tl.constexpr = scale.shape[0]
    R: tl.constexpr = scale.shape[1]
    GROUPS: tl.constexpr = scale.shape[2]
    of_row = tl.permute(scale, (1, 0, 2))[:, :, :, None]
    wide = tl.broadcast_to(of_row, (R, THREADS, GROUPS, WORDS // GROUPS))
    return tl.reshape(wide, (R, THREADS * WORDS))


@triton.jit
def _columns(x, M: tl.constexpr, COLUMNS: tl.constexpr, PAIRS: tl.constexpr, TYPE: tl.constexpr):
    """The columns (COLUMNS, M) of x (M / 8, parts of a thread, (row, thread, part)).

    They are in the order (part of a thread's columns; bit 1 of the place in it; thread; bits 0, 2):
    four lie together in a thread, as where the compiler multiplies what were 8-bit codes.
    """
    PARTS: tl.constexpr = COLUMNS // 32
    if PAIRS is None:  # the last axes: row, thread, bits 2, 1, 0
        # By float32: a compiler's FP8 to bfloat16 may lose infinities.
        bits = tl.reshape(x.to(tl.float32).to(TYPE), (M // 8, PARTS, 8, 4, 2, 2, 2))
        return tl.reshape(tl.permute(bits, (1, 5, 3, 6, 4, 0, 2)), (COLUMNS, M))
    else:
        low, high = tl.inline_asm_elementwise(
            PAIRS, "=r,=r,=r,=r,r,r,r,r", [x], dtype=(TYPE.value,) * 2, is_pure=True, pack=4
        )
        # The last axes: row, thread, bits 0, 2; bit 1.
        bits = tl.reshape(tl.join(low, high), (M // 8, PARTS, 8, 4, 2, 2, 2))
        return tl.reshape(tl.permute(bits, (1, 6, 3, 4, 5, 0, 2)), (COLUMNS, M))


@triton.jit
def _multiply_packed(
    x,
    words,
    outer,
    inner,
    of_x,
    sums,
    m,
    n,
    length,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    SCALE: tl.constexpr,
    FORMAT: tl.constexpr,
    CONVERT: tl.constexpr,
    PER_ROW: tl.constexpr,
    TYPE: tl.constexpr,
    PAIRS: tl.constexpr,
    M: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    EARLY: tl.constexpr,
    WHOLE_STEPS: tl.constexpr,
):
    ready(EARLY)
    EACH: tl.constexpr = COLUMNS // 4  # words of a row, of four codes each, and columns of a thread
    WORDS: tl.constexpr = EACH // 4  # of a row that a thread reads
    R: tl.constexpr = ROWS // 8  # rows of a thread
    # Words of codes: (rows of a thread, (row of 8, thread, word)).
    i, part = tl.arange(0, 8 * EACH)[None, :], tl.arange(0, R)
    row_of_word, column = part[:, None] * 8 + i // EACH, i % EACH
    # Values of x, two to a word or one: (rows of a thread, part, (row of 8, thread, column)).
    WIDE: tl.constexpr = 1 if PAIRS is None else 2
    PART: tl.constexpr = 8 // WIDE
    ZERO: tl.constexpr = 0.0 if PAIRS is None else 0
    j = tl.arange(0, 32 * PART)[None, None, :]
    line_of_value = tl.arange(0, M // 8)[:, None, None] * 8 + j // (4 * PART)
    place = tl.arange(0, EACH // 8)[None, :, None]
    column_of_value = (j // PART % 4 * EACH + place * 8) // WIDE + j % PART
    begin, steps = tl.program_id(0) * ROWS, tl.cdiv(length, COLUMNS)
    across = length // 4
    if WHOLE_STEPS:
        across = steps * EACH
    start = tl.program_id(1) * steps // tl.num_programs(1)
    stop = (tl.program_id(1) + 1) * steps // tl.num_programs(1)
    of_words = words + begin.to(tl.int64) * across
    at_word = row_of_word * across + column
    at_value = line_of_value * (length // WIDE) + column_of_value
    read, used = begin + row_of_word < n, line_of_value < m
    row_of_thread = begin + part[None, :] * 8 + tl.arange(0, 32)[:, None] // 4
    row_of_thread = tl.minimum(row_of_thread, n - 1)
    total = tl.zeros((ROWS, M), tl.float32)
    stored = inner
    if not INNER.whole:
        stored = _thread_scales(inner, row_of_thread, start, length, INNER, COLUMNS)
    first = start * EACH
    code = tl.load(of_words + first + at_word, mask=read & (first + column < across), other=0)
    for step in tl.range(start, stop, num_stages=1):
        # Codes and scales are loaded a step ahead, into registers.
        first = (step + 1) * EACH
        later = tl.load(of_words + first + at_word, mask=read & (first + column < across), other=0)
        inside = used
        if not WHOLE_STEPS:
            inside = used & (step * (COLUMNS // WIDE) + column_of_value < length // WIDE)
        values = tl.load(x + step * (COLUMNS // WIDE) + at_value, mask=inside, other=ZERO)
        if INNER.whole:
            scale = tl.full((R, 8 * EACH), 1.0, tl.float32)
        else:
            scale = _over_words(_scale_at(stored, INNER, SCALE), WORDS)
            stored = _thread_scales(inner, row_of_thread, step + 1, length, INNER, COLUMNS)
        v = _values(code, scale, FORMAT, INNER.whole, 4, CONVERT, TYPE)
        made = tl.join(tl.join(v[0], v[2]), tl.join(v[1], v[3])).to(TYPE)  # pyright: ignore[reportGeneralTypeIssues]
        # Axes: 8 rows; row; thread, eight codes, bit 2; bits 1, 0.
        made = tl.reshape(made, (R, 8, 4, WORDS // 2, 2, 2, 2))
        made = tl.reshape(tl.permute(made, (0, 1, 3, 5, 2, 6, 4)), (ROWS, COLUMNS))
        total = tl.dot(made, _columns(values, M, COLUMNS, PAIRS, TYPE), total)
        code = later
    row, line = begin + tl.arange(0, ROWS), tl.arange(0, M)
    _store(total, row, line, m, n, outer, inner, of_x, sums, OUTER, INNER, SCALE, PER_ROW)


@triton.jit
def _add_up(sums, out, count, parts, SIZE: tl.constexpr, EARLY: tl.constexpr):
    ready(EARLY)
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE,), tl.float32)
    for part in tl.range(0, parts, loop_unroll_factor=8):
        total += tl.load(sums + part * count + at, mask=at < count, other=0.0)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=at < count)
