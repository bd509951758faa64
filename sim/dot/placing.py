"""What directed sequences are made of: products in their places, and values of c beside them."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import DotConfig, dot
from ...model.accumulators import any_operands
from ...model.formats import FLOAT32
from ..bench.operands import Codes
from .item import Batch, operands
from .target import Ints, Target

LEAST = 6  # exponents of the smallest products


def signs(rng: Generator, n: int) -> NDArray[np.bool_]:
    """True where negative, either as often as the other."""
    return rng.random(n) < 0.5


def lanes(rng: Generator, target: Target, n: int, count: int) -> Ints:
    """`count` different lanes for each of n rows."""
    return rng.random((n, target.lanes)).argsort(axis=1)[:, :count]


def put(
    target: Target,
    rng: Generator,
    a: Codes,
    b: Codes,
    block: int,
    lane: Ints | int,
    exponent: Ints,
    negative: NDArray[np.bool_],
    power: bool = False,
) -> None:
    """Place one product of each row's exponent and sign into block `block`, lane `lane`."""
    rows = np.arange(len(a))
    code_a, code_b = target.pairs.draw(rng, exponent, negative, power)
    a[rows, block, lane] = code_a
    b[rows, block, lane] = code_b


def fractions(rng: Generator, n: int) -> Ints:
    """Fraction fields of c at which carries, ties and borrows happen."""
    fixed = np.array([0, 1, 2, 0x7FFFFF, 0x7FFFFE, 0x400000, 0x3FFFFF, 0x555555, 0x1FFF, 0x2000])
    random = rng.integers(0, 2**23, n)
    return np.where(rng.random(n) < 0.7, fixed[rng.integers(0, len(fixed), n)], random)


def nearly_negated(target: Target, rng: Generator, batch: Batch) -> NDArray[np.uint32]:
    """The negated results of blocks, a few units away: of the last place, or in every second row of
    each place in turn."""
    n = len(batch)
    block = _without_c(target.config, batch).view(np.uint32).astype(np.int64)
    last = 1 << (FLOAT32.mantissa_bits - target.config.accumulator.running.mantissa_bits)
    place = np.where(np.arange(n) % 2, np.arange(n) // 2 % FLOAT32.mantissa_bits, 0)
    away = last * rng.integers(-2, 3, n) << place
    moved = np.clip((block & 0x7FFFFFFF) + away, 0, 0x7FFFFFFF)
    return ((~block & 0x80000000) | moved).astype(np.uint32)


@any_operands()
def _without_c(config: DotConfig, batch: Batch) -> NDArray[np.float32]:
    """The results of the rule from 0, without micro-exponents, as float32."""
    a, b = operands(config, batch)
    return dot(a, b, config.accumulator, scale_format=config.scale_format)
