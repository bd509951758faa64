"""The scale layout that block-scaled matrix units read: tiles of 128 rows x 4 scales, 512 bytes.

Inside a tile the scale of row r and block c is at (r mod 32) x 16 + (r div 32) x 4 + c. Tiles
follow each other along a row of tiles, then down. Rows and blocks beyond the matrix are zero.
"""

import torch
from torch import Tensor

from ...model.errors import integer
from .. import checks

ROWS, BLOCKS = 128, 4  # of a tile
ROW_GROUPS = 4  # a tile's rows are interleaved in groups of 32


def _tiles(rows: int, blocks: int) -> tuple[int, int]:
    return -(-rows // ROWS), -(-blocks // BLOCKS)


def tile_scales(scales: Tensor) -> Tensor:
    """uint8 scales (rows, blocks) as the flat bytes of their tiles."""
    scales = checks.uint8("scales", scales)
    if scales.ndim != 2:
        raise ValueError(f"scales must have shape (rows, blocks), not {tuple(scales.shape)}")
    rows, blocks = scales.shape
    down, across = _tiles(rows, blocks)
    padded = scales.new_zeros(down * ROWS, across * BLOCKS)
    padded[:rows, :blocks] = scales
    tiles = padded.reshape(down, ROW_GROUPS, ROWS // ROW_GROUPS, across, BLOCKS)
    return tiles.permute(0, 3, 2, 1, 4).reshape(-1)


def untile_scales(tiled: Tensor, rows: int, blocks: int) -> Tensor:
    """The inverse of `tile_scales`: flat uint8 to scales (rows, blocks)."""
    tiled = checks.uint8("tiled", tiled)
    rows, blocks = integer("rows", rows, 0), integer("blocks", blocks, 0)
    down, across = _tiles(rows, blocks)
    want = torch.Size([down * across * ROWS * BLOCKS])
    if tiled.shape != want:
        raise ValueError(
            f"tiled must have shape {tuple(want)} for {rows} x {blocks} scales, "
            f"not {tuple(tiled.shape)}"
        )
    tiles = tiled.reshape(down, across, ROWS // ROW_GROUPS, ROW_GROUPS, BLOCKS)
    padded = tiles.permute(0, 3, 2, 1, 4).reshape(down * ROWS, across * BLOCKS)
    return padded[:rows, :blocks].contiguous()
