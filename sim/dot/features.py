"""What a batch of dot products exercises, for functional coverage: features and their goals.

A feature is a set of bins that a dot product hits; its goal holds the bins that the configuration
can reach at all.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...model import DotConfig, ElementFormat
from ...model.accumulators.group_sums import GroupSums
from ...model.formats import FLOAT32, FloatFormat
from ...model.outputs import convert, result_float
from ...model.products import NO_EXPONENT, Pair, unit_exponents
from ...model.steps import MICRO_DIGITS
from ...model.trace import FLAG_NAMES
from ...model.widths import Widths
from ..bench.operands import (
    C_CLASSES,
    CLASSES,
    c_class,
    class_codes,
    class_table,
    scale_class,
)
from . import integer_features
from .fixed_features import Register, saturation_hits
from .item import Batch, Outcome, micro_bits
from .scales import are_nan, exponents, scale_classes

Bins = Sequence[object]
Hits = list[set[object]]

DEPTHS = {"none": 0, "1 to 3 bits": 1, "4 to 7 bits": 4, "8 to 15 bits": 8, "16 or more bits": 16}
DISTANCES = {"0": 0, "1 to 7": 1, "8 to 15": 8, "16 to 31": 16, "32 or more": 32}
LENGTHS = {"1": 1, "2": 2, "3 to 7": 3, "8 to 63": 8, "64 or more": 64}
FAR = 25  # digits between c and the block at which one does not reach the other


def pair_name(pair: tuple[ElementFormat, ElementFormat]) -> str:
    """A format pair as the command line writes it."""
    return "x".join(fmt.name for fmt in pair)


def goals(config: DotConfig) -> dict[str, Bins]:
    """The bins of every feature that `config` can hit."""
    common: dict[str, Bins] = {
        "format": [pair_name(pair) for pair in config.formats],
        "operand_a": [(pair_name(p), name) for p in config.formats for name in class_codes(p[0])],
        "operand_b": [(pair_name(p), name) for p in config.formats for name in class_codes(p[1])],
        "operand_pair": _class_pairs(config),
        "chain_length": list(LENGTHS),
    }
    if config.has_integers:
        common |= integer_features.goals(config)
        if result_float(config.out) is not None:
            common |= {"result": _result_names(), "result_scale": list(C_CLASSES)}
        return common
    register = _register(config)
    bins = common | {
        "scale_a": list(scale_classes(config)),
        "scale_b": list(scale_classes(config)),
        "cancellation": _depth_bins(config),
        "alignment": _distance_bins(config),
        "result": _result_bins(config),
    }
    if config.load_c:
        bins["c"] = list(C_CLASSES)
        bins["c_distance"] = ["far above the block", "within reach", "far below the block"]
    if config.status:
        bins["flags"] = _flag_bins(config)
    if config.micro:
        for name in ("micro_a", "micro_b"):
            bins[name] = [0, 1]
    if config.accumulator.is_fused:
        bins["largest_exponent"] = _leader_bins(config)
    if register is not None and config.status:
        bins["saturation"] = register.saturation(_float_out(config))
    return bins


def hits(config: DotConfig, batch: Batch, outcome: Outcome) -> dict[str, Hits]:
    """For every feature, the bins that each dot product of `batch` hits."""
    n = len(batch)
    pair = config.formats[batch.mode]
    name = pair_name(pair)
    classes_a, classes_b = class_table(pair[0])[batch.a], class_table(pair[1])[batch.b]
    common: dict[str, Hits] = {
        "format": [{name}] * n,
        "operand_a": _present(classes_a, lambda i: (name, CLASSES[i])),
        "operand_b": _present(classes_b, lambda i: (name, CLASSES[i])),
        "operand_pair": _present(
            classes_a * np.uint8(len(CLASSES)) + classes_b,
            lambda i: (CLASSES[i // len(CLASSES)], CLASSES[i % len(CLASSES)]),
        ),
        "chain_length": [{_range_of(LENGTHS, batch.blocks)}] * n,
    }
    if config.has_integers:
        common |= integer_features.hits(config, batch, outcome)
        if result_float(config.out) is not None:
            classes = result_class(config, outcome.result)
            scales = batch.side["result_scale"][:, -1].astype(np.uint32)
            common["result"] = _result_hits(classes)
            common["result_scale"] = [{C_CLASSES[i]} for i in c_class(scales)]
        return common
    result = result_class(config, outcome.result)
    found = common | {
        "scale_a": _scale_classes(config, batch.scale_a),
        "scale_b": _scale_classes(config, batch.scale_b),
        "cancellation": _depths(config, batch),
        "alignment": _distances(config, batch),
        "result": _result_hits(result),
    }
    if config.load_c:
        found["c"] = [{C_CLASSES[i]} for i in c_class(batch.c)]
        found["c_distance"] = _c_distances(config, batch)
    if config.accumulator.is_fused:
        found["largest_exponent"] = _leaders(config, batch)
    for name in ("micro_a", "micro_b") if config.micro else ():
        found[name] = [{*row} for row in micro_bits(config, batch, name).tolist()]
    if config.status:
        found["flags"] = [
            {(flag, bool(flags >> bit & 1)) for bit, flag in enumerate(FLAG_NAMES)}
            for flags in outcome.flags.tolist()
        ]
    if config.status and _register(config) is not None:
        # The sign is the register's where the result is neither zero nor special.
        special = (result >= C_CLASSES.index("inf")) & ~_raised(outcome, "overflow")
        found["saturation"] = saturation_hits(
            outcome.result >> (config.out.bits - 1) & 1 == 1,
            (result != C_CLASSES.index("+0")) & ~special,
            _raised(outcome, "saturated"),
        )
    return found


def _register(config: DotConfig) -> Register | None:
    rule = config.accumulator.register
    return None if rule is None else Register(config, rule)


def _raised(outcome: Outcome, flag: str) -> NDArray[np.bool_]:
    return outcome.flags >> FLAG_NAMES.index(flag) & 1 == 1


def _float_out(config: DotConfig) -> FloatFormat:
    """The output of a unit with float results."""
    out = result_float(config.out)
    assert out is not None
    return out


def _result_names() -> list[str]:
    """Classes of a float result: zeros are +0."""
    return ["zero", *C_CLASSES[2:]]


def _result_hits(classes: NDArray[np.uint8]) -> Hits:
    return [{C_CLASSES[i] if i > 1 else "zero"} for i in classes]


def result_class(config: DotConfig, bits: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Index into C_CLASSES of results in the output format."""
    out = _float_out(config)
    fraction_bits, exponent_ones = out.mantissa_bits, 2**out.exponent_bits - 1
    exponent = bits >> fraction_bits & exponent_ones
    fraction = bits & np.uint32(2**fraction_bits - 1)
    conditions = [
        (exponent == 0) & (fraction == 0),
        exponent == 0,
        exponent < exponent_ones,
        fraction == 0,
    ]
    names = ("+0", "subnormal", "normal", "inf")
    return np.select(conditions, [C_CLASSES.index(k) for k in names], C_CLASSES.index("nan"))


def _present(indices: NDArray[np.uint8], label: Callable[[int], object]) -> Hits:
    """The labels of the indices that occur in each row."""
    rows = indices.reshape(len(indices), -1)
    seen = np.zeros((len(rows), int(rows.max(initial=0)) + 1), np.bool_)
    np.put_along_axis(seen, rows.astype(np.intp), True, axis=1)
    labels = [label(i) for i in range(seen.shape[1])]
    return [{labels[i] for i in np.flatnonzero(row)} for row in seen]


def _scale_classes(config: DotConfig, codes: NDArray[np.uint8]) -> Hits:
    classes = scale_classes(config)
    return _present(scale_class(codes, classes), list(classes).__getitem__)


def _range_of(starts: dict[str, int], value: float) -> str:
    return [name for name, start in starts.items() if value >= start][-1]


def _shifts(config: DotConfig, batch: Batch) -> NDArray[np.int64]:
    """How far micro-exponents shift each product, (n, blocks, lanes)."""
    total = np.zeros(batch.a.shape, np.int64)
    for name in ("micro_a", "micro_b") if config.micro else ():
        bits = np.repeat(micro_bits(config, batch, name), 2, axis=-1)
        total += bits.reshape(batch.a.shape)
    return total


def _products(config: DotConfig, batch: Batch) -> NDArray[np.float64]:
    """The products' values, (n, blocks, lanes); NaN for special terms."""
    products = Pair(*config.formats[batch.mode]).of(batch.a, batch.b)
    return np.ldexp(products.values, -_shifts(config, batch))


def _depths(config: DotConfig, batch: Batch) -> Hits:
    """How far the largest product of each block exceeds the block's sum, in bits."""
    products = np.nan_to_num(_products(config, batch), nan=0.0)
    largest, total = np.abs(products).max(axis=2), np.abs(products.sum(axis=2))
    with np.errstate(divide="ignore", invalid="ignore"):
        depth = np.log2(largest) - np.log2(total)
    return [
        {
            "total" if t == 0 else _range_of(DEPTHS, max(float(d), 0.0))
            for d, t, most in zip(*row, strict=True)
            if most > 0
        }
        for row in zip(depth, total, largest, strict=True)
    ]


def _distances(config: DotConfig, batch: Batch) -> Hits:
    """Distance of unit exponents between a block's largest and smallest product."""
    products = Pair(*config.formats[batch.mode]).of(batch.a, batch.b)
    units = products.unit_exponents.astype(np.int64) - _shifts(config, batch)
    some = products.significands != 0
    largest = np.where(some, units, -(2**20)).max(axis=2)
    smallest = np.where(some, units, 2**20).min(axis=2)
    return [
        {_range_of(DISTANCES, high - low) for high, low in zip(*row, strict=True) if high >= low}
        for row in zip(largest.tolist(), smallest.tolist(), strict=True)
    ]


def _c_distances(config: DotConfig, batch: Batch) -> Hits:
    """Where c lies beside the first scale block's sum, where both are finite and not zero."""
    products = _products(config, batch)[:, 0, : config.scale_block]
    block = np.frexp(np.nan_to_num(products, nan=0.0).sum(axis=1))[1].astype(np.int64)
    scale = exponents(config, batch)[:, 0, 0]
    c = batch.c.view(np.float32)
    with np.errstate(invalid="ignore"):
        usable = np.isfinite(c) & (c != 0) & np.isfinite(products.sum(axis=1))
        usable &= products.sum(axis=1) != 0
        wide = np.where(usable, c, 1).astype(np.float64)
    distance = np.frexp(wide)[1] - (block + scale)
    names = np.select(
        [distance >= FAR, distance <= -FAR],
        ["far above the block", "far below the block"],
        "within reach",
    )
    return [{str(name)} if ok else set() for name, ok in zip(names, usable, strict=True)]


def _c_joins(config: DotConfig) -> bool:
    """Whether the caller's c takes part in the alignment of the first block."""
    return config.load_c and config.accumulator.promotes_every is None


def _leader_bins(config: DotConfig) -> Bins:
    """Where groups meet, their scales count, whatever they scale: a subnormal c must beat these."""
    rule = config.accumulator
    low = 2 * config.scale_format.emin  # of scales; products may be smaller
    if not isinstance(rule, GroupSums):
        low += min(sum(map(_least_unit, pair)) for pair in config.formats)
    below = [_below_alone(config)] if low < rule.running.emin else []
    subnormal = ["a subnormal c"] if below or not isinstance(rule, GroupSums) else []
    beside_c = ["c", *subnormal, "products beside c"] if _c_joins(config) else []
    return ["products alone", *below, *beside_c]


def _least_unit(fmt: ElementFormat) -> int:
    units = unit_exponents(fmt)
    return int(units[units != NO_EXPONENT].min())


def _below_alone(config: DotConfig) -> str:
    return f"products below 2^{config.accumulator.running.emin} alone"


def _leaders(config: DotConfig, batch: Batch) -> Hits:
    """What has the largest exponent in the first alignment, where all terms are finite."""
    widths, running = Widths(config), config.accumulator.running
    lanes = np.array(widths.order[: config.lanes // widths.steps])  # of the first step
    pair = Pair(*config.formats[batch.mode])
    products = pair.of(batch.a[:, 0, lanes], batch.b[:, 0, lanes])
    scale = exponents(config, batch)[:, 0][:, lanes // config.scale_block]
    nan = are_nan(config, batch)[:, 0][:, lanes // config.scale_block].any(axis=1)
    own = products.unit_exponents.astype(np.int64) - _shifts(config, batch)[:, 0, lanes]
    units = (scale if isinstance(config.accumulator, GroupSums) else own + scale).max(axis=1)
    c = np.zeros(len(batch), np.float32)
    if _c_joins(config):
        c = convert(batch.c.view(np.float32), running).astype(np.float32)
    finite = np.isfinite(c) & ~np.isnan(products.values).any(axis=1)
    finite &= ~nan
    exponent = np.maximum(np.frexp(np.where(finite, c, 1).astype(np.float64))[1] - 1, running.emin)
    below = units < running.emin
    names = np.select(
        [c == 0, units > exponent, np.abs(c) < running.smallest_normal],
        [
            np.where(below, _below_alone(config), "products alone"),
            "products beside c",
            "a subnormal c",
        ],
        "c",
    )
    some = finite & ((units > NO_EXPONENT // 2) | (c != 0))
    return [{str(name)} if ok else set() for name, ok in zip(names, some, strict=True)]


@lru_cache(maxsize=64)
def _class_pairs(config: DotConfig) -> Bins:
    pairs = {(x, y) for a, b in config.formats for x in class_codes(a) for y in class_codes(b)}
    return sorted(pairs)


def _depth_bins(config: DotConfig) -> Bins:
    """As far as the largest product that has a negative exceeds the least product; of two products
    one less the other is at least a digit of both."""
    pairs = [Pair(*pair) for pair in config.formats]
    reach = max(float(np.log2(-pair.least)) - pair.lsb for pair in pairs)
    reach += MICRO_DIGITS * config.micro
    if config.lanes == 2:
        largest = [[int(fmt.triples.significand.max()) for fmt in pair] for pair in config.formats]
        reach = min(reach, max(float(np.log2(x * y + 1)) for x, y in largest))
    return [name for name, start in DEPTHS.items() if start < reach] + ["total"]


def _distance_bins(config: DotConfig) -> Bins:
    spans = []
    for pair in config.formats:
        units = [unit_exponents(fmt)[unit_exponents(fmt) != NO_EXPONENT] for fmt in pair]
        span = sum(int(side.max()) - int(side.min()) for side in units)
        spans.append(span + MICRO_DIGITS * config.micro)
    return [name for name, start in DISTANCES.items() if start <= max(spans)]


def _result_bins(config: DotConfig) -> Bins:
    register, out = _register(config), _float_out(config)
    # A float16 as a float32 is never subnormal; some rules have no subnormal numbers.
    running = config.accumulator.running
    least = running.emin if config.accumulator.flushes else running.lsb
    normal, subnormal = True, least < out.emin
    if register is not None:
        normal, subnormal = register.can_be_normal(out), register.can_be_subnormal(out)
    if register is None and not _keeps_c(config):
        subnormal = subnormal and _least(config) < out.emin
    bins = ["zero", "nan", *["normal"] * normal, *["subnormal"] * subnormal]
    has_inf = any(fmt.inf_code is not None for pair in config.formats for fmt in pair)
    if has_inf or config.load_c or _can_overflow(config):
        bins.append("inf")
    return bins


def _least(config: DotConfig) -> int:
    """Exponent of the last digit of the smallest product under the smallest scales, or of what is
    left of groups and c under these."""
    fmt, rule = config.scale_format, config.accumulator
    if isinstance(rule, GroupSums):
        return 2 * fmt.emin - rule.fraction_bits
    lsb = min(Pair(*pair).lsb for pair in config.formats) - MICRO_DIGITS * config.micro
    return lsb + 2 * (fmt.emin - fmt.mantissa_bits)


def _keeps_c(config: DotConfig) -> bool:
    """Whether a c of any size is the result where all products are zero: groups always count."""
    return config.load_c and not isinstance(config.accumulator, GroupSums)


def _narrowest(config: DotConfig) -> FloatFormat:
    """The narrower of the running value's format and the output's."""
    formats = config.accumulator.running, _float_out(config)
    return min(formats, key=lambda fmt: (fmt.emax, fmt.bits))


def _can_overflow(config: DotConfig) -> bool:
    """A register may not; nor may blocks under scales of a short range, which are too small beside
    the largest c."""
    register = _register(config)
    if register is not None:
        return register.can_overflow(_float_out(config))
    fmt = _narrowest(config)
    largest = max(max(p.largest, -p.least) for p in (Pair(*pair) for pair in config.formats))
    top = 2 * (config.scale_format.emax + 1) + np.log2(largest * config.scale_block)
    if config.load_c:
        return fmt != FLOAT32 or top > fmt.emax - fmt.mantissa_bits
    return top > fmt.emax + 1


def _can_underflow(config: DotConfig) -> bool:
    """Products and their grids reach below every float's last digit; a register, or scales of a
    short range, may not."""
    register = _register(config)
    if register is not None:
        return register.can_underflow(_float_out(config))
    fmt = _narrowest(config)
    return _least(config) < fmt.lsb or (_keeps_c(config) and fmt != FLOAT32)


def _flag_bins(config: DotConfig) -> Bins:
    register = _register(config)
    can = {
        "invalid": True,
        "overflow": _can_overflow(config),
        "underflow": _can_underflow(config),
        "inexact": register is None or register.can_be_inexact(_float_out(config)),
        "saturated": register is not None and any(register.leaves),
    }
    return [(name, raised) for name in FLAG_NAMES for raised in (False, True)[: 1 + can[name]]]
