"""MatmulConfig: the one description of a matrix unit, for the layout, the RTL and its bench."""

from dataclasses import replace
from operator import index
from typing import Any, ClassVar, NamedTuple

from ...errors import choice, integer
from ...formats import FloatFormat
from ..dot import ComposedUnitConfig, DotConfig
from ..options import option, resolved, unit
from .widths import LARGEST_BEATS, check_array, check_streams

LARGEST_SIDE = 64
LARGEST_COUNT = 65535
DEPTHS = tuple(2**i for i in range(2, 11))
SCALE_BITS = 8
"""Width of a scale in a stream; a narrower scale has zeros above."""
C_BITS = 32
"""Width of an initial value of C: a float32, whatever the results are."""
_OPERANDS = "1 to some 7,000 for A, B and D together"
_STEP, _ROW = "a whole step", "a row of a tile"
_SWITCHES = ("initial_c", "keep_b")


class Tiles(NamedTuple):
    """The shape of a job as the unit counts it: tiles of C down and across, blocks of K."""

    m_tiles: int
    n_tiles: int
    k_blocks: int

    @property
    def tiles(self) -> int:
        """Tiles of C."""
        return self.m_tiles * self.n_tiles

    @property
    def steps(self) -> int:
        """Steps of the array: one multiplies a block in every dot unit."""
        return self.tiles * self.k_blocks


def _width(side: str, default: str, legal: str) -> dict[str, Any]:
    """Description of the option for the bytes of a stream's beat."""
    text = f"bytes of a beat of {side.upper()}, {legal}"
    return {"parse": int, "joint": True, "default_text": default, "help": text}


@unit
class MatmulConfig(ComposedUnitConfig):
    """A validated matrix unit: C = A B + D in tiles of `rows` x `columns` dot products.

    A step is what the array takes in one cycle: for each row a block of A, for each column a block
    of B. Raises TypeError or ValueError, naming the parameter, its range and the value.

    dot: the dot units, with float results and without micro-exponents. `load_c` follows
    `initial_c`: an input c that nobody drives is left out. With `interleave` above 1 the steps of
    up to that many tiles of a row take turns.
    """

    kind: ClassVar[str] = "matmul"
    title: ClassVar[str] = "MX matrix unit"
    items: ClassVar[str] = "results of products"
    own_dot_keywords: ClassVar[tuple[str, ...]] = ("load_c", "zero_points", "micro", "gate_idle")

    dot: DotConfig = DotConfig()
    rows: int = option(
        default=8,
        limits=(1, LARGEST_SIDE),
        help="dot units down the array, 1 to 64, less where steps or tiles have over 65,280 bits",
    )
    columns: int = option(default=8, limits=(1, LARGEST_SIDE), help="dot units across it, likewise")
    depth: int = option(
        default=32,
        limits=(DEPTHS[0], DEPTHS[-1]),
        help="blocks of K up to which a panel of A is sent once and kept, a power of two from 4 to "
        "1024; each operand's buffer holds 2 x depth steps",
    )
    a_bytes: int = option(default=None, converter=resolved, **_width("a", _STEP, _OPERANDS))
    b_bytes: int = option(default=None, converter=resolved, **_width("b", _STEP, _OPERANDS))
    c_bytes: int = option(default=None, converter=resolved, **_width("c", _ROW, "1 to some 4,000"))
    d_bytes: int = option(default=None, converter=resolved, **_width("d", _ROW, _OPERANDS))
    initial_c: bool = option(
        default=False, part="d", help="add the stream D of initial values of C"
    )
    keep_b: bool = option(
        default=False,
        part="kb",
        help="B is sent once, not for every row of tiles, where 2 x depth steps hold all of it",
    )

    def _resolve(self) -> None:
        dot = self.dot
        if not isinstance(dot, DotConfig):
            raise TypeError(f"dot must be a DotConfig, not {dot!r}")
        if dot.has_integers or dot.side_inputs:
            kind = f"{dot.out.name} results" if dot.has_integers else "micro-exponents"
            raise ValueError(
                f"dot must be a unit of float results without micro-exponents, not of {kind}"
            )
        if dot.gate_idle:
            raise ValueError(
                f"gate_idle in a {self.kind} unit must be False, not True: its buffers hold the "
                "operands still"
            )
        if self.depth not in DEPTHS:
            raise ValueError(f"depth must be a power of two from 4 to 1024, not {self.depth}")
        vars(self)["dot"] = replace(dot, load_c=self.initial_c)  # the dataclass is frozen
        check_array(
            self.rows,
            self.columns,
            record_a=self.record_bytes("a"),
            record_b=self.record_bytes("b"),
            out_bits=self.out.bits,
            c_bits=C_BITS * self.initial_c,
        )
        sides = ("a", "b", "c", "d")
        units = {side: self.unit_bytes(side) for side in sides}
        given = {side: self.stream_bytes(side) for side in sides}
        widths = {side: units[side] if width is None else width for side, width in given.items()}
        check_streams(widths, {side: units[side] for side in (*self.inputs, "c")})
        integer("d_bytes", widths["d"], 1, LARGEST_BEATS)
        vars(self).update({f"{side}_bytes": index(width) for side, width in widths.items()})

    @property
    def out(self) -> FloatFormat:
        """The format of the results."""
        assert isinstance(self.dot.out, FloatFormat)  # others are refused
        return self.dot.out

    @property
    def latency(self) -> int:
        """Cycles from a tile's last step to its results."""
        return self.dot.latency

    def element_bits(self, side: str) -> int:
        """Bits of an element of ``a`` or ``b`` in its stream."""
        return {"a": self.dot.bits_a, "b": self.dot.bits_b}[side]

    def record_bytes(self, side: str) -> int:
        """Bytes of one block of ``a`` or ``b`` in its stream: its codes, then its scales."""
        codes = -(-self.dot.lanes * self.element_bits(side) // 8)
        return codes + self.dot.scale_blocks * SCALE_BITS // 8

    def unit_bytes(self, side: str) -> int:
        """Bytes that the unit moves at once: a step of ``a`` or ``b``, a tile's row of c or d."""
        choice("side", side, ("a", "b", "c", "d"))
        if side in ("a", "b"):
            return (self.rows if side == "a" else self.columns) * self.record_bytes(side)
        return self.columns * (self.out.bits if side == "c" else C_BITS) // 8

    def stream_bytes(self, side: str) -> int:
        """Bytes of TDATA of the stream of ``a``, ``b``, ``c`` or ``d``."""
        return {"a": self.a_bytes, "b": self.b_bytes, "c": self.c_bytes, "d": self.d_bytes}[side]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The operand streams that the unit has."""
        return ("a", "b", "d") if self.initial_c else ("a", "b")

    def tiles(self, m: int, n: int, k: int) -> Tiles:
        """The registers' values for C (m, n) and products over k elements.

        Rows and columns that do not fill a tile are padded; ValueError when k is no whole number
        of blocks or when a count passes 65535.
        """
        sizes = {"m": (m, self.rows), "n": (n, self.columns), "k": (k, self.dot.lanes)}
        for name, (size, each) in sizes.items():
            integer(name, size, 1, each * LARGEST_COUNT)
        if k % self.dot.lanes:
            raise ValueError(f"k must be a multiple of the {self.dot.lanes} lanes, not {k}")
        return Tiles(*(-(-size // each) for size, each in sizes.values()))

    @property
    def group(self) -> int:
        """Tiles of a row whose steps take turns, in each of its groups but the last.

        As many as keep a loop of `dot.interval` registers busy, and so many that as few are left
        for the last group, where `dot.interleave` has room for them.
        """
        most, loop = self.dot.interleave, self.dot.interval
        return min(most, max(loop, most - loop + 1))

    def groups(self, n_tiles: int) -> list[int]:
        """The tiles of each group of a row; of the last one 1 to `dot.interleave`."""
        whole = max(0, -(-(n_tiles - self.dot.interleave) // self.group))
        return [self.group] * whole + [n_tiles - self.group * whole]

    @property
    def pace(self) -> float:
        """Cycles of a step in a long row, where streams keep up."""
        return max(1.0, self.dot.interval / self.group)

    @property
    def buffered_tiles(self) -> int:
        """Words of the buffers of results and of initial values; 0 where no tiles take turns.

        A power of two, for all tiles of a group begin and end together.
        """
        return 1 << self.dot.slot_bits if self.dot.slot_bits else 0

    @property
    def memory_bits(self) -> int:
        """Bits of the buffers of steps and of tiles."""
        steps = 2 * self.depth * 8 * (self.unit_bytes("a") + self.unit_bytes("b"))
        values = self.out.bits + C_BITS * self.initial_c
        return steps + self.buffered_tiles * self.rows * self.columns * values

    def waits(self, tiles: Tiles) -> int:
        """Cycles at most in which the array takes no step because those before it are in its loop.

        Of a group of `dot.interval` tiles or more there are none.
        """
        idle = sum(max(0, self.dot.interval - size) for size in self.groups(tiles.n_tiles))
        return tiles.m_tiles * (tiles.k_blocks - 1) * idle

    def keeps_a(self, tiles: Tiles) -> bool:
        """Whether a panel of A is sent once for a whole row of tiles, and not once for each."""
        return tiles.k_blocks <= self.depth

    def keeps_b(self, tiles: Tiles) -> bool:
        """Whether B is sent once for the whole job, and not once for each row of tiles."""
        return self.keep_b and tiles.n_tiles * tiles.k_blocks <= 2 * self.depth

    def bytes_of(self, side: str, tiles: Tiles) -> int:
        """Bytes of the one packet that a job sends over a stream."""
        if side in ("c", "d"):
            return tiles.tiles * self.rows * self.unit_bytes(side)
        steps = tiles.steps
        if side == "a":
            groups = 1 if self.keeps_a(tiles) else len(self.groups(tiles.n_tiles))
            steps = tiles.m_tiles * groups * tiles.k_blocks
        elif self.keeps_b(tiles):
            steps //= tiles.m_tiles
        return steps * self.unit_bytes(side)

    def __str__(self) -> str:
        """One line that names the unit, and that the command line's options repeat."""
        given = [
            f" {side}-bytes {self.stream_bytes(side)}"
            for side in (*self.inputs, "c")
            if self.stream_bytes(side) != self.unit_bytes(side)
        ]
        array = f"{self.rows}x{self.columns} depth {self.depth}"
        return f"{array}{''.join(given)}{self.words_of(_SWITCHES)} of {self.dot}"

    @property
    def name(self) -> str:
        parts = ["matmul", f"{self.rows}x{self.columns}x{self.depth}"]
        sides = (*self.inputs, "c")
        widths = [self.stream_bytes(side) for side in sides]
        if widths != [self.unit_bytes(side) for side in sides]:
            parts.append("w" + "_".join(map(str, widths)))
        parts += self.parts_of(_SWITCHES)
        return "-".join([*parts, self.dot.name.removesuffix("-noc")])
