"""Operands as the kernels of products read them: decoded once, rows side by side.

A product's rows are (R, K) codes; the kernels walk over K with a tile of rows, so values are laid
out in strips of TILE rows, (R / TILE, K / pack, TILE, pack), R filled up with rows of zeros: from
one term to the next is a distance that the compiler knows, and one load takes a pack of terms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import gcd

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from ...model.formats import BFLOAT16, E8M0, FLOAT16, ElementFormat, TableFormat
from ...model.products import NO_EXPONENT, unit_exponents
from ..tensors.formats import in_order
from .launch import Launch

MOST_EXPONENT_BITS = 6
LARGEST_PACK = 4  # terms of 16 bits that one load takes
TILE = 64  # rows and codes of a program; a multiple of every kernel's tile of rows
STRIP = tl.constexpr(TILE)
SCALE_BIAS, NAN_SCALE = tl.constexpr(E8M0.bias), tl.constexpr(E8M0.nan_code)


@dataclass(frozen=True)
class Operand:
    """values, units: (R / TILE, K / pack, TILE, pack); the elements (0 for a NaN) in their
    `storage`, and in bfloat16 the powers of two of their unit digits (0 for zero and non-finite
    elements). Split, the elements are value x 2^-unit in float16, below 2, and the units exponents,
    int16 (NO_EXPONENT for zero and non-finite elements). scales: int32 (blocks, R), the exponents
    (any for the NaN scale). nan: int8 (K / TILE, R), not 0 where that part of the row holds a NaN
    element or scale.
    """

    values: Tensor
    units: Tensor
    scales: Tensor
    nan: Tensor

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Arguments of kernels that align elements."""
        return self.values, self.units, self.scales, self.nan

    @property
    def without_units(self) -> tuple[Tensor, Tensor, Tensor]:
        """Arguments of kernels whose grid does not depend on the elements: values, scales, nan."""
        return self.values, self.scales, self.nan


def storage(fmt: ElementFormat) -> torch.dtype | None:
    """The float of 16 bits that holds every element exactly; None where neither does, or where a
    grid below products is beyond the powers of two of float32."""
    if fmt.exponent_bits <= MOST_EXPONENT_BITS:
        for dtype, held in ((torch.bfloat16, BFLOAT16), (torch.float16, FLOAT16)):
            fits = fmt.emax <= held.emax and fmt.lsb >= held.lsb
            if fits and fmt.significand_bits <= held.significand_bits:
                return dtype
    return None


def is_split(*formats: ElementFormat) -> bool:
    """Whether products of these formats leave float32's exponents, or their elements 16 bits."""
    return any(storage(fmt) is None for fmt in formats)


def refusal(*formats: ElementFormat) -> str | None:
    """Why the kernels of products cannot take elements of these formats; None when they can."""
    for fmt in formats:
        if isinstance(fmt, TableFormat):
            return f"elements must be floats or integers, not the table of values of {fmt}"
        if fmt.significand_bits > FLOAT16.significand_bits:
            most = FLOAT16.significand_bits
            return f"elements must have significands of at most {most} bits, not those of {fmt}"
    return None


@cache
def _tables(fmt: ElementFormat, split: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Value and unit of every code."""
    values, exponent = (torch.tensor(table) for table in (fmt.values, unit_exponents(fmt)))
    known = exponent != NO_EXPONENT
    if split:
        values = (values * 2.0 ** -torch.where(known, exponent, 0)).to(torch.float16)
        return values.to(device), exponent.to(torch.int16).to(device)
    units = torch.where(known, 2.0**exponent, 0.0)
    return values.to(storage(fmt)).to(device), units.to(torch.bfloat16).to(device)


def padded_rows(rows: int) -> int:
    """`rows` filled up to whole tiles."""
    return triton.cdiv(rows, TILE) * TILE


def pack_of(*counts: int) -> int:
    """The terms that lie together: as many as divide every count of terms."""
    return gcd(LARGEST_PACK, *counts)


def operand(codes: Tensor, scales: Tensor, fmt: ElementFormat, pack: int) -> Operand:
    """The Operand of contiguous codes (R, K) and scales (R, blocks)."""
    return prepare(codes, scales, fmt, pack, False)(codes, scales)


def prepare(
    codes: Tensor,
    scales: Tensor,
    fmt: ElementFormat,
    pack: int,
    split: bool,
    order: NDArray[np.int64] | None = None,
) -> Callable[[Tensor, Tensor], Operand]:
    """Function that makes the Operand of similar codes and scales; it keeps none of these.

    order: the places of a block in the order in which they are laid out; None for one by one.
    """
    (rows, length), blocks, where = codes.shape, scales.shape[1], codes.device
    places = None if order is None else torch.tensor(order, device=where)
    padded, parts = padded_rows(rows), triton.cdiv(length, TILE)
    tables = _tables(fmt, split, where)
    shape = padded // TILE, length // pack, TILE, pack
    launch = Launch(
        _decode,
        (padded // TILE * parts,),
        TILE=TILE,
        PACK=pack,
        # Blocks whose scales a program takes: parts need not be whole blocks.
        BLOCKS=triton.next_power_of_2(triton.cdiv(blocks, max(1, parts))),
    )

    def work(codes: Tensor, scales: Tensor) -> Operand:
        values, units = (torch.empty(shape, dtype=t.dtype, device=where) for t in tables)
        exponents = torch.empty((blocks, padded), dtype=torch.int32, device=where)
        nan = torch.empty((parts, padded), dtype=torch.int8, device=where)
        results = values, units, exponents, nan
        if places is not None:
            codes = in_order(codes, places)
        if parts and padded:
            launch(codes, scales, *tables, *results, rows, padded, length, blocks)
        return Operand(*results)

    return work


@triton.jit
def tile_origin(rows, TILE: tl.constexpr):
    """(row, column) where this program's tile begins; tiles follow each other down the rows.

    One axis of programs: the others of a grid end at 65,535.
    """
    tiles = tl.cdiv(rows, TILE)
    tile = tl.program_id(0)
    return tile % tiles * TILE, tile // tiles * TILE


@triton.jit
def in_strip(first_row, length, PACK: tl.constexpr):
    """Offset of a row's values in its strip."""
    strip = (first_row // STRIP).to(tl.int64) * length * STRIP
    return strip + first_row % STRIP * PACK


@triton.jit
def _decode(
    codes,
    scales,
    value_table,
    unit_table,
    values,
    units,
    exponents,
    nan,
    rows,
    padded,
    length,
    blocks,
    TILE: tl.constexpr,
    PACK: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    first_row, first = tile_origin(padded, TILE)
    part = first // TILE
    r = first_row + tl.arange(0, TILE)
    k = first.to(tl.int64) + tl.arange(0, TILE)
    inside = (r < rows)[:, None] & (k < length)[None, :]
    code = tl.load(codes + r.to(tl.int64)[:, None] * length + k[None, :], mask=inside, other=0)
    code = code.to(tl.int32)
    value = tl.load(value_table + code).to(tl.float32)
    is_nan = value != value
    at = in_strip(first_row, length, PACK) + (tl.arange(0, TILE) * PACK)[:, None]
    at += (k // PACK * (TILE * PACK) + k % PACK)[None, :]
    stored = (k < length)[None, :] & (r < padded)[:, None]
    tl.store(values + at, tl.where(is_nan, 0.0, value).to(values.dtype.element_ty), mask=stored)
    tl.store(units + at, tl.load(unit_table + code), mask=stored)
    block = part.to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    inside = (r < rows)[:, None] & (block < blocks)[None, :]
    at = r.to(tl.int64)[:, None] * blocks + block[None, :]
    scale = tl.load(scales + at, mask=inside, other=SCALE_BIAS).to(tl.int32)
    at = block[None, :] * padded + r[:, None]
    stored = (block < blocks)[None, :] & (r < padded)[:, None]
    tl.store(exponents + at, scale - SCALE_BIAS, mask=stored)
    holds_nan = tl.max(is_nan.to(tl.int32), axis=1)
    holds_nan |= tl.max((scale == NAN_SCALE).to(tl.int32), axis=1)
    tl.store(nan + part.to(tl.int64) * padded + r, holds_nan.to(tl.int8))
