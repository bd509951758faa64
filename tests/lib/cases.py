"""Random and adversarial operands of dot products, shared by the tests of the model and the RTL.

Each dot product draws one class of operands, one of scales and one of running values c. All is
vectorised NumPy over an explicit Generator: the same generator state gives the same cases.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mxdot.model import E8M0, ElementFormat, MXArray, element_format

Codes = NDArray  # of the format's dtype
Shape = tuple[int, int, int]  # dot products, blocks, elements of a block


@dataclass(frozen=True)
class Cases:
    """n dot products: `a` and `b` of shape (n, blocks x k) in blocks of k, float32 `c` (n,).

    scale_format: what the blocks' scale codes are.
    """

    a: MXArray
    b: MXArray
    c: NDArray[np.float32]
    scale_format: str = "e8m0"

    def __len__(self) -> int:
        return len(self.c)

    def __getitem__(self, rows: slice) -> "Cases":
        return Cases(_rows(self.a, rows), _rows(self.b, rows), self.c[rows], self.scale_format)


def _rows(x: MXArray, rows: slice) -> MXArray:
    return MXArray(x.codes[rows], x.scales[rows], x.format, x.block_size)


# Codes of one format ----------------------------------------------------------------------------


def _pick(rng: np.random.Generator, codes: NDArray, shape: tuple[int, ...]) -> Codes:
    return codes[rng.integers(0, len(codes), shape)]


def _where(fmt: ElementFormat, condition: Callable[[NDArray], NDArray]) -> NDArray:
    """The codes whose values meet the condition."""
    return np.flatnonzero(condition(fmt.values)).astype(fmt.dtype)


@cache
def _zeros(fmt: ElementFormat) -> NDArray:
    return _where(fmt, lambda v: v == 0)


@cache
def _numbers(fmt: ElementFormat) -> NDArray:
    return _where(fmt, np.isfinite)


@cache
def _ones(fmt: ElementFormat) -> NDArray:
    return _where(fmt, lambda v: (np.abs(v) >= 0.5) & (np.abs(v) <= 2))


@cache
def _subnormals(fmt: ElementFormat) -> NDArray:
    limit = 8 * fmt.smallest if fmt.is_integer else 2.0**fmt.emin
    return _where(fmt, lambda v: np.abs(v) < limit)


@cache
def _odd(fmt: ElementFormat) -> NDArray:
    return _where(fmt, lambda v: ~np.isfinite(v) | (v == 0) | (v == fmt.values.min()))


def _any_code(rng: np.random.Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    return _pick(rng, np.arange(1 << fmt.bits, dtype=fmt.dtype), shape)


def _finite(rng: np.random.Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    return _pick(rng, _numbers(fmt), shape)


def _near_one(rng: np.random.Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    return _pick(rng, _ones(fmt), shape)


def _wide(rng: np.random.Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """Every exponent, subnormal ones too, as likely as every other."""
    codes, first, count = _by_exponent(fmt)
    chosen = rng.integers(0, len(first), shape)
    return codes[first[chosen] + rng.integers(0, count[chosen])]


@cache
def _by_exponent(fmt: ElementFormat) -> tuple[Codes, NDArray, NDArray]:
    """Codes of numbers but zero by exponent, and the first and the count of each."""
    codes = _where(fmt, lambda v: np.isfinite(v) & (v != 0))
    exponents = np.frexp(fmt.values[codes])[1]
    codes = codes[np.argsort(exponents, kind="stable")]
    _, first, count = np.unique(np.sort(exponents), return_index=True, return_counts=True)
    return codes, first, count


def _tiny(rng: np.random.Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """Subnormal values and zeros, with a normal one here and there."""
    tiny = _pick(rng, _subnormals(fmt), shape)
    return np.where(rng.random(shape) < 0.05, _finite(rng, fmt, shape), tiny)


def _largest(rng: np.random.Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """The largest magnitude, of one sign in half of the dot products."""
    largest = np.array([fmt.largest_code], fmt.dtype)
    codes = np.concatenate([largest, fmt.negated(largest)])
    mixed = rng.random((shape[0], 1, 1)) < 0.5
    return np.where(mixed, _pick(rng, codes, shape), _pick(rng, codes, (shape[0], 1, 1)))


def _special(rng: np.random.Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """Finite codes with an Inf, a NaN, a zero or (INT8) -2 here and there."""
    rare = rng.choice([0.02, 0.3], (shape[0], 1, 1))
    return np.where(
        rng.random(shape) < rare, _pick(rng, _odd(fmt), shape), _finite(rng, fmt, shape)
    )


def _sparse(rng: np.random.Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """Zeros of both signs; finite codes here and there, nowhere in some dot products."""
    share = rng.choice([0.0, 0.1, 0.5], (shape[0], 1, 1))
    zeros = _pick(rng, _zeros(fmt), shape)
    return np.where(rng.random(shape) < share, _wide(rng, fmt, shape), zeros)


# Codes of both operands -------------------------------------------------------------------------

Pair = tuple[Codes, Codes]
PairMaker = Callable[[np.random.Generator, ElementFormat, ElementFormat, Shape], Pair]


def _both(one: Callable[[np.random.Generator, ElementFormat, Shape], Codes]) -> PairMaker:
    return lambda rng, fmt_a, fmt_b, shape: (one(rng, fmt_a, shape), one(rng, fmt_b, shape))


def _cancelling(
    rng: np.random.Generator, fmt_a: ElementFormat, fmt_b: ElementFormat, shape: Shape
) -> Pair:
    """A block's second half negates its first, up to one element that is left over or changed."""
    n, blocks, k = shape
    a, b = _wide(rng, fmt_a, shape), _wide(rng, fmt_b, shape)
    half = k // 2
    a[..., half : 2 * half] = fmt_a.negated(a[..., :half])
    b[..., half : 2 * half] = b[..., :half]
    changed = rng.random((n, blocks)) < 0.7
    a[..., -1] = np.where(changed, _tiny(rng, fmt_a, shape)[..., 0], a[..., -1])
    b[..., -1] = np.where(changed, _tiny(rng, fmt_b, shape)[..., 0], b[..., -1])
    order = rng.permuted(np.broadcast_to(np.arange(k), shape), axis=-1)
    return np.take_along_axis(a, order, -1), np.take_along_axis(b, order, -1)


def _one_large(
    rng: np.random.Generator, fmt_a: ElementFormat, fmt_b: ElementFormat, shape: Shape
) -> Pair:
    """One large product over small ones: long alignment shifts."""
    a, b = _wide(rng, fmt_a, shape), _tiny(rng, fmt_b, shape)
    lane = np.arange(shape[2]) == rng.integers(0, shape[2], (*shape[:2], 1))
    return (
        np.where(lane, _largest(rng, fmt_a, shape), a),
        np.where(lane, _largest(rng, fmt_b, shape), b),
    )


OPERANDS: dict[str, PairMaker] = {
    "any code": _both(_any_code),
    "finite": _both(_finite),
    "near one": _both(_near_one),
    "wide": _both(_wide),
    "tiny": _both(_tiny),
    "largest": _both(_largest),
    "special": _both(_special),
    "sparse": _both(_sparse),
    "cancelling": _cancelling,
    "one large": _one_large,
}


# Scales -----------------------------------------------------------------------------------------

# Ranges of both scale codes. At "bottom" and "top" the results reach the ends of float32.
SCALES = {
    "unit": (127, 127),
    "moderate": (119, 135),
    "low end": (0, 3),
    "high end": (251, 254),
    "bottom": (46, 72),
    "top": (178, 194),
    "any": (0, 254),
    "nan": (119, 135),
}


def _scale_pair(rng: np.random.Generator, name: str, shape: tuple[int, int]) -> Pair:
    low, high = SCALES[name]
    a, b = rng.integers(low, high + 1, (2, *shape)).astype(np.uint8)
    if name == "nan":
        where = rng.random((2, *shape)) < 0.3
        a[where[0]] = b[where[1]] = E8M0.nan_code
    return a, b


# Running values ---------------------------------------------------------------------------------


def _from_bits(bits: NDArray) -> NDArray[np.float32]:
    return bits.astype(np.uint32).view(np.float32)


def _random_c(rng: np.random.Generator, low: int, high: int, n: int) -> NDArray[np.float32]:
    """Both signs of float32 whose magnitudes have bits from `low` to `high` - 1."""
    return _from_bits(rng.integers(low, high, n) | rng.integers(0, 2, n) << 31)


def _cancel(rng: np.random.Generator, sums: NDArray[np.float64]) -> NDArray[np.float32]:
    """Minus `sums`, within two units in the last place."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = -sums.astype(np.float32)
    finite = np.where(np.abs(near) < 2.0**126, near, np.float32(1))
    bits = finite.view(np.uint32).astype(np.int64)
    return _from_bits(np.where(finite == 0, bits, bits + rng.integers(-2, 3, len(sums))))


def _beside(rng: np.random.Generator, sums: NDArray[np.float64]) -> NDArray[np.float32]:
    """Within a factor of 2^30 of `sums`, with random low bits."""
    finite = np.where(np.abs(sums) < 2.0**90, sums, 1.0)
    scaled = np.ldexp(finite * rng.uniform(-2, 2, len(sums)), rng.integers(-30, 31, len(sums)))
    return scaled.astype(np.float32)


RUNNING: dict[str, Callable[[np.random.Generator, NDArray[np.float64]], NDArray[np.float32]]] = {
    "zero": lambda rng, sums: np.zeros(len(sums), np.float32),
    "minus zero": lambda rng, sums: -np.zeros(len(sums), np.float32),
    "normal": lambda rng, sums: _random_c(rng, 120 << 23, 135 << 23, len(sums)),
    "any": lambda rng, sums: _random_c(rng, 0, 0x7F800000, len(sums)),
    "subnormal": lambda rng, sums: _random_c(rng, 0, 1 << 23, len(sums)),
    "huge": lambda rng, sums: _random_c(rng, 0x7F000000, 0x7F800000, len(sums)),
    "cancel": _cancel,
    "beside": _beside,
    "inf": lambda rng, sums: _random_c(rng, 0x7F800000, 0x7F800001, len(sums)),
    "nan": lambda rng, sums: _random_c(rng, 0x7F800001, 0x80000000, len(sums)),
}


# Dot products -----------------------------------------------------------------------------------

# Classes that mostly decide the result by themselves are rare.
WEIGHTS = {"special": 0.5, "any code": 0.5, "nan": 0.1, "inf": 0.1, "any": 0.6}


def _classes(rng: np.random.Generator, names: list[str], n: int) -> Iterable[tuple[str, NDArray]]:
    """Each name with the dot products that draw it."""
    weights = np.array([WEIGHTS.get(name, 1.0) for name in names])
    drawn = rng.choice(len(names), n, p=weights / weights.sum())
    return [(name, np.flatnonzero(drawn == i)) for i, name in enumerate(names)]


def random_cases(
    rng: np.random.Generator,
    formats: tuple[ElementFormat | str, ElementFormat | str],
    n: int,
    blocks: int,
    k: int,
    *,
    operands: Iterable[str] = OPERANDS,
    scales: Iterable[str] = SCALES,
    running: Iterable[str] = RUNNING,
) -> Cases:
    """n dot products over `blocks` blocks of k elements, from the named classes."""
    fmt_a, fmt_b = map(element_format, formats)
    a, b = (np.zeros((n, blocks, k), fmt.dtype) for fmt in (fmt_a, fmt_b))
    for name, rows in _classes(rng, list(operands), n):
        a[rows], b[rows] = OPERANDS[name](rng, fmt_a, fmt_b, (len(rows), blocks, k))
    scale_a, scale_b = np.zeros((2, n, blocks), np.uint8)
    for name, rows in _classes(rng, list(scales), n):
        scale_a[rows], scale_b[rows] = _scale_pair(rng, name, (len(rows), blocks))
    first = first_sums(fmt_a.values[a], fmt_b.values[b], scale_a, scale_b)
    c = np.zeros(n, np.float32)
    for name, rows in _classes(rng, list(running), n):
        c[rows] = RUNNING[name](rng, first[rows])
    return Cases(
        MXArray(a.reshape(n, blocks * k), scale_a, fmt_a, k),
        MXArray(b.reshape(n, blocks * k), scale_b, fmt_b, k),
        c,
    )


def cases_of_each_class(
    rng: np.random.Generator, formats: tuple[str, str], n: int, blocks: int, k: int
) -> Iterator[Cases]:
    """Random cases of each class of operands, scales and running values alone."""
    for name in OPERANDS:
        yield random_cases(rng, formats, n, blocks, k, operands=[name])
    for name in SCALES:
        yield random_cases(rng, formats, n, blocks, k, operands=["wide"], scales=[name])
    for name in RUNNING:
        yield random_cases(rng, formats, n, blocks, k, operands=["wide"], running=[name])


def first_sums(
    a: NDArray[np.float64], b: NDArray[np.float64], scale_a: Codes, scale_b: Codes
) -> NDArray[np.float64]:
    """About what the first block of each dot product adds to c; 0 where that is not finite."""
    exponent = scale_a[:, 0].astype(int) + scale_b[:, 0] - 2 * E8M0.bias
    with np.errstate(invalid="ignore"):
        sums = np.ldexp((a[:, 0] * b[:, 0]).sum(axis=-1), exponent)
    return np.where(np.isfinite(sums), sums, 0.0)


def under_e4m3(rng: np.random.Generator, cases: Cases) -> Cases:
    """The same elements under any E4M3 scales, zeros, subnormals and NaN among them, with a c
    near the sums in every second row."""
    n, shape = len(cases), cases.a.scales.shape
    near = rng.integers(40, 72, (2, *shape))
    anything = rng.integers(0, 127, (2, *shape))
    codes = np.where(rng.random((2, n, 1)) < 0.5, near, anything)
    codes[rng.random(codes.shape) < 0.01] = 127
    codes[rng.random(codes.shape) < 0.03] = 0
    a, b = (
        MXArray(x.codes, scales.astype(np.uint8), x.format, x.block_size)
        for x, scales in zip((cases.a, cases.b), codes, strict=True)
    )
    exponent = rng.integers(-24, 24, n)
    c = np.ldexp(rng.standard_normal(n), exponent).astype(np.float32)
    c = np.where(rng.random(n) < 0.5, c, cases.c)
    return replace(cases, a=a, b=b, c=c, scale_format="e4m3")
