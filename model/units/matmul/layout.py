"""Bytes of the streams of a matrix unit, and its results.

Order of work: for each row of tiles, for each group of tiles in it, for each block of K, for each
tile of the group; a group is one tile where tiles do not take turns. docs/matrix-unit.md has the
layouts with an example.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accumulators import any_operands
from ...blocks import as_float32
from ...dot import check_operands, check_scale_codes
from ...matmul import matmul
from ...outputs import convert_trace
from ...packing import pack_rows
from ...schemes.array import MXArray
from ...trace import FLAG_NAMES
from .config import MatmulConfig


class Golden(NamedTuple):
    """Results of a job: C (m, n) in the result format, and the register FLAGS after it."""

    result: NDArray
    flags: int


def golden(a: MXArray, b: MXArray, config: MatmulConfig, d: ArrayLike | None = None) -> Golden:
    """C = A B + D as the unit computes it, of A (M, K), B (N, K) and float32 D (M, N).

    The flags are those of all results, of the rows and columns that fill the last tiles too:
    an infinity times their zeros is invalid.
    """
    _check(a, b, config)
    m, n = a.shape[0], b.shape[0]
    tiles = config.tiles(m, n, a.shape[1])
    c = None
    if d is not None:
        c = _filled_up(_initial(d, config, m, n), config)
    wide_a = _padded_array(a, tiles.m_tiles * config.rows)
    wide_b = _padded_array(b, tiles.n_tiles * config.columns)
    options = {"stages": False, "scale_format": config.dot.scale_format}
    with any_operands():  # a unit of the caller's own
        trace = matmul(wide_a, wide_b, config.dot.accumulator, c, trace=True, **options)
    trace = convert_trace(trace, config.out)
    raised = [getattr(trace.flags, name).any() for name in FLAG_NAMES]
    flags = sum(int(bit) << i for i, bit in enumerate(raised)) if config.dot.status else 0
    return Golden(trace.result[:m, :n], flags)


def pack_a(a: MXArray, config: MatmulConfig, n: int) -> bytes:
    """The packet of A (M, K) for a product of n columns."""
    tiles = config.tiles(a.shape[0], n, a.shape[1])
    panels = _panels(a, config, "a", config.rows)
    repeats = 1 if config.keeps_a(tiles) else len(config.groups(tiles.n_tiles))
    return np.repeat(panels, repeats, axis=0).tobytes()


def pack_b(b: MXArray, config: MatmulConfig, m: int) -> bytes:
    """The packet of B, given as its transpose (N, K), for a product of m rows."""
    tiles = config.tiles(m, b.shape[0], b.shape[1])
    panels = _panels(b, config, "b", config.columns)
    ends = np.cumsum(config.groups(tiles.n_tiles))[:-1]
    row = b"".join(group.swapaxes(0, 1).tobytes() for group in np.split(panels, ends))
    return row if config.keeps_b(tiles) else row * tiles.m_tiles


def pack_d(d: ArrayLike, config: MatmulConfig) -> bytes:
    """The packet of the initial values (M, N) of C, float32."""
    values = np.asarray(d)
    if values.ndim != 2:
        raise ValueError(f"d must have shape (M, N), not {values.shape}")
    return _in_tiles(_initial(values, config, *values.shape), config).astype("<f4").tobytes()


def ignored_bits(config: MatmulConfig, side: str) -> NDArray[np.uint8]:
    """The bytes of a block of ``a`` or ``b``, ones where the unit ignores what is sent."""
    ignored = np.zeros(config.record_bytes(side), np.uint8)
    scales = len(ignored) - config.dot.scale_blocks
    ignored[scales:] = 0xFF << config.dot.scale_bits & 0xFF
    last = config.dot.lanes * config.element_bits(side) % 8
    ignored[scales - 1] = 0xFF << last & 0xFF if last else 0
    return ignored


def pack_c(c: ArrayLike, config: MatmulConfig) -> bytes:
    """The packet that a unit sends whose results are `c` (M, N); zeros beyond them."""
    return _in_tiles(np.asarray(c).astype(config.out.dtype), config).tobytes()


def unpack_c(data: bytes, config: MatmulConfig, m: int, n: int) -> NDArray:
    """C (m, n), in the unit's result format, of the packet that it sends."""
    tiles = config.tiles(m, n, config.dot.lanes)
    rows, columns = config.rows, config.columns
    size = config.bytes_of("c", tiles)
    if len(data) != size:
        raise ValueError(f"data must be {size} bytes long for C {(m, n)}, not {len(data)}")
    values = np.frombuffer(data, config.out.dtype)
    values = values.reshape(tiles.m_tiles, tiles.n_tiles, rows, columns).swapaxes(1, 2)
    return values.reshape(tiles.m_tiles * rows, tiles.n_tiles * columns)[:m, :n]


def _check(a: MXArray, b: MXArray, config: MatmulConfig) -> None:
    check_operands(a, b, config.dot.accumulator)
    if a.codes.ndim != 2 or b.codes.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"a and b must have shapes (M, K) and (N, K), not {a.shape} and {b.shape}")
    _check_block("a", a, config)
    if (a.format, b.format) not in config.dot.formats:
        raise ValueError(
            f"formats of a and b must be among {config.dot.formats_text}, "
            f"not {a.format.name}x{b.format.name}"
        )


def _check_block(side: str, x: MXArray, config: MatmulConfig) -> None:
    block, lanes = config.dot.scale_block, config.dot.lanes
    if x.block_size != block:
        which = f"{lanes} lanes" if block == lanes else f"{block} of the unit's scale_block"
        raise ValueError(f"block_size of {side} must be the {which}, not {x.block_size}")
    check_scale_codes(side, x, config.dot.scale_format)


def _initial(d: ArrayLike, config: MatmulConfig, m: int, n: int) -> NDArray[np.float32]:
    """`d` as float32 (m, n), if the unit takes it."""
    if not config.initial_c:
        raise ValueError("d must be None: this unit has no stream of initial values")
    values = as_float32(d, "d")
    if values.shape != (m, n):
        raise ValueError(f"d must have shape {(m, n)}, not {values.shape}")
    return values


def _padded(array: NDArray, rows: int) -> NDArray:
    """`array` (m, ...) with rows of zeros appended."""
    zeros = np.zeros((rows - array.shape[0], *array.shape[1:]), array.dtype)
    return np.concatenate([array, zeros])


def _padded_array(x: MXArray, rows: int) -> MXArray:
    return MXArray(_padded(x.codes, rows), _padded(x.scales, rows), x.format, x.block_size)


def _panels(x: MXArray, config: MatmulConfig, side: str, rows: int) -> NDArray[np.uint8]:
    """The steps of each panel, (panels, k_blocks, rows, bytes of a record)."""
    if x.codes.ndim != 2 or x.axis not in (-1, 1):
        raise ValueError(f"{side} must have shape (rows, K), blocked along K, not {x.shape}")
    _check_block(side, x, config)
    formats = [pair[side == "b"] for pair in config.dot.formats]
    if x.format not in formats:
        names = ", ".join(dict.fromkeys(f.name for f in formats))
        raise ValueError(f"format of {side} must be one of {names}, not {x.format.name}")
    count = -(-x.shape[0] // rows)
    codes, scales = _padded_array(x, count * rows).blocks_last()
    # A narrower format lies in the low bits of the widest one's elements.
    packed = pack_rows(codes.reshape(-1, config.dot.lanes), max(f.bits for f in formats))
    records = np.hstack([packed, scales.reshape(len(packed), config.dot.scale_blocks)])
    return records.reshape(count, rows, -1, records.shape[1]).swapaxes(1, 2)


def _filled_up(values: NDArray, config: MatmulConfig) -> NDArray:
    """(M, N) with the rows and columns of zeros that fill its last tiles."""
    m, n = values.shape
    m_tiles, n_tiles, _ = config.tiles(m, n, config.dot.lanes)
    return _padded(_padded(values, m_tiles * config.rows).T, n_tiles * config.columns).T


def _in_tiles(values: NDArray, config: MatmulConfig) -> NDArray:
    """(M, N) as (m_tiles, n_tiles, rows, columns), filled up with zeros."""
    m, n = values.shape
    m_tiles, n_tiles, _ = config.tiles(m, n, config.dot.lanes)
    rows, columns = config.rows, config.columns
    return _filled_up(values, config).reshape(m_tiles, rows, n_tiles, columns).swapaxes(1, 2)
