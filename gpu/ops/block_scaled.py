"""Products of MXFP8 and NVFP4 blocks by units that take blocks and scales as they are, of GPUs of
compute capability 10.0 and later, through the library's scaled product: operator
`mxdot::block_scaled_matmul`. For use, not for the last bit.

No GPU with these units has run this module. Tests compare the arguments of the library with a plain
reading of the layout.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import ScalingType, SwizzleType, pad

from ...model.errors import integer
from ...model.formats import E2M1, E4M3, E5M2
from .. import checks
from ..names import named_format
from ..operators import operator
from ..tensors.formats import pack
from ..tensors.mx import FLOAT8, MXTensor
from ..tensors.scaled import ScaledTensor

OLDEST = (10, 0)  # the compute capability that multiplies blocks
BLOCK = 32  # elements of an MXFP8 block
TAKEN = (E4M3.name, E5M2.name)  # of MXFP8; the library refuses two E5M2 operands
NVFP4 = "nvfp4"  # the scheme
ROWS, LENGTH = 16, 32  # rows and their lengths are filled up to multiples of these
TILE_ROWS, TILE_BLOCKS = 128, 4  # of a tile
ROW_GROUPS = 4  # a tile's rows are interleaved in groups of 32
NEEDED = "a GPU of compute capability 10.0 or later"
BlockScaled = MXTensor | ScaledTensor


class Operand(NamedTuple):
    """One side of `torch.nn.functional.scaled_mm`: elements (R, K), or (R, K / 2) bytes of two FP4
    elements; scales, their kinds and how they lie, the finest first."""

    elements: Tensor
    scales: list[Tensor]
    kinds: list[ScalingType]
    swizzles: list[SwizzleType]


@cache
def has_units(device: torch.device) -> bool:
    """Whether a device multiplies blocks with their scales; asked once."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= OLDEST


def pair_refusal(*formats: str) -> str | None:
    """Why MX operands of two element formats, by name, cannot be taken; None when they can."""
    for name in formats:
        if name not in TAKEN:
            return f"formats must be {' or '.join(TAKEN)}, not {name}"
    if set(formats) == {E5M2.name}:
        return f"formats must not both be {E5M2.name}"
    return None


def block_scaled_matmul(a: BlockScaled, b: BlockScaled, out_dtype: torch.dtype) -> Tensor:
    """The products of the rows of `a` (M, K) and `b` (N, K): both MXTensors of a pair that
    `pair_refusal` takes, in blocks of 32, or both NVFP4.

    Without these units values are multiplied in float32. Results are rounded once to `out_dtype`.
    Arguments are not checked here: `mx_matmul`, or a Recipe, has done it.
    """
    return _block_scaled_matmul(*_parts(a), *_parts(b), out_dtype)


def _parts(x: BlockScaled) -> tuple[list[Tensor], str]:
    if isinstance(x, MXTensor):
        return [x.codes, x.scales], x.format_name
    return x.parts(), x.scheme_name


def _whole(parts: list[Tensor], name: str) -> BlockScaled:
    if name == NVFP4:
        return ScaledTensor.of_parts(name, parts, 1)
    return MXTensor.of_valid_codes(*parts, named_format(name), BLOCK, 1)


def _fake(a_parts: list[Tensor], a_name: str, b_parts: list[Tensor], *others: Any) -> Tensor:
    a, b = a_parts[0], b_parts[0]
    return a.new_empty((a.shape[0], b.shape[0]), dtype=others[-1])


@operator("block_scaled_matmul", _fake)
def _block_scaled_matmul(
    a_parts: list[Tensor], a_name: str, b_parts: list[Tensor], b_name: str, dtype: torch.dtype
) -> Tensor:
    (a, *_), (b, *_) = a_parts, b_parts
    if has_units(a.device) and a.numel() and b.numel():
        x, y = operand(a_parts, a_name), operand(b_parts, b_name)
        return library(x, y, dtype)[: len(a), : len(b)].contiguous()
    with torch.autocast(a.device.type, enabled=False):  # which has dtypes of its own
        x, y = (_whole(*side).dequantize() for side in ((a_parts, a_name), (b_parts, b_name)))
        return (x @ y.t()).to(dtype)


def operand(parts: list[Tensor], name: str) -> Operand:
    """An operand as the library takes it, its rows and their lengths filled up with zeros."""
    codes, *scales = parts
    below, right = -codes.shape[0] % ROWS, -codes.shape[1] % LENGTH
    codes = pad(codes, (0, right, 0, below)) if below or right else codes.contiguous()
    if name == NVFP4:
        elements = pack(codes, E2M1).view(torch.float4_e2m1fn_x2)
        tiles = tile_scales(scales[1]).view(torch.float8_e4m3fn)
        kinds = [ScalingType.BlockWise1x16, ScalingType.TensorWise]
        swizzles = [SwizzleType.SWIZZLE_32_4_4, SwizzleType.NO_SWIZZLE]
        return Operand(elements, [tiles, scales[0].reshape(1)], kinds, swizzles)
    elements = codes.view(FLOAT8[named_format(name)])
    tiles = tile_scales(scales[0]).view(torch.float8_e8m0fnu)
    return Operand(elements, [tiles], [ScalingType.BlockWise1x32], [SwizzleType.SWIZZLE_32_4_4])


def library(a: Operand, b: Operand, dtype: torch.dtype) -> Tensor:
    """The product by the device's units."""
    written = dtype if dtype in (torch.bfloat16, torch.float32) else torch.float32
    return functional.scaled_mm(
        a.elements,
        b.elements.t(),
        a.scales,
        a.kinds,
        b.scales,
        b.kinds,
        swizzle_a=a.swizzles,
        swizzle_b=b.swizzles,
        output_dtype=written,
    ).to(dtype)


# The layout of scales -----------------------------------------------------------------------------


# Tiles of 128 rows x 4 scales, 512 bytes. Inside a tile the scale of row r and block c is at
# (r mod 32) x 16 + (r div 32) x 4 + c. Tiles follow each other along a row of tiles, then down.
# Rows and blocks beyond the matrix are zero.


def _tiles(rows: int, blocks: int) -> tuple[int, int]:
    return -(-rows // TILE_ROWS), -(-blocks // TILE_BLOCKS)


def tile_scales(scales: Tensor) -> Tensor:
    """uint8 scales (rows, blocks) as the flat bytes of their tiles."""
    scales = checks.uint8("scales", scales)
    if scales.ndim != 2:
        raise ValueError(f"scales must have shape (rows, blocks), not {tuple(scales.shape)}")
    rows, blocks = scales.shape
    down, across = _tiles(rows, blocks)
    padded = scales.new_zeros(down * TILE_ROWS, across * TILE_BLOCKS)
    padded[:rows, :blocks] = scales
    tiles = padded.reshape(down, ROW_GROUPS, TILE_ROWS // ROW_GROUPS, across, TILE_BLOCKS)
    return tiles.permute(0, 3, 2, 1, 4).reshape(-1)


def untile_scales(tiled: Tensor, rows: int, blocks: int) -> Tensor:
    """The inverse of `tile_scales`: flat uint8 to scales (rows, blocks)."""
    tiled = checks.uint8("tiled", tiled)
    rows, blocks = integer("rows", rows, 0), integer("blocks", blocks, 0)
    down, across = _tiles(rows, blocks)
    want = torch.Size([down * across * TILE_ROWS * TILE_BLOCKS])
    if tiled.shape != want:
        raise ValueError(
            f"tiled must have shape {tuple(want)} for {rows} x {blocks} scales, "
            f"not {tuple(tiled.shape)}"
        )
    tiles = tiled.reshape(down, across, TILE_ROWS // ROW_GROUPS, ROW_GROUPS, TILE_BLOCKS)
    padded = tiles.permute(0, 3, 2, 1, 4).reshape(down * TILE_ROWS, across * TILE_BLOCKS)
    return padded[:rows, :blocks].contiguous()
