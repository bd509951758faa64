"""Products of up to 16 rows and a quantised weight: the executor ``triton`` of `few_rows_matmul`.

Reading the codes is the work: programs share out tiles of rows and parts of K, so that each
multiprocessor has loads in flight, and a second kernel adds up the parts. A program is one warp
with a small tile: warps of one program would wait for one another. 4-bit codes are read four at a
time; each of the four makes a matrix, which every fourth column of x multiplies, so that nothing is
put side by side.
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


# For one row, by the bits of a code; for more rows, by whether groups are shorter than NARROW.
VECTOR = {8: Tile(4, 512, 1, 4), 4: Tile(4, 1024, 1, 3)}
MATRIX = {False: Tile(16, 256, 1, 3), True: Tile(16, 128, 1, 4)}
NARROW = 32
SMALL_VECTOR, SMALL_MATRIX = Tile(16, 64, 1, 1), Tile(16, 32, 1, 1)  # for the interpreter


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
    if small:
        tile, programs = (SMALL_VECTOR if vector else SMALL_MATRIX), INTERPRETED_PROGRAMS
    else:
        narrow = made.levels[-1][3] < NARROW
        tile = VECTOR[made.bits] if vector else MATRIX[narrow]
        properties = torch.cuda.get_device_properties(request.device)
        programs = properties.multi_processor_count * PROGRAMS
    if not n:
        return torch.empty((m, n), dtype=request.out_dtype, device=x.device)
    tiles, steps = triton.cdiv(n, tile.rows), triton.cdiv(length, tile.columns)
    parts = max(1, min(steps, programs // tiles))
    out = torch.empty((m, n), dtype=request.out_dtype, device=x.device)
    sums = out if parts == 1 else torch.empty((parts, m, n), dtype=torch.float32, device=x.device)
    levels = [(_scale(*level, length), level[1]) for level in made.levels]
    inner = levels[-1]
    outer = levels[0] if len(levels) == 2 else (None, inner[1])
    each, codes, words, convert = 1, made.codes, x, None
    if made.bits == 4:
        each, codes = 4, made.codes.view(torch.uint16)
        words = x.flatten()
        if words.data_ptr() % (4 * x.itemsize):  # no address of a word of four columns
            words = words.clone()
        words = words.view(WORDS[x.itemsize])
        if _converts(made, inner[0], x):
            convert = E2M1_CONVERSION
    _multiply[(tiles, parts)](
        words,
        codes,
        outer[1],
        inner[1],
        request.scales,
        sums,
        m,
        n,
        length,
        OUTER=outer[0],
        INNER=inner[0],
        SCALE=Codes.of(made.levels[-1][0], x.device) if inner[0].form == "codes" else None,
        FORMAT=Codes.of(made.element, x.device),
        EACH=each,
        CONVERT=convert,
        PER_ROW=request.scales is not None and request.scales.numel() > 1,
        X=_codes_of(x),
        TYPE=_multiplied_type(made, inner[0], x),
        M=MOST_ROWS,
        VECTOR=vector,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        STAGES=tile.stages,
        num_warps=tile.warps,
    )
    if parts > 1:
        _add_up[(triton.cdiv(m * n, SUMS),)](sums, out, m * n, parts, SIZE=SUMS, num_warps=2)
    return out


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
    if EACH == 1:
        return words
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
    STAGES: tl.constexpr,
):
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
    if INNER.whole:
        whole = tl.load(inner + row // INNER.height, mask=there, other=0)
        result *= _scale_at(whole, INNER, SCALE)[:, None]
    if OUTER is not None:
        whole = tl.load(outer + row // OUTER.height, mask=there, other=0)
        result *= _scale_at(whole, OUTER, None)[:, None]
    if of_x is not None:
        scale = tl.load(of_x + line * PER_ROW, mask=line < m, other=1.0)
        result *= scale[None, :]
    at = (part * m + line)[None, :].to(tl.int64) * n + row[:, None]
    written = there[:, None] & (line < m)[None, :]
    tl.store(sums + at, result.to(sums.dtype.element_ty), mask=written)


@triton.jit
def _add_up(sums, out, count, parts, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE,), tl.float32)
    for part in tl.range(0, parts, loop_unroll_factor=8):
        total += tl.load(sums + part * count + at, mask=at < count, other=0.0)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=at < count)
