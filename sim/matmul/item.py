"""Products as data: jobs of a matrix unit, and the model's results."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations

import numpy as np
from numpy.typing import NDArray

from ...model import MXArray
from ...model.units.matmul.config import MatmulConfig, Tiles
from ...model.units.matmul.layout import (
    Golden,
    golden,
    ignored_bits,
    pack_a,
    pack_b,
    pack_d,
    unpack_c,
)

SHOWN_BLOCKS = 8  # of a result that is wrong


@dataclass(frozen=True, eq=False)
class Product:
    """One job: C = A B + D.

    name: its purpose, in words. mode: index into the unit's formats. a: (M, K), b: (N, K), in
    blocks of the unit's lanes. d: float32 (M, N), or None to start at 0.
    """

    name: str
    mode: int
    a: MXArray
    b: MXArray
    d: NDArray[np.float32] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.a.shape[0], self.b.shape[0], self.a.shape[1]

    def tiles(self, config: MatmulConfig) -> Tiles:
        """The shape as the unit counts it."""
        return config.tiles(*self.shape)

    def packets(self, config: MatmulConfig) -> dict[str, bytes]:
        """Packets of the job, by stream; bits that the unit ignores are random."""
        m, n, _ = self.shape
        packets = {"a": pack_a(self.a, config, n), "b": pack_b(self.b, config, m)}
        packets = {side: _noisy(p, ignored_bits(config, side)) for side, p in packets.items()}
        if self.d is not None:
            packets["d"] = pack_d(self.d, config)
        return packets

    def words(self, config: MatmulConfig) -> dict[str, dict[str, int]]:
        """Values of the registers of a job, by register and field."""
        tiles = self.tiles(config)
        words = {name.upper(): {"count": count} for name, count in tiles._asdict().items()}
        return words | {
            "FORMAT": {"mode": self.mode},
            "OPTIONS": {"use_d": int(self.d is not None)},
        }


def _noisy(packet: bytes, ignored: NDArray[np.uint8]) -> bytes:
    """A packet of zeros in the `ignored` bits of its blocks, with random bits there."""
    if not ignored.any():
        return packet
    blocks = np.frombuffer(packet, np.uint8).reshape(-1, len(ignored))
    noise = np.random.default_rng(len(packet)).integers(0, 256, blocks.shape, np.uint8)
    return (blocks | noise & ignored).tobytes()


def predict(config: MatmulConfig, product: Product) -> Golden:
    """The golden model's C and flags."""
    with np.errstate(invalid="ignore"):  # a signalling NaN in d
        return golden(product.a, product.b, config, product.d)


def tile_flags(config: MatmulConfig, product: Product, count: int | None = None) -> list[int]:
    """The flags that each tile raises, in the order of C; of the first `count` alone."""
    m_tiles, n_tiles, _ = product.tiles(config)
    places = [*combinations(range(m_tiles), range(n_tiles))][:count]
    return [predict(config, _tile(config, product, *place)).flags for place in places]


def _tile(config: MatmulConfig, product: Product, down: int, across: int) -> Product:
    """The product that one tile of C is."""
    rows = slice(down * config.rows, (down + 1) * config.rows)
    columns = slice(across * config.columns, (across + 1) * config.columns)
    a, b = _part(product.a, rows), _part(product.b, columns)
    return replace(product, a=a, b=b, d=None if product.d is None else product.d[rows, columns])


def _part(x: MXArray, rows: slice) -> MXArray:
    return MXArray(x.codes[rows], x.scales[rows], x.format, x.block_size)


def with_rows(product: Product, rows: Sequence[int]) -> Product:
    """The product with zeros in all other rows of A, and without a D."""
    codes = np.zeros_like(product.a.codes)
    codes[rows] = product.a.codes[rows]
    a = MXArray(codes, product.a.scales, product.a.format, product.a.block_size)
    return replace(product, a=a, d=None)


@dataclass(frozen=True)
class Mismatch:
    """The first wrong result of C, and the number of wrong ones."""

    row: int
    column: int
    got: int
    want: int
    count: int
    """Number of wrong results."""


def compare(config: MatmulConfig, product: Product, packet: bytes, want: Golden) -> Mismatch | None:
    """None when the packet of C holds the wanted bits; ValueError when it is too short or long."""
    m, n, _ = product.shape
    got = unpack_c(packet, config, m, n)
    word = np.dtype(f"u{config.out.bits // 8}")
    got_bits, want_bits = (np.ascontiguousarray(c).view(word) for c in (got, want.result))
    rows, columns = np.nonzero(got_bits != want_bits)
    if not len(rows):
        return None
    row, column = int(rows[0]), int(columns[0])
    got_word, want_word = int(got_bits[row, column]), int(want_bits[row, column])
    return Mismatch(row, column, got_word, want_word, len(rows))


def describe(config: MatmulConfig, product: Product, wrong: Mismatch) -> list[str]:
    """Lines for people: the result's place in its tile, its operands in hex, got and want."""
    row, column = wrong.row, wrong.column
    digits = config.out.bits // 4
    a, b = product.a.blocks_last(), product.b.blocks_last()
    tile = f"tile ({row // config.rows}, {column // config.columns})"
    place = f"{tile}, row {row % config.rows}, column {column % config.columns}"
    lines = [f"C[{row}, {column}]: {place}; {wrong.count} results differ"]
    if product.d is not None:
        bits = int(product.d[row, column].view(np.uint32))
        lines.append(f"d       0x{bits:08x}")
    for number in range(min(a[1].shape[1], SHOWN_BLOCKS)):
        scales = f"scale_a 0x{a[1][row, number]:02x}, scale_b 0x{b[1][column, number]:02x}"
        lines += [
            f"block {number}: {scales}; lane 0 first:",
            f"  a {a[0][row, number].tobytes().hex(' ')}",
            f"  b {b[0][column, number].tobytes().hex(' ')}",
        ]
    if a[1].shape[1] > SHOWN_BLOCKS:
        lines.append(f"({a[1].shape[1] - SHOWN_BLOCKS} more blocks)")
    return [
        *lines,
        f"got  0x{wrong.got:0{digits}x} {config.out.name}",
        f"want 0x{wrong.want:0{digits}x} {config.out.name}",
    ]
