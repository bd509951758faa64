"""Operands by class: special codes of formats, classes in coverage, random draws by class."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import E8M0, ElementFormat
from ...model.formats import FLOAT32

Codes = NDArray  # unsigned, of the format's dtype; of scales uint8
Bins = Sequence[object]
Hits = list[set[object]]

CLASSES = (
    "zero",
    "subnormal",
    "smallest_normal",
    "normal",
    "largest",
    "most_negative",
    "inf",
    "nan",
)
"""Classes of an element. `most_negative` is the code 0x80 of INT8, which has no positive twin."""

SCALE_CLASSES = {
    "smallest": (0, 0),
    "small": (1, 126),
    "one": (127, 127),
    "large": (128, 253),
    "largest": (254, 254),
    "nan": (255, 255),
}
"""Classes of a scale code, with the first and the last code of each."""

E4M3_CLASSES = {
    "zero": (0, 0),
    "subnormal": (1, 7),
    "small": (8, 55),
    "one": (56, 56),
    "large": (57, 125),
    "largest": (126, 126),
    "nan": (127, 127),
}
"""Classes of an E4M3 scale's code, with the first and the last code of each."""

C_CLASSES = ("+0", "-0", "subnormal", "normal", "inf", "nan")


@cache
def class_table(fmt: ElementFormat) -> NDArray[np.uint8]:
    """Index into CLASSES of every code of `fmt`."""
    magnitude = np.abs(fmt.values)
    conditions = {
        "nan": np.isnan(magnitude),
        "inf": np.isinf(magnitude),
        "zero": magnitude == 0,
        "most_negative": magnitude > fmt.largest_finite,
        "largest": magnitude == fmt.largest_finite,
        "smallest_normal": magnitude == fmt.smallest_normal,
        "subnormal": magnitude < fmt.smallest_normal,
        "normal": np.ones(magnitude.shape, np.bool_),
    }
    classes = [CLASSES.index(name) for name in conditions]
    return np.select(list(conditions.values()), classes).astype(np.uint8)


@cache
def class_codes(fmt: ElementFormat) -> dict[str, Codes]:
    """The codes of each class that `fmt` has."""
    table = class_table(fmt)
    found = {name: np.flatnonzero(table == i).astype(fmt.dtype) for i, name in enumerate(CLASSES)}
    return {name: codes for name, codes in found.items() if len(codes)}


def scale_class(
    codes: Codes, classes: Mapping[str, tuple[int, int]] = SCALE_CLASSES
) -> NDArray[np.uint8]:
    """Index into `classes` of scale codes."""
    starts = [first for first, _ in classes.values()]
    return (np.searchsorted(starts, codes, side="right") - 1).astype(np.uint8)


def c_class(bits: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Index into C_CLASSES of float32 bits."""
    magnitude = bits & np.uint32(0x7FFFFFFF)
    conditions = [
        bits == 0,
        bits == 0x80000000,
        magnitude < 0x00800000,
        magnitude < 0x7F800000,
        magnitude == 0x7F800000,
    ]
    return np.select(conditions, range(5), 5).astype(np.uint8)


def present(indices: NDArray, label: Callable[[int], object]) -> Hits:
    """The labels of the indices that occur in each row."""
    rows = indices.reshape(len(indices), int(np.prod(indices.shape[1:]))).astype(np.intp)
    seen = np.zeros((len(rows), int(rows.max(initial=0)) + 1), np.bool_)
    np.put_along_axis(seen, rows, True, axis=1)
    labels = [label(i) for i in range(seen.shape[1])]
    return [{labels[i] for i in np.flatnonzero(row)} for row in seen]


def finite_codes(fmt: ElementFormat) -> Codes:
    """Every code of a finite value."""
    return np.flatnonzero(np.isfinite(fmt.values)).astype(fmt.dtype)


def draw(rng: Generator, codes: Codes, shape: tuple[int, ...]) -> Codes:
    """Uniform draws from `codes`."""
    index = np.uint16 if len(codes) < 2**16 else np.uint32
    return codes[rng.integers(0, len(codes), shape, dtype=index)]


GROUP = 32  # rows that share class weights
_PALETTE = 256  # codes that stand for one group's weights


def weighted(rng: Generator, fmt: ElementFormat, shape: tuple[int, ...], special: float) -> Codes:
    """Draws by class, with weights of its own for every group of rows.

    A group may have hardly any codes of a class, or little else. `special` scales the weights of
    infinities and NaN: a few of them hide everything else.
    """
    classes = class_codes(fmt)
    groups = -(-shape[0] // GROUP)
    weights = rng.gamma(0.5, size=(groups, len(classes)))
    weights *= [special if name in ("inf", "nan") else 1.0 for name in classes]
    weights /= weights.sum(axis=1, keepdims=True)
    picks = rng.random((groups, _PALETTE, 1))
    chosen = (picks > weights.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
    palette = np.zeros((groups, _PALETTE), fmt.dtype)
    for i, codes in enumerate(classes.values()):
        where = chosen == i
        palette[where] = draw(rng, codes, (int(where.sum()),))
    row_size = int(np.prod(shape[1:]))
    index = rng.integers(0, _PALETTE, (groups, GROUP * row_size), dtype=np.uint8)
    codes = np.take_along_axis(palette, index.astype(np.intp), axis=1)
    return codes.reshape(groups * GROUP, *shape[1:])[: shape[0]]


def near_scales(rng: Generator, shape: tuple[int, ...], spread: int = 6) -> Codes:
    """Scale codes within `spread` of 2^0."""
    return (E8M0.bias + rng.integers(-spread, spread + 1, shape)).astype(np.uint8)


def wide_scales(rng: Generator, shape: tuple[int, ...], nan: float = 0.0) -> Codes:
    """Any scale code: mostly uniform, often an end; NaN with probability `nan`."""
    codes = rng.integers(0, E8M0.nan_code, shape, dtype=np.uint8)
    ends = np.array([0, 1, E8M0.bias, E8M0.nan_code - 2, E8M0.nan_code - 1], np.uint8)
    codes = np.where(rng.random(shape) < 0.25, draw(rng, ends, shape), codes)
    return np.where(rng.random(shape) < nan, np.uint8(E8M0.nan_code), codes)


def split_scale(rng: Generator, s: NDArray[np.int64]) -> tuple[Codes, Codes]:
    """Two scale codes whose exponents add up to `s` (clipped to what two can), at random."""
    low, high = E8M0.exponent_range
    s = np.clip(s, 2 * low, 2 * high)
    least, most = np.maximum(s - high, low), np.minimum(s - low, high)
    first = rng.integers(least, most + 1)
    return E8M0.encode(first), E8M0.encode(s - first)


def float_bits(
    sign: NDArray[np.int64], exponent: NDArray[np.int64], fraction: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """float32 bits of (-1)^sign x 1.fraction x 2^exponent; exponents below -126 give subnormals."""
    bits = FLOAT32.mantissa_bits
    field = np.clip(exponent + FLOAT32.bias, 0, FLOAT32.emax + FLOAT32.bias)
    return ((sign << 31) | (field << bits) | (fraction & (1 << bits) - 1)).astype(np.uint32)


SPECIAL_C = np.array(
    [
        0x00000000,  # +0
        0x80000000,  # -0
        0x00000001,  # smallest subnormal
        0x80000001,
        0x007FFFFF,  # largest subnormal
        0x807FFFFF,
        0x00800000,  # smallest normal
        0x80800000,
        0x7F7FFFFF,  # largest finite
        0xFF7FFFFF,
        0x7F800000,  # infinities
        0xFF800000,
        0x7FC00000,  # NaN: quiet, of every bit, signalling, negative
        0x7FFFFFFF,
        0x7F800001,
        0xFFC00001,
    ],
    np.uint32,
)


def one_digit(bits: NDArray[np.uint32], place: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Bits with the fraction's one digit at another place, where it is the last digit alone and no
    normal number's."""
    field, last = bits >> 23 & 0xFF, bits & 0x7FFFFF
    moved = bits ^ 1 ^ (1 << place.astype(np.uint32))
    return np.where((last == 1) & ((field == 0) | (field == 0xFF)), moved, bits).astype(np.uint32)


def random_c(rng: Generator, n: int, special: float = 0.1) -> NDArray[np.uint32]:
    """float32 bits of running values: any exponent, +0, and one of SPECIAL_C at times."""
    bits = float_bits(
        rng.integers(0, 2, n),
        np.where(rng.random(n) < 0.5, rng.integers(-20, 21, n), rng.integers(-127, 128, n)),
        rng.integers(0, 2**23, n),
    )
    bits = np.where(rng.random(n) < 0.2, np.uint32(0), bits)
    picked = SPECIAL_C[rng.integers(0, len(SPECIAL_C), n)]
    picked = one_digit(picked, rng.integers(0, FLOAT32.mantissa_bits, n))
    return np.where(rng.random(n) < special, picked, bits).astype(np.uint32)
