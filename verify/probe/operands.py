"""Random dot products, by classes, on which an accumulator must agree with a unit to fit it."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import ElementFormat
from ...model.formats import FLOAT32
from .black_boxes import Codes

Shape = tuple[int, int]
Draw = Callable[[Generator, ElementFormat, Shape], Codes]


def _pick(rng: Generator, fmt: ElementFormat, shape: Shape, keep: NDArray[np.bool_]) -> Codes:
    codes = np.flatnonzero(keep).astype(fmt.dtype)
    return codes[rng.integers(0, len(codes), shape)]


def _magnitude(fmt: ElementFormat) -> NDArray[np.float64]:
    return np.abs(fmt.values)


def _normal(rng: Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """A normal distribution of deviation 1, rounded; subnormal results become zero."""
    codes = fmt.encode(rng.standard_normal(shape))
    flushed = _magnitude(fmt) < fmt.smallest_normal
    return np.where(flushed[codes], fmt.dtype.type(0), codes)


def _wide(rng: Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """Finite codes without subnormal ones."""
    size = _magnitude(fmt)
    return _pick(rng, fmt, shape, np.isfinite(fmt.values) & (size >= fmt.smallest_normal))


def _tiny(rng: Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """Subnormal codes and zeros, with others here and there."""
    tiny = _pick(rng, fmt, shape, _magnitude(fmt) < 2.0**fmt.emin)
    finite = _pick(rng, fmt, shape, np.isfinite(fmt.values))
    return np.where(rng.random(shape) < 0.05, finite, tiny)


def _sparse(rng: Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """Zeros of both signs, and one code in twenty another."""
    zeros = _pick(rng, fmt, shape, fmt.values == 0)
    return np.where(rng.random(shape) < 0.05, _wide(rng, fmt, shape), zeros)


def _any(rng: Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """Every code; NaN and infinities in few of the rows."""
    codes = rng.integers(0, 1 << fmt.bits, shape).astype(fmt.dtype)
    finite = np.isfinite(fmt.values)[codes]
    special = rng.random((shape[0], 1)) < 0.2
    rare = special & (rng.random(shape) < 2 / shape[1])
    return np.where(finite | rare, codes, _wide(rng, fmt, shape))


def _twice(draw: Draw) -> Draw:
    """Rows whose second half repeats the first."""

    def drawn(rng: Generator, fmt: ElementFormat, shape: Shape) -> Codes:
        first = draw(rng, fmt, (shape[0], shape[1] // 2))
        return np.concatenate([first, first], axis=1)

    return drawn


def _opposed(rng: Generator, fmt: ElementFormat, shape: Shape) -> Codes:
    """Rows whose second half negates the first, except one element in sixteen."""
    first = _wide(rng, fmt, (shape[0], shape[1] // 2))
    second = fmt.negated(first)
    other = _wide(rng, fmt, second.shape)
    second = np.where(rng.random(second.shape) < 1 / 16, other, second)
    return np.concatenate([first, second], axis=1)


def _edge(first: int, rest: int, share: float) -> Draw:
    """2^first at place 0, and in a share of the others values of about six exponents around `rest`.

    Zeros where the format has none of them.
    """

    def drawn(rng: Generator, fmt: ElementFormat, shape: Shape) -> Codes:
        size = _magnitude(fmt)
        near = (size >= 2.0 ** (rest - 3)) & (size < 2.0 ** (rest + 3))
        codes = _pick(rng, fmt, shape, near if near.any() else size == 0)
        codes = np.where(rng.random(shape) < share, codes, fmt.dtype.type(0))
        codes[:, 0] = np.flatnonzero(fmt.values == 2.0**first)[:1].sum()
        return codes

    return drawn


LOW = {
    "float32's end": (_edge(-74, -83, 0.1), _edge(-74, -83, 1)),
    "float16's end": (_edge(-12, -24, 0.1), _edge(-13, -24, 1)),
}
"""Ranges for formats of more than 8 bits: twice the least float32, half the least float16, and
products far below, which tell whether they are cut there."""


def classes(formats: tuple[ElementFormat, ElementFormat]) -> dict[str, tuple[Draw, Draw]]:
    """The classes of operands for these formats."""
    return CLASSES | LOW if max(fmt.bits for fmt in formats) > 8 else CLASSES


CLASSES: dict[str, tuple[Draw, Draw]] = {
    "normal": (_normal, _normal),
    "wide": (_wide, _wide),
    "cancelling": (_twice(_wide), _opposed),
    "sparse": (_sparse, _wide),
    "subnormal": (_tiny, _tiny),
    "any code": (_any, _any),
}
"""Name: how a and b are drawn."""

EXTREME_C = (
    0.0,
    -0.0,
    FLOAT32.smallest,
    -(2.0**-130),
    FLOAT32.smallest_normal,
    3.4e38,
    -3.4e38,
    np.inf,
    -np.inf,
)


def running_values(rng: Generator, sums: NDArray[np.float64]) -> NDArray[np.float32]:
    """c near `sums` (n,) in size, near minus them, +0, and extreme ones, each in some rows."""
    n = len(sums)
    scale = np.where(np.isfinite(sums) & (sums != 0), sums, 1.0)
    near = np.ldexp(scale * rng.uniform(-2, 2, n), rng.integers(-20, 21, n))
    against = -scale * rng.choice([1.0, 1 + 2.0**-20, 1 - 2.0**-12], n)
    kinds = [np.zeros(n), near, near, against, rng.choice([*EXTREME_C, np.nan], n)]
    chosen = rng.choice(len(kinds), n, p=[0.2, 0.3, 0.2, 0.2, 0.1])
    with np.errstate(over="ignore"):  # products of wide formats may be beyond float32
        return np.select([chosen == i for i in range(len(kinds))], kinds).astype(np.float32)
