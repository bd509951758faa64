"""Schemes of two levels, NVFP4 among them: a float32 scale of the tensor, 8-bit scales of groups.

Used by `scheme_quantize`, and the executor ``triton`` of `mxdot::scheme_values`. One launch finds
largest magnitudes, one makes scales and codes, or their values, and the random words of stochastic
rounding where a seed and an offset are given. Every program of a small tensor finds the largest
magnitude itself, and one launch is enough.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import FLOAT32, FloatFormat
from ...model.schemes.grouping import grid_shape
from ...model.schemes.rules import AMAX
from ...model.schemes.scales import is_float32
from . import device
from .arithmetic import BIAS32, FRACTION32, INFINITY32
from .decode import Codes, decode
from .launch import Launch
from .overlap import overlaps, ready
from .quotients import TINY, Element, elements
from .scheme_rows import LARGEST_BITS

if TYPE_CHECKING:
    from ..schemes.quantize import SchemeQuantization

TILE, SMALL_TILE = 4096, 512  # elements of a program
SMALL = 2**18  # elements of a tensor
MOST_ALONE = 2**14  # elements that each program looks at
WARPS_ALONE = 8
MOST_PARTS = 1024  # programs that look for the largest magnitude
MOST_COLUMNS = 1024  # of a group
MOST_STEPS = 512  # of an element from zero to the largest: with 32 more bits float64 has them
OF_WORDS, OF_SEED = 1, 2  # sources of random words; 0 for none


def takes(request: "SchemeQuantization") -> bool:
    """Whether this kernel does all that `scheme_quantize` does for a request that it takes."""
    scheme, x = request.scheme, request.x
    if len(scheme.levels) != 2 or scheme.zero_point or request.limits is not None:
        return False
    outer, inner = scheme.levels
    of_tensor = outer.granularity.rows is None and outer.granularity.columns is None
    if not of_tensor or outer.format != FLOAT32 or {outer.rule, inner.rule} != {AMAX}:
        return False
    height, width = inner.granularity.rows, inner.granularity.columns
    if height is None or width is None or height & (height - 1) or width & (width - 1):
        return False
    small = height * width <= TILE and width <= MOST_COLUMNS
    eight = isinstance(inner.format, FloatFormat) and inner.format.dtype == np.uint8
    last = request.axis in (-1, x.ndim - 1) and x.is_contiguous()
    exact = is_float32(scheme.room(0, scheme.elements[0]))
    fits = small and eight and last and exact and scheme.poisoned_level == 1
    return bool(fits and (request.rounding == "nearest_even" or _takes_words(request)))


def _takes_words(request: "SchemeQuantization") -> bool:
    """Whether the kernel rounds stochastically."""
    element, words = request.scheme.elements[0], request.words
    if request.rounding != "stochastic" or words is None or not isinstance(element, FloatFormat):
        return False
    steps = element.largest_finite * 2.0 ** (element.mantissa_bits - element.emin)
    width = request.scheme.levels[1].granularity.columns or 1
    return (
        words.is_contiguous() and width % 4 == 0 and not element.is_integer and steps <= MOST_STEPS
    )


def prepare(
    request: "SchemeQuantization", dtype: torch.dtype | None = None
) -> Callable[..., list[Tensor]]:
    """The work for requests like this one: codes and scales of x, by words where there are some.

    dtype: of values in place of codes and scales.
    """
    scheme, shape, where = request.scheme, request.x.shape, request.device
    element, inner = scheme.elements[0], scheme.levels[1]
    height, width = inner.granularity.rows, inner.granularity.columns
    assert height is not None
    assert width is not None
    assert isinstance(inner.format, FloatFormat)
    columns, rows = shape[-1], shape[:-1].numel()
    groups = rows // height * (columns // width)
    random = 0
    if request.words is not None:
        random = OF_WORDS if request.words.dtype == torch.uint32 else OF_SEED
    size = rows * columns
    tile = SMALL_TILE if size <= SMALL else TILE
    constants = {"HEIGHT": height, "WIDTH": width, "GROUPS": max(1, tile // (height * width))}
    alone = height == 1 and size <= MOST_ALONE
    tiles = triton.cdiv(groups, constants["GROUPS"])
    grid, parts = (tiles,), min(tiles, MOST_PARTS)
    # A product that starts beside a few large programs is spread unevenly.
    early = overlaps(where) and not alone
    constants |= {"EARLY": early, "launch_pdl": early}
    find = Launch(_find_largest, (parts,), **constants)
    make = Launch(
        _make_codes,
        grid,
        **constants,
        ROOM=scheme.room(0, element),
        INNER_ROOM=scheme.room(1, element),
        NAN=inner.format.nan_code,
        ELEMENT=Element.of(element),
        SCALE=Element.of(inner.format),
        CODES=Codes.of(inner.format, where),
        RANDOM=random,
        ALL=triton.next_power_of_2(size) // width if alone else 0,
        PARTS=triton.next_power_of_2(parts),
        VALUES=None if dtype is None else Codes.of(element, where),
        FUSED=not device.interpreted(),
        num_warps=WARPS_ALONE if alone else 4,
    )
    outer_shape, scales_shape = (
        grid_shape(shape, level.granularity.group((rows, columns)), -1) for level in scheme.levels
    )

    def work(x: Tensor, words: Tensor | None = None) -> list[Tensor]:
        largest = x
        if not alone:
            largest = torch.empty(parts, dtype=torch.int32, device=where)
            find(x, largest, groups, columns)
        source = largest if words is None else words
        if dtype is not None:
            values = torch.empty(shape, dtype=dtype, device=where)
            make(x, source, largest, values, values, values, groups, columns, parts)
            return [values]
        codes = torch.empty(shape, dtype=torch.uint8, device=where)
        outer = torch.empty(outer_shape, dtype=torch.float32, device=where)
        scales = torch.empty(scales_shape, dtype=torch.uint8, device=where)
        make(x, source, largest, codes, outer, scales, groups, columns, parts)
        return [codes, outer, scales]

    return work


@triton.jit
def _places(
    tile,
    groups,
    columns,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    EACH: tl.constexpr = 1,
):
    """Groups of a tile, a mask of the groups that exist, and the places of their elements, of
    every EACH-th one of a row."""
    group = tile * GROUPS + tl.arange(0, GROUPS)
    if HEIGHT == 1:
        first = group.to(tl.int64) * WIDTH
    else:
        across = columns // WIDTH
        row = group // across * HEIGHT
        first = row.to(tl.int64) * columns + group % across * WIDTH
    inside = tl.arange(0, HEIGHT)[:, None] * columns + tl.arange(0, WIDTH // EACH)[None, :] * EACH
    return group, group < groups, first[:, None, None] + inside[None, :, :]


@triton.jit
def _magnitudes(value):
    """int32 bits of the largest magnitude of each group."""
    return tl.max(tl.max(value.to(tl.int32, bitcast=True) & 0x7FFFFFFF, axis=2), axis=1)


@triton.jit
def _largest_of_all(x, groups, WIDTH: tl.constexpr, ALL: tl.constexpr):
    """float32 largest magnitude of groups of one row each, at most ALL, that are finite."""
    group = tl.arange(0, ALL)
    at = group[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    value = tl.load(x + at, mask=(group < groups)[:, None], other=0.0).to(tl.float32)
    most = _magnitudes(value[:, None, :])
    return tl.max(tl.where(most >= INFINITY32, 0, most), axis=0).to(tl.float32, bitcast=True)


@triton.jit
def _find_largest(
    x,
    largest,
    groups,
    columns,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    EARLY: tl.constexpr,
):
    """The largest finite magnitude of the tiles that a program has, its bits."""
    ready(EARLY)
    best = tl.zeros((GROUPS,), tl.int32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(groups, GROUPS), tl.num_programs(0)):
        _, there, at = _places(tile, groups, columns, HEIGHT, WIDTH, GROUPS)
        most = _magnitudes(tl.load(x + at, mask=there[:, None, None], other=0.0).to(tl.float32))
        best = tl.maximum(best, tl.where(most >= INFINITY32, 0, most))
    tl.store(largest + tl.program_id(0), tl.max(best, axis=0))


@triton.jit
def _seeded_words(
    seed, groups, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, GROUPS: tl.constexpr
):
    """int64 words from 0 to 2^32 - 1 of a program's elements, as `seeded_words` has them."""
    _, _, at = _places(tl.program_id(0), groups, columns, HEIGHT, WIDTH, GROUPS, 4)
    counter, offset = at // 4, tl.load(seed + 1)
    low, high = (counter & 0xFFFFFFFF).to(tl.uint32), (counter >> 32).to(tl.uint32)
    other_low = (offset & 0xFFFFFFFF).to(tl.uint32) + low * 0
    other_high = ((offset >> 32) & 0xFFFFFFFF).to(tl.uint32) + low * 0
    a, b, c, d = tl.philox(tl.load(seed), low, high, other_low, other_high)
    words = tl.join(tl.join(a, c), tl.join(b, d))
    return tl.reshape(words, (GROUPS, HEIGHT, WIDTH)).to(tl.int64)


@triton.jit
def _stochastic_code(value, scale, word, ELEMENT: tl.constexpr):
    """uint8 codes of float32 `value` / float64 `scale`, rounded by int64 words.

    The quotient in steps of the smallest element times 2^-32 has at most 42 bits. An estimate by
    the inverse of the scale is off by one at most, which the remainder tells: products of 21 bits
    and a scale, and the differences, are exact in float64.
    """
    M: tl.constexpr = ELEMENT.m
    STEP: tl.constexpr = 2.0 ** (ELEMENT.emin - ELEMENT.m - 32)
    size, step = tl.abs(value).to(tl.float64), scale * STEP
    count = (size * (1.0 / step)).to(tl.int64)
    rest = size - (count >> 21).to(tl.float64) * (step * 2097152.0)
    rest = rest - (count & 2097151).to(tl.float64) * step
    count += (rest >= step).to(tl.int64) - (rest < 0).to(tl.int64)
    leading = (count >> 32).to(tl.float32).to(tl.int32, bitcast=True) >> FRACTION32
    binade = tl.maximum(leading - BIAS32 - M, 0)
    digits = (((count >> binade.to(tl.int64)) + word) >> 32).to(tl.int32)
    # A carry out of the significand runs into the exponent field, as it should.
    code = tl.minimum(digits + (binade << M), ELEMENT.largest)
    code |= (value.to(tl.int32, bitcast=True) >> 31) & (1 << (ELEMENT.bits - 1))
    return code.to(tl.uint8)


@triton.jit
def _make_codes(
    x,
    words,
    largest,
    codes,
    outer,
    scales,
    groups,
    columns,
    parts,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    EARLY: tl.constexpr,
    ROOM: tl.constexpr,
    INNER_ROOM: tl.constexpr,
    NAN: tl.constexpr,
    ELEMENT: tl.constexpr,
    SCALE: tl.constexpr,
    CODES: tl.constexpr,
    RANDOM: tl.constexpr,
    ALL: tl.constexpr,
    PARTS: tl.constexpr,
    VALUES: tl.constexpr,
    FUSED: tl.constexpr,
):
    ready(EARLY)
    if ALL:
        amax = _largest_of_all(x, groups, WIDTH, ALL)
    else:
        part = tl.arange(0, PARTS)
        bits = tl.max(tl.load(largest + part, mask=part < parts, other=0), axis=0)
        amax = bits.to(tl.float32, bitcast=True)
    ratio = tl.div_rn(amax, tl.full((), ROOM, tl.float32)).to(tl.int32, bitcast=True)
    whole = tl.minimum(tl.maximum(ratio, 1), LARGEST_BITS).to(tl.float32, bitcast=True)
    if VALUES is None:
        tl.store(outer, whole)
    group, there, at = _places(tl.program_id(0), groups, columns, HEIGHT, WIDTH, GROUPS)
    value = tl.load(x + at, mask=there[:, None, None], other=0.0).to(tl.float32)
    most = _magnitudes(value)
    poisoned = most >= INFINITY32
    most = tl.where(poisoned, 0, most).to(tl.float32, bitcast=True)
    # Tiny scales are taken 2^64 as large, for float32 to have their last bits.
    up = tl.where(whole < TINY, 1.0 / TINY, 1.0)
    most *= up
    high = whole * up * INNER_ROOM
    near = most * (1.0 / high)
    if FUSED:
        low = tl.fma(whole * up, tl.full((), INNER_ROOM, tl.float32), -high)
        code = elements(most, near, high, SCALE, None, True, None, low)
    else:
        room = (whole * up).to(tl.float64) * INNER_ROOM
        code = elements(most, near, room, SCALE, None, False)
    code = tl.maximum(code.to(tl.int32), 1)  # no scale is zero
    if VALUES is None:
        tl.store(scales + group, tl.where(poisoned, NAN, code).to(tl.uint8), mask=there)
    of_group = decode(code.to(tl.uint8), CODES)
    if VALUES is None or RANDOM:
        value = tl.where(poisoned[:, None, None], 0.0, value)
    if RANDOM == 0 and FUSED:
        base, value = whole * (up / ELEMENT.unit), value * up
        high = of_group * base
        low = tl.fma(of_group, base, -high)[:, None, None]
        near = value * (1.0 / high)[:, None, None]
        made = elements(value, near, high[:, None, None], ELEMENT, VALUES, True, None, low)
    else:
        scale = (of_group.to(tl.float64) * whole.to(tl.float64))[:, None, None]
        if RANDOM == 0:
            near = (value.to(tl.float64) * (ELEMENT.unit / scale)).to(tl.float32)
            made = elements(value, near, scale / ELEMENT.unit, ELEMENT, VALUES, False)
        else:
            if RANDOM == 1:
                word = tl.load(words + at, mask=there[:, None, None], other=0).to(tl.int64)
            else:
                word = _seeded_words(words, groups, columns, HEIGHT, WIDTH, GROUPS)
            made = _stochastic_code(value, scale, word, ELEMENT)
            if VALUES is not None:
                made = decode(made, VALUES)
    if VALUES is not None:
        made *= tl.where(poisoned, float("nan"), of_group)[:, None, None]
        made = (made * whole).to(codes.dtype.element_ty)
    tl.store(codes + at, made, mask=there[:, None, None])
