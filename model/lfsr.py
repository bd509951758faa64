"""Random words of a quantiser in RTL: one 32-bit linear feedback shift register per lane.

The register is Marsaglia's xorshift (Journal of Statistical Software 8(14), 2003), linear over
GF(2), with the full period of 2^32 - 1. Its state is the word. All lanes run through one sequence;
lane i starts i x 2^25 steps after lane 0, so that 128 lanes do not meet in 2^25 - 1 steps.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .errors import integer

WORD_BITS = 32
SHIFTS = (13, 17, 5)
"""Places by which the state is shifted left, right and left, and xored with itself."""
LANE_STEPS = 2**25
DEFAULT_SEED = 0x9E3779B9
_ONES = 2**WORD_BITS - 1


def step(state: int) -> int:
    """The state after `state`."""
    left, right, last = SHIFTS
    state ^= state << left & _ONES
    state ^= state >> right
    return state ^ (state << last & _ONES)


def lane_seeds(seed: int, lanes: int) -> list[int]:
    """The first word of each lane; ValueError unless `seed` is from 1 to 2^32 - 1."""
    seeds = [integer("seed", seed, 1, _ONES)]
    jump = _power(LANE_STEPS)
    for _ in range(1, lanes):
        seeds.append(_apply(jump, seeds[-1]))
    return seeds


def words(seed: int, lanes: int, beats: int, first: int = 0) -> NDArray[np.uint32]:
    """Words (beats, lanes) of `beats` beats, from beat number `first` on."""
    jump = _power(first)
    state = np.array([_apply(jump, s) for s in lane_seeds(seed, lanes)], np.uint32)
    out = np.empty((beats, lanes), np.uint32)
    left, right, last = map(np.uint32, SHIFTS)
    for row in out:
        row[:] = state
        state ^= state << left
        state ^= state >> right
        state ^= state << last
    return out


Matrix = tuple[int, ...]  # over GF(2): column i is the image of bit i


def _apply(matrix: Matrix, state: int) -> int:
    result = 0
    for bit, column in enumerate(matrix):
        if state >> bit & 1:
            result ^= column
    return result


@cache
def _power(exponent: int) -> Matrix:
    """The matrix of `exponent` steps."""
    if exponent == 0:
        return tuple(1 << bit for bit in range(WORD_BITS))
    if exponent % 2:
        return tuple(map(step, _power(exponent - 1)))
    half = _power(exponent // 2)
    return tuple(_apply(half, column) for column in half)
