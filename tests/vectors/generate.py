"""Write the golden vectors: .venv/bin/python tests/vectors/generate.py [DIRECTORY]

The operands are chosen here once and for all, so that only a change of the contract or of this file
changes the vectors. Random numbers are raw words of PCG64, whose stream NumPy promises to keep.
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from mxdot.model import DotConfig, ElementFormat
from mxdot.sim.dot.item import Batch
from mxdot.sim.dot.target import Target
from mxdot.sim.dot.vectors import Vectors, evaluate, save

HERE = Path(__file__).parent
COMMAND = "python tests/vectors/generate.py"

ACCUMULATORS = (
    *("exact", "aligned:13", "aligned:25", "aligned:4", "fused:13", "fused:25"),
    *("fixed:48:-20", "fixed:24:-8:wrap", "fixed:640:-286", "float32"),
    *("hopper", "hopper-promoted", "hopper-mx", "hopper-fp16", "ada", "blackwell"),
)

# A unit promotes between its blocks, not inside them.
OF_128_LANES = tuple(text for text in ACCUMULATORS if text != "hopper-mx")
JOINED = ("fused:13", "fused:25", "hopper", "ada", "blackwell", "blackwell-mxf4nvf4")


@dataclass(frozen=True)
class File:
    """The units of a file: their formats, lanes and scales, and one for each accumulator."""

    formats: str
    lanes: int = 32
    scales: str = "e8m0"
    scale_block: int | None = None
    accumulators: tuple[str, ...] = ACCUMULATORS


FILES = {
    **{name: File(name) for name in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")},
    "int8": File("int8", accumulators=(*ACCUMULATORS, "int32")),
    **{name: File(name) for name in ("e4m3xe5m2", "e5m2xe4m3", "e3m2xe2m3", "e2m1xe4m3")},
    "int8xe4m3": File("int8xe4m3"),
    "e4m3-4-lanes": File("e4m3", 4),
    "e5m2-128-lanes": File("e5m2", 128, accumulators=OF_128_LANES),
    "e2m1-16-lanes-e4m3-scales": File("e2m1", 16, "e4m3"),
    "e5m2xe4m3-e4m3-scales": File("e5m2xe4m3", 32, "e4m3"),
    "e2m1-64-lanes-e4m3-scales": File("e2m1", 64, "e4m3", 16, JOINED),  # four scales of a block
}

# The ends of normal (and subnormal) scales, one, and NaN.
SCALE_ENDS = {"e8m0": (0, 1, 127, 253, 254, 255), "e4m3": (0, 1, 7, 8, 56, 125, 126, 127)}
C_SPECIAL = (
    *(0x00000000, 0x80000000),  # zeros
    *(0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF),  # ends of the subnormals
    *(0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF),  # ends of the normals
    *(0x7F800000, 0xFF800000),  # infinities
    *(0x7FC00000, 0x7FFFFFFF, 0x7F800001, 0xFFC00001),  # NaN: quiet, all ones, signalling, negative
)


def bits(value: float) -> int:
    """The float32 bits of `value`."""
    return int(np.float32(value).view(np.uint32))


@dataclass(frozen=True)
class Term:
    """An element of a and one of b, by code."""

    a: int
    b: int


@dataclass(frozen=True)
class Block:
    """Codes of a and b for every lane (lanes,), and the scale codes: () or, of several, (n,)."""

    a: np.ndarray
    b: np.ndarray
    scale_a: np.ndarray
    scale_b: np.ndarray


Row = tuple[list[Block], int]  # a dot product: blocks and the bits of c


class Maker:
    """What the cases are made of, for one pair of formats."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self.words = np.random.PCG64(seed)
        low, high = target.pairs.limits
        find = target.pairs.find
        self.powers = [e for e in range(low, high + 1) if find(2.0**e) and find(-(2.0**e))]
        self.bottom, self.top = self.powers[0], self.powers[-1]
        self.largest = Term(target.format_a.largest_code, target.format_b.largest_code)
        self.least = self.power(self.bottom)
        self.scale = target.config.scale_format
        count = target.config.scale_blocks
        self.scale_shape = (count,) if count > 1 else ()

    def power(self, exponent: int, negative: bool = False) -> Term:
        """A term whose product is +-2^exponent; ValueError if the formats have none."""
        found = self.target.pairs.find(-(2.0**exponent) if negative else 2.0**exponent)
        if found is None:
            raise ValueError(f"exponent must be among {self.powers}, not {exponent}")
        return Term(*found)

    def negative(self, term: Term) -> Term:
        """The term with the other sign."""
        (b,) = self.target.format_b.negated(np.array([term.b], np.uint8))
        return Term(term.a, int(b))

    def block(self, terms: Iterable[Term | None], s: int = 0) -> Block:
        """`terms` spread over the lanes, zeros elsewhere, under scales that add up to 2^s."""
        a, b = np.zeros((2, self.target.lanes), np.uint8)
        for i, term in enumerate(terms):
            lane = (7 * i + 3) % self.target.lanes
            a[lane], b[lane] = (term.a, term.b) if term else (0, 0)
        half = int(np.clip(s // 2, self.scale.emin, self.scale.emax))
        rest = int(np.clip(s - half, self.scale.emin, self.scale.emax))
        return self.scaled(a, b, half, rest)

    def scaled(self, a: np.ndarray, b: np.ndarray, *exponents: int) -> Block:
        """These codes under scales of 2^exponent, of one if no exponents are given."""
        codes = [self.scale_code(e) for e in exponents or (0, 0)]
        return Block(a, b, *(np.full(self.scale_shape, code, np.uint8) for code in codes))

    def scale_code(self, exponent: int) -> int:
        """The scale code of 2^exponent; 0 below normal numbers, NaN above the largest."""
        code = (exponent + self.scale.bias) << self.scale.mantissa_bits
        return min(max(code, 0), SCALE_ENDS[self.scale.name][-1])

    def lift(self, s: int) -> int:
        """What must be added to s, and to the exponent of c, so that two scales reach 2^s."""
        return max(0, 2 * self.scale.emin - s)

    def random(self, limit: int, shape: tuple[int, ...]) -> np.ndarray:
        """Integers from 0 to limit - 1 (all but evenly distributed)."""
        words = self.words.random_raw(int(np.prod(shape)))
        return (words % np.uint64(limit)).astype(np.int64).reshape(shape)

    def codes(self, fmt: ElementFormat, finite: bool = True) -> np.ndarray:
        """One random code for each lane."""
        allowed = np.flatnonzero(np.isfinite(fmt.values) | (not finite))
        return allowed[self.random(len(allowed), (self.target.lanes,))].astype(np.uint8)

    def random_block(self, low: int, high: int, finite: bool = True) -> Block:
        """Random codes under random scales, from the code of 2^low to that of 2^high."""
        nan = SCALE_ENDS[self.scale.name][-1]
        first, last = self.scale_code(low), min(self.scale_code(high), nan - finite)
        scales = first + self.random(last - first + 1, (2, *self.scale_shape))
        a, b = (self.codes(f, finite) for f in (self.target.format_a, self.target.format_b))
        return Block(a, b, *scales)

    def value(self, block: Block) -> float:
        """The sum of the block's products without its scale, rounded to float64."""
        values_a, values_b = self.target.format_a.values, self.target.format_b.values
        return math.fsum(values_a[block.a] * values_b[block.b])


Case = Callable[[Maker], Iterator[Row]]


def zeros(make: Maker) -> Iterator[Row]:
    """Sums of nothing but zeros of either sign."""
    for c in C_SPECIAL:
        yield [make.block([])], c
    minus = make.block([make.negative(Term(0, 0))] * make.target.lanes)
    for c in (0, bits(-0.0), bits(1.5)):
        yield [minus, minus], c


def specials(make: Maker) -> Iterator[Row]:
    """Every non-finite element beside finite ones and each other; infinite and NaN c."""
    format_a, format_b = make.target.format_a, make.target.format_b
    one = make.power(0)
    odd_a = np.flatnonzero(~np.isfinite(format_a.values)).tolist()
    odd_b = np.flatnonzero(~np.isfinite(format_b.values)).tolist()
    minus_one = make.negative(one)
    for code in odd_a:
        for b in dict.fromkeys((0, one.b, minus_one.b)):
            yield [make.block([one, Term(code, b)])], 0
    for code in odd_b:
        for a in (0, one.a):
            yield [make.block([one, Term(a, code)])], 0
    infinities = [Term(x, one.b) for x in odd_a if np.isinf(format_a.values[x])]
    infinities += [Term(one.a, x) for x in odd_b if np.isinf(format_b.values[x])]
    for x, y in product(infinities, repeat=2):
        yield [make.block([x, y])], 0
        yield [make.block([x]), make.block([y])], 0
    for x in infinities:
        for c in (0x7F800000, 0xFF800000, 0x7FC00000):
            yield [make.block([x, one])], c
    for c in C_SPECIAL:
        yield [make.block([one])], c
        yield [make.block([minus_one], s=-140), make.block([one], s=-140)], c


def scales(make: Maker) -> Iterator[Row]:
    """Both ends of both scales and their NaN, in any place, under a large, a small, no product."""
    for i, ends in enumerate(product(SCALE_ENDS[make.scale.name], repeat=2)):
        for terms in ([make.largest, make.least], [make.negative(make.least)], []):
            block = make.block(terms)
            place = (i + i // 8) % block.scale_a.size
            block.scale_a.flat[place], block.scale_b.flat[place] = ends
            yield [block], bits(1.0) if len(terms) == 1 else 0


def ties(make: Maker) -> Iterator[Row]:
    """Half a unit in c's last place, and a tiny term that decides."""
    tiny = make.least
    for c, below, sign in product((1.0, 1 + 2**-23, -2 + 2**-23), (24, 25), (False, True)):
        half = make.power(make.top, sign)
        lift = make.lift(-below - make.top)
        for other in (None, tiny, make.negative(tiny)):
            block = make.block([half, other], s=lift - below - make.top)
            yield [block], bits(c * 2.0**lift)


def alignment(make: Maker) -> Iterator[Row]:
    """A large term, or c, and a small one at every distance."""
    large = make.power(make.top)
    for i, e in enumerate(make.powers):
        yield [make.block([large, make.power(e, negative=i % 2 == 0)])], 0
    for distance in (12, 13, 14, 22, 23, 24, 25, 26, 60):
        lift = make.lift(-distance)
        block = make.block([make.negative(make.least), large], s=lift - distance)
        yield [block], bits(2.0 ** (make.top + lift))
        yield [block], bits(-(2.0 ** (make.top + lift)))


def grid(make: Maker) -> Iterator[Row]:
    """Many terms at the last digits that the alignment keeps or drops, against one large term."""
    large = make.power(make.top)
    for kept, step in product((4, 13, 25), (-1, 0, 1, 2)):
        if make.top - kept - step in make.powers:
            small = make.power(make.top - kept - step, negative=True)
            yield [make.block([large] + [small] * (make.target.lanes - 1))], 0
            c = bits(2.0 ** (make.top + kept + step))
            yield [make.block([make.negative(large)] * (make.target.lanes // 2))], c


def facts(make: Maker) -> Iterator[Row]:
    """What was measured: 2^16 keeps 2^3, loses 31 x 7, keeps 31 x 8, loses 31 x -7."""
    find = make.target.pairs.find
    large = find(65536.0)
    for value, count in ((8.0, 1), (7.0, 31), (8.0, 31), (-7.0, 31)):
        small = find(value)
        if large and small and make.target.lanes > count:
            yield [make.block([Term(*large)] + [Term(*small)] * count)], 0
            yield [make.block([Term(*small)] * count, s=0)], bits(65536.0)


def sticky(make: Maker) -> Iterator[Row]:
    """Negative sums that lose digits when they are shifted right."""
    large = make.power(make.top)
    for distance in (1, 4, 13, 14, 24, 25, 30):
        small = make.power(max(make.top - distance, make.bottom))
        for first in (large, make.negative(large)):
            terms = [first, make.negative(small), make.negative(make.least)]
            yield [make.block(terms)], bits(1.0)
            yield [make.block(terms, s=-make.top - 8)], 0
            yield [make.block(terms, s=-make.top - 21)], 0


def cancellation(make: Maker) -> Iterator[Row]:
    """Blocks that cancel but for one term, and a c that cancels a block up to two units."""
    half = make.target.lanes // 2
    for i in range(8):
        block = make.random_block(0, 0)
        a, b = block.a.copy(), block.b.copy()
        a[half:], b[half:] = a[:half], make.target.format_b.negated(b[:half])
        if i % 4:
            rest = make.power(make.powers[(i * 5) % len(make.powers)])
            a[0] = a[half] = b[half] = 0
            b[0], a[-1], b[-1] = 0, rest.a, rest.b
        yield [make.scaled(a, b)], 0
    for ulps in (-2, -1, 0, 1, 2):
        block = make.random_block(0, 0)
        yield [block], (bits(-make.value(block)) + ulps) & 0xFFFFFFFF


def limits(make: Maker) -> Iterator[Row]:
    """Sums that leave the range of float32 or of a fixed register, and come back."""
    everywhere = [make.largest] * make.target.lanes
    reach = math.frexp(make.value(make.block(everywhere)))[1]
    for limit, step, sign in product((128, 27, 15), (-1, 0, 1), (False, True)):
        terms = [make.negative(t) for t in everywhere] if sign else everywhere
        there = make.block(terms, s=limit - reach + step)
        back = make.block([make.negative(t) for t in terms], s=limit - reach + step)
        yield [there], 0
        yield [there, there, back], bits(3.0)
    for c, sign in product((0x7F7FFFFF, 0xFF7FFFFF), (False, True)):
        for s in (102, 103, 104):
            yield [make.block([make.power(make.top, sign)], s=s - make.top)], c


def subnormals(make: Maker) -> Iterator[Row]:
    """Results among the subnormals of float32, and below them."""
    for e, c in product((-152, -150, -149, -148, -140, -127, -126), (0, 1, 0x80000001, 0x80800000)):
        terms = [make.power(make.top), make.power(make.bottom)]
        yield [make.block(terms, s=e - make.top)], c


def codes(make: Maker) -> Iterator[Row]:
    """Every code of a and of b, beside one and beside itself."""
    one, lanes = make.power(0), make.target.lanes
    every_a = np.resize(np.arange(2**make.target.format_a.bits), 256).astype(np.uint8)
    every_b = np.resize(np.arange(2**make.target.format_b.bits), 256).astype(np.uint8)
    for i in range(0, 256, lanes):
        yield [make.scaled(every_a[i : i + lanes], np.full(lanes, one.b, np.uint8))], 0
        yield [make.scaled(np.full(lanes, one.a, np.uint8), every_b[i : i + lanes])], 0
        yield [make.scaled(every_a[i : i + lanes], every_b[i : i + lanes])], 0


def chains(make: Maker) -> Iterator[Row]:
    """Products of up to nine blocks: promotion, drift."""
    for blocks in (2, 3, 4, 4, 5, 8, 9):
        c = bits(float(make.random(1000, ())) - 500)
        yield [make.random_block(-3, 3) for _ in range(blocks)], c


def near(make: Maker) -> Iterator[Row]:
    """Random finite operands, scales and c near one."""
    for i in range(40):
        c = 0x3A000000 + int(make.random(0x08000000, ())) | int(make.random(2, ())) << 31
        yield [make.random_block(-6, 6) for _ in range(1 + i % 3)], c if i % 4 else 0


def wide(make: Maker) -> Iterator[Row]:
    """Random finite operands under any scales."""
    for i in range(24):
        c = int(make.random(0x7F800000, ())) | int(make.random(2, ())) << 31
        yield [make.random_block(-127, 127) for _ in range(1 + i % 2)], c


def raw(make: Maker) -> Iterator[Row]:
    """Random bits."""
    for i in range(16):
        blocks = [make.random_block(-127, 128, finite=False) for _ in range(1 + i % 2)]
        yield blocks, int(make.random(2**32, ()))


CASES: tuple[Case, ...] = (
    *(zeros, specials, scales, ties, alignment, grid, facts, sticky, cancellation, limits),
    *(subnormals, codes, chains, near, wide, raw),
)


def batches(make: Maker) -> Iterator[Batch]:
    """Every case, its dot products grouped by their number of blocks."""
    for case in CASES:
        groups: dict[int, list[Row]] = {}
        for row in case(make):
            groups.setdefault(len(row[0]), []).append(row)
        for rows in groups.values():
            yield make.target.batch(
                np.stack([[block.a for block in blocks] for blocks, _ in rows]),
                np.stack([[block.b for block in blocks] for blocks, _ in rows]),
                (
                    np.array([[x.scale_a for x in blocks] for blocks, _ in rows], np.uint8),
                    np.array([[x.scale_b for x in blocks] for blocks, _ in rows], np.uint8),
                ),
                np.array([c for _, c in rows], np.uint32),
                case.__name__,
            )


def golden(name: str) -> Vectors:
    """The vectors of the file NAME.npz."""
    file = FILES[name]
    options = {key: value for key, value in vars(file).items() if key != "accumulators"}
    configs = [DotConfig(accumulator=text, **options) for text in file.accumulators]
    made = list(batches(Maker(Target(configs[0], 0), seed=list(FILES).index(name))))
    return evaluate(configs, made, np.arange(sum(map(len, made))), {"command": COMMAND})


def main() -> None:
    """Write every file."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name in FILES:
        vectors = golden(name)
        save(vectors, directory / f"{name}.npz")
        units = len(vectors.configs)
        print(f"{name}.npz: {len(vectors)} dot products, {len(vectors.a)} blocks, {units} units")


if __name__ == "__main__":
    main()
