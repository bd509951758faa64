"""What a quantised array takes to keep, derived from its scheme."""

from dataclasses import dataclass
from fractions import Fraction
from math import prod

from ..errors import flag, integer
from .scheme import Scheme
from .table import scheme as find

TILE_ROWS, TILE_SCALES = 128, 4  # of the layout that block-scaled matrix units read


@dataclass(frozen=True)
class Storage:
    """Bytes of one matrix of `count` elements.

    scales: one entry for each level, outermost first.
    """

    count: int
    elements: int
    scales: tuple[int, ...]
    zero_points: int
    selectors: int

    @property
    def total(self) -> int:
        """All bytes."""
        return self.elements + sum(self.scales) + self.zero_points + self.selectors

    @property
    def bits_per_element(self) -> Fraction:
        """Bits for each element, everything counted."""
        return Fraction(8 * self.total, self.count)

    @property
    def compression(self) -> Fraction:
        """How many times smaller than float32."""
        return Fraction(4 * self.count, self.total)

    def __add__(self, other: "Storage") -> "Storage":
        """Two copies of the same elements: bytes add, `count` stays."""
        return Storage(
            self.count,
            self.elements + other.elements,
            tuple(map(sum, zip(self.scales, other.scales, strict=True))),
            self.zero_points + other.zero_points,
            self.selectors + other.selectors,
        )


def storage(
    scheme: Scheme | str,
    rows: int,
    columns: int,
    *,
    tiled: bool = False,
    transposed: bool = False,
) -> Storage:
    """Bytes of a matrix (rows, columns), the contraction along its columns.

    Codes, scales, zero points and selectors are each packed densely along a row, and every row
    starts at a whole byte. tiled: the innermost scales, which must have 8 bits and belong to blocks
    of one row, are padded to tiles of 128 rows x 4 scales. transposed: the second copy that
    training keeps, of the transposed matrix with scales of its own, is added.
    Raises ValueError where a group does not divide the matrix.
    """
    scheme = find(scheme)
    rows, columns = integer("rows", rows, 1), integer("columns", columns, 1)
    flag("tiled", tiled)
    flag("transposed", transposed)
    one = _one_copy(scheme, (rows, columns), tiled)
    return one + _one_copy(scheme, (columns, rows), tiled) if transposed else one


def _one_copy(scheme: Scheme, shape: tuple[int, int], tiled: bool) -> Storage:
    grids = []  # (rows, columns) of scales, for each level
    for level in scheme.levels:
        group = level.granularity.group(shape)
        grids.append((shape[0] // group[0], shape[1] // group[1]))
    bits = [level.format.bits for level in scheme.levels]
    scales = [_packed(grid, width) for grid, width in zip(grids, bits, strict=True)]
    if tiled:
        granularity = scheme.levels[-1].granularity
        if bits[-1] != 8 or granularity.rows != 1 or granularity.columns is None:
            raise ValueError(
                f"tiled must be False for {scheme}: tiles hold 8-bit scales of blocks, not "
                f"{scheme.levels[-1]}"
            )
        scales[-1] = prod(
            -(-length // part) * part
            for length, part in zip(grids[-1], (TILE_ROWS, TILE_SCALES), strict=True)
        )
    width = scheme.elements[0].bits
    return Storage(
        prod(shape),
        _packed(shape, width),
        tuple(scales),
        _packed(grids[-1], width) if scheme.zero_point else 0,
        _packed(grids[-1], scheme.selector_bits),
    )


def _packed(grid: tuple[int, int], bits: int) -> int:
    """Bytes of rows of `bits`-bit entries, each row from a whole byte on."""
    return grid[0] * -(-grid[1] * bits // 8)


def bits_per_element(scheme: Scheme | str) -> Fraction:
    """Bits for each element of a matrix in which scales of whole rows and more do not count."""
    scheme = find(scheme)
    bits = Fraction(scheme.elements[0].bits)
    for level in scheme.levels:
        rows, columns = level.granularity.rows, level.granularity.columns
        if rows is not None and columns is not None:
            last = level is scheme.levels[-1]
            own = scheme.selector_bits + scheme.elements[0].bits * scheme.zero_point if last else 0
            bits += Fraction(level.format.bits + own, rows * columns)
    return bits
