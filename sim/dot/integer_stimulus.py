"""Sequences for units with INT32 sums: ends of INT32, ties, clipping, zero points, scales."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import DotConfig
from ...model.formats import FLOAT32, FloatFormat, IntegerFormat
from ...model.integers import HIGHEST, LOWEST, operand_range
from ...model.outputs import SCALE, IntegerOutput, result_float
from ...model.requantize import LARGEST_SHIFT, SUM_BITS
from ..bench.operands import draw, weighted
from .item import Batch, model_trace
from .target import Target

Ints = NDArray[np.int64]
LONGEST_CHAIN = 70  # blocks
SPECIAL_SCALES = np.array([0, np.inf, np.nan, 2.0**-149, 2.0**-127], np.float32)
Sequence = Callable[[Target, Generator, int], list[Batch]]


def output(config: DotConfig) -> IntegerOutput:
    """The unit's output, which is an integer."""
    assert isinstance(config.out, IntegerOutput)
    return config.out


def random_side(config: DotConfig, rng: Generator, n: int, blocks: int) -> dict[str, NDArray]:
    """Side inputs of any legal value, (n, blocks) int64: often an end of their range."""
    out = output(config)
    side: dict[str, Ints] = {}
    for name, width in config.side_inputs.items():
        low, high = 0, 2**width - 1
        if name == "zero_out" and isinstance(out.format, IntegerFormat):
            low, high = out.format.lowest, out.format.highest
        elif config.is_signed(name):
            low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
        elif name == "shift":
            high = min(high, LARGEST_SHIFT)
        values = rng.integers(low, high + 1, (n, blocks))
        ends = np.array([low, 0, high])[rng.integers(0, 3, (n, blocks))]
        side[name] = np.where(rng.random((n, blocks)) < 0.3, ends, values)
    if "multiplier" in side:  # mostly as derived from a scale
        top = 2**out.multiplier_bits
        derived = rng.integers(top // 2, top, (n, blocks))
        side["multiplier"] = np.where(rng.random((n, blocks)) < 0.6, derived, side["multiplier"])
    if "result_scale" in side:
        fitting = _fitting_scales(config, rng, (n, blocks), 16)
        side["result_scale"] = np.where(
            rng.random((n, blocks)) < 0.8, fitting, side["result_scale"]
        )
    return side


def _fitting_scales(config: DotConfig, rng: Generator, shape: tuple[int, ...], bits: int) -> Ints:
    """Bits of scales that bring sums of about `bits` bits anywhere into the result's range.

    Some go beyond its ends; some are special values, and zeros.
    """
    out = result_float(config.out)
    assert out is not None
    low, high = out.emin - out.mantissa_bits - bits - 2, out.emax - bits + 3
    middle = rng.integers(-8 - bits, 9 - bits, shape)
    wide = rng.integers(low, high + 1, shape)
    exponent = np.where(rng.random(shape) < 0.4, middle, wide)
    fraction = rng.integers(0, 2**FLOAT32.mantissa_bits, shape)
    digits = np.where(rng.random(shape) < 0.3, fraction >> 19 << 19, fraction)
    magnitude = np.ldexp(1 + digits * 2.0**-FLOAT32.mantissa_bits, exponent).astype(np.float32)
    chosen = np.where(rng.random(shape) < 0.06, draw(rng, SPECIAL_SCALES, shape), magnitude)
    word = chosen.astype(np.float32).view(np.uint32).astype(np.int64)
    return word ^ (rng.integers(0, 2, shape) << 31)


def random_scales(config: DotConfig, rng: Generator, shape: tuple[int, int]) -> tuple:
    """Integer scales, often an end of their range; 0 where the unit has none."""
    top = 2**config.scale_bits - 1
    ends = np.array([0, min(1, top), top], np.uint8)
    return tuple(
        np.where(
            rng.random(shape) < 0.3,
            draw(rng, ends, shape),
            rng.integers(0, top + 1, shape, dtype=np.uint8),
        )
        for _ in range(2)
    )


def integer_batch(
    target: Target,
    rng: Generator,
    a: NDArray[np.uint8],
    b: NDArray[np.uint8],
    c: Ints,
    side: dict[str, Ints] | None = None,
    scales: tuple | None = None,
    sequence: str = "",
) -> Batch:
    """A batch with random side inputs, except `side`: (n, blocks), or of the last block."""
    config = target.config
    shape = a.shape[:2]
    values = random_side(config, rng, *shape)
    for name, given in (side or {}).items():
        if name in values:
            values[name][:, -1 if given.ndim == 1 else slice(None)] = given
    bits = {
        name: (values[name] & (2**width - 1)).astype(np.uint64)
        for name, width in config.side_inputs.items()
    }
    if not config.load_c:
        c = np.zeros_like(c)
    word = np.clip(c, LOWEST, HIGHEST).astype(np.int32).view(np.uint32)
    scale_a, scale_b = random_scales(config, rng, shape) if scales is None else scales
    return Batch(target.mode, a, b, scale_a, scale_b, word, sequence, bits)


def calibrated_batch(config: DotConfig, batch: Batch) -> Batch:
    """`batch` with the side inputs of a calibrated network.

    One set of side inputs brings the largest result to the end of the output's range; scales are
    one, zero points zero.
    """
    shape = batch.a.shape[:2]
    side = {name: np.zeros(shape, np.uint64) for name in config.side_inputs}
    ones = np.full(shape, config.scale_bits > 0, np.uint8)
    plain = replace(batch, scale_a=ones, scale_b=ones, side=side)
    out = output(config)
    if isinstance(out.format, FloatFormat):
        side["result_scale"] += np.uint64(np.float32(2.0**-16).view(np.uint32))
        return plain
    if out.format is None:
        return plain
    sums = model_trace(_summing(config), replace(plain, side=_only(side, "zero"))).result
    assert isinstance(out.format, IntegerFormat)
    reach = max(1, int(np.abs(sums.astype(np.int64)).max()) // out.format.highest)
    shift = reach.bit_length()
    if "multiplier" in side:
        side["multiplier"] += np.uint64(2 ** (out.multiplier_bits - 1))
        shift += out.multiplier_bits - 1
    side["shift"] += np.uint64(shift)
    return plain


def _summing(config: DotConfig) -> DotConfig:
    """A unit with INT32 results, otherwise the same."""
    return DotConfig(**(config.arguments | {"out": "int32", "stages": None}))


def _only(side: dict[str, NDArray], start: str) -> dict[str, NDArray]:
    return {name: bits for name, bits in side.items() if name.startswith(start)}


def _random_c(rng: Generator, n: int) -> Ints:
    """INT32 of every length."""
    return rng.integers(LOWEST, HIGHEST + 1, n) >> rng.integers(0, 32, n)


def _fitting_shift(config: DotConfig, rng: Generator, n: int, bits: int) -> dict[str, Ints]:
    """Shifts at which sums of about `bits` bits meet the result's range, at random around it."""
    out = output(config)
    if out.rescale == SCALE:
        return {"result_scale": _fitting_scales(config, rng, (n,), bits)}
    extra = out.multiplier_bits if "multiplier" in config.side_inputs else 0
    top = 2 ** config.side_inputs.get("shift", 0) - 1
    centre = bits + extra - out.bits
    return {"shift": np.clip(centre + rng.integers(-4, 5, n), 0, min(top, LARGEST_SHIFT))}


def random_codes(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Codes weighted by class, one to five blocks."""
    batches = []
    for blocks in (1, 2, 3, 5):
        m = max(n // 4, 4)
        shape = (m, blocks, target.lanes)
        a = weighted(rng, target.format_a, shape, special=0.0)
        b = weighted(rng, target.format_b, shape, special=0.0)
        side = _fitting_shift(target.config, rng, m, 16)
        c = np.where(rng.random(m) < 0.5, 0, _random_c(rng, m) >> 8)
        batches.append(integer_batch(target, rng, a, b, c, side))
    return batches


def chains(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Long dot products; among them the longest of the least, and of the largest terms."""
    batches = [_extreme(target, rng)]
    for blocks in (8, 20, LONGEST_CHAIN):
        m = max(n // blocks, 4)
        shape = (m, blocks, target.lanes)
        a = weighted(rng, target.format_a, shape, special=0.0)
        b = weighted(rng, target.format_b, shape, special=0.0)
        side = _fitting_shift(target.config, rng, m, 18)
        batches.append(integer_batch(target, rng, a, b, _random_c(rng, m) >> 6, side))
    return batches


class Term(NamedTuple):
    """(a - zero_a) x (b - zero_b) of one lane, as integers."""

    value: int
    a: int
    b: int
    zero_a: int
    zero_b: int


def extreme_terms(config: DotConfig) -> tuple[Term, Term]:
    """The least and the largest term of a unit."""
    (formats,) = config.formats
    codes = [operand_range(fmt) for fmt in formats]
    sides = zip(("a", "b"), codes, strict=True)
    zeros = [ends if side in config.zero_sides else (0,) for side, ends in sides]
    terms = [Term((a - za) * (b - zb), a, b, za, zb) for a, b, za, zb in product(*codes, *zeros)]
    return min(terms), max(terms)


def _extreme(target: Target, rng: Generator) -> Batch:
    """Long sums of only the least, or only the largest, terms under the largest scales."""
    terms, shape = extreme_terms(target.config), (2, LONGEST_CHAIN)
    columns = {name: np.array([getattr(t, name) for t in terms]) for name in Term._fields}
    side = {name: np.broadcast_to(columns[name][:, None], shape) for name in ("zero_a", "zero_b")}
    side |= _fitting_shift(target.config, rng, 2, 31)
    a, b = (
        np.broadcast_to((columns[name] & 2**fmt.bits - 1)[:, None, None], (*shape, target.lanes))
        for name, fmt in (("a", target.format_a), ("b", target.format_b))
    )
    scales = (np.full(shape, 2**target.config.scale_bits - 1, np.uint8),) * 2
    c = np.zeros(2, np.int64)
    return integer_batch(target, rng, a.astype(np.uint8), b.astype(np.uint8), c, side, scales)


def saturation(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Sums pushed over an end of INT32, and back: the order of blocks decides the result."""
    shape = (n, 3, target.lanes)
    sides = []
    sign = np.where(rng.random(n) < 0.5, -1, 1)
    turn = sign[:, None] * np.where(rng.random((n, 3)) < 0.25, -1, 1)
    for fmt in (target.format_a, target.format_b):
        top = 2 ** (fmt.bits - 1) - 1
        sides.append(np.broadcast_to(np.int64(top) - rng.integers(0, 3, (n, 3, 1)), shape))
    a = (sides[0] * turn[..., None]) & (2**target.format_a.bits - 1)
    b = sides[1] & (2**target.format_b.bits - 1)
    near = np.where(sign > 0, HIGHEST, LOWEST) - sign * rng.integers(0, 2 ** rng.integers(1, 26, n))
    side = _fitting_shift(target.config, rng, n, 31)
    return [integer_batch(target, rng, a.astype(np.uint8), b.astype(np.uint8), near, side)]


def ties(target: Target, rng: Generator, n: int) -> list[Batch]:
    """c alone, at a tie of the shift or next to one, of either sign; elements are zero."""
    config = target.config
    a, b = target.zeros(n, 1)
    if output(config).rescale == SCALE:
        return [_float_ties(target, rng, n)]
    shift = rng.integers(0, 32, n)
    value = rng.integers(-300, 300, n)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    c = (value << shift) + half + rng.integers(-1, 2, n)
    side = {"shift": shift, "zero_a": np.zeros(n, np.int64), "zero_b": np.zeros(n, np.int64)}
    if "multiplier" in config.side_inputs:
        power = rng.integers(0, output(config).multiplier_bits, n)
        side |= {"multiplier": np.int64(1) << power, "shift": shift + power}
    return [integer_batch(target, rng, a, b, c, side)]


def _no_zero_points(n: int) -> dict[str, Ints]:
    return dict.fromkeys(("zero_a", "zero_b"), np.zeros(n, np.int64))


def _float_ties(target: Target, rng: Generator, n: int) -> Batch:
    """Ties of each of the three roundings, and neighbouring values.

    Rounded are the sum, its product with a scale of two bits, and the narrower result.
    """
    out = result_float(target.config.out)
    assert out is not None
    digits = draw(rng, np.array([FLOAT32.mantissa_bits, out.mantissa_bits]), (n,))
    value = rng.integers(np.int64(1) << digits, np.int64(2) << digits)
    shift = rng.integers(1, 31 - digits)
    c = (value << shift) + (np.int64(1) << shift - 1) + rng.integers(-1, 2, n)
    c = np.where(rng.random(n) < 0.3, value, c) * draw(rng, np.array([-1, 1]), (n,))
    scale = np.ldexp(draw(rng, np.array([1, 3], np.float32), (n,)), rng.integers(-30, 1, n))
    side = _no_zero_points(n) | {"result_scale": _words(scale)}
    return integer_batch(target, rng, *target.zeros(n, 1), c, side)


def _float_limits(target: Target, rng: Generator, n: int) -> Batch:
    """Small sums times scales at and near the ends of the result's format and of float32.

    Rounding gives an infinity, a subnormal, zero; special scales are among them.
    """
    out = result_float(target.config.out)
    assert out is not None
    ends = [
        end
        for fmt in (out, FLOAT32)
        for end in (
            fmt.largest_finite * (1 + 2.0 ** -(fmt.mantissa_bits + 2)),
            fmt.smallest_normal,
            fmt.smallest,
            fmt.smallest / 2,
        )
    ]
    with np.errstate(over="ignore"):
        words = _words(np.array(ends).astype(np.float32))
    scale = np.clip(draw(rng, words, (n,)) + rng.integers(-2, 3, n), 0, FLOAT32.inf_code)
    scale = np.where(rng.random(n) < 0.2, _words(draw(rng, SPECIAL_SCALES, (n,))), scale)
    c = draw(rng, np.array([-3, -2, -1, 0, 1, 2, 3]), (n,))
    side = _no_zero_points(n) | {"result_scale": scale ^ (rng.integers(0, 2, n) << 31)}
    return integer_batch(target, rng, *target.zeros(n, 1), c, side)


def _words(values: NDArray[np.float32]) -> Ints:
    return values.view(np.uint32).astype(np.int64)


def limits(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Results at both ends of the output's range, next to them, and exactly zero.

    Every third lies far outside: one digit of the shifted sum alone, each in turn, says so.
    """
    config, out = target.config, output(target.config)
    if out.rescale == SCALE:
        return [_float_limits(target, rng, n)]
    a, b = target.zeros(n, 1)
    zeros, fmt = np.zeros(n, np.int64), out.format
    low, high = (fmt.lowest, fmt.highest) if isinstance(fmt, IntegerFormat) else (LOWEST, HIGHEST)
    shift = zeros if fmt is None else rng.integers(0, 22, n)
    zero = zeros if fmt is None else rng.integers(low, high + 1, n)
    wanted = np.array([low, high, 0])[rng.integers(0, 3, n)] + rng.integers(-1, 2, n)
    places = out.multiplier_bits - 1 if "multiplier" in config.side_inputs else 0
    more = zeros
    if fmt is not None:
        far = np.arange(n) % 3 == 2
        digit, rest, sign = _far_digits(high, places, rng, n)
        wanted = np.where(far, (1 << digit) + rest ^ sign, wanted)
        beyond = np.where(far, np.maximum(digit - (SUM_BITS - 2), 0), 0)  # digits that c has not
        zero = np.where(beyond > 0, np.clip(rest ^ sign, low, high), zero)
        more = np.minimum(beyond, places)
        room = np.maximum(SUM_BITS - 2 - digit, 0)
        shift = np.where(far, np.minimum(shift, room), shift)
    word = wanted - zero >> more << shift
    shift = shift - more
    side = {"shift": shift, "zero_a": zeros, "zero_b": zeros, "zero_out": zero}
    if "multiplier" in config.side_inputs:
        side |= {"multiplier": zeros + 2**places, "shift": shift + places}
    return [integer_batch(target, rng, a, b, word, side)]


def _far_digits(high: int, places: int, rng: Generator, n: int) -> tuple[Ints, Ints, Ints]:
    """(digit above the largest result, digits below it, -1 to invert all or 0) of n shifted sums.

    high: largest result; places: digits by which a multiplier makes sums longer.
    """
    least = high.bit_length()
    turn, place = np.divmod(np.arange(n) // 3, SUM_BITS + places - least)
    return least + place, rng.integers(0, high + 1, n), -(turn % 2)


def ends(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Every lane at an end of its range, with zero points at either end; c in the first two."""
    shape = (n, 1, target.lanes)
    codes = []
    for fmt in (target.format_a, target.format_b):
        top = 2 ** (fmt.bits - 1)
        one = np.array([0, top - 1, top, 2 * top - 1], np.uint8)
        whole = np.broadcast_to(draw(rng, one, (n, 1, 1)), shape)
        codes.append(np.where(rng.random((n, 1, 1)) < 0.5, whole, draw(rng, one, shape)))
    side = _fitting_shift(target.config, rng, n, 20)
    a, b = (np.ascontiguousarray(c) for c in codes)
    c = np.zeros(n, np.int64)
    c[:2] = (LOWEST, HIGHEST)[:n]
    return [integer_batch(target, rng, a, b, c, side)]


def raw(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Any bits."""
    shape = (n, 2, target.lanes)
    a = rng.integers(0, 2**target.format_a.bits, shape, dtype=np.uint8)
    b = rng.integers(0, 2**target.format_b.bits, shape, dtype=np.uint8)
    return [integer_batch(target, rng, a, b, rng.integers(LOWEST, HIGHEST + 1, n))]


INTEGER_SEQUENCES: dict[str, tuple[Sequence, int]] = {
    "random_codes": (random_codes, 6),
    "chains": (chains, 2),
    "saturation": (saturation, 3),
    "ties": (ties, 4),
    "limits": (limits, 3),
    "ends": (ends, 3),
    "raw": (raw, 2),
}
"""Every sequence by name, with its share of the traffic."""
