"""Features of a batch of dot products for functional coverage, and their goals.

A feature is a set of bins that a dot product hits; its goal holds the bins that the configuration
can reach.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...model import DotConfig, ElementFormat
from ...model.formats import FLOAT32, FloatFormat
from ...model.outputs import result_float
from ...model.products import Pair
from ...model.steps import MICRO_DIGITS
from ...model.trace import FLAG_NAMES
from ..bench.operands import (
    C_CLASSES,
    CLASSES,
    Bins,
    Hits,
    c_class,
    class_codes,
    class_table,
    present,
    scale_class,
)
from . import block_features, integer_features
from .block_features import range_of
from .fixed_features import Register, saturation_hits
from .item import Batch, DotResults, micro_bits
from .scales import scale_classes

LENGTHS = {"1": 1, "2": 2, "3 to 7": 3, "8 to 63": 8, "64 or more": 64}


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
        "cancellation": block_features.depth_bins(config),
        "alignment": block_features.distance_bins(config),
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
        bins["largest_exponent"] = block_features.leader_bins(config)
    if register is not None and config.status:
        bins["saturation"] = register.saturation(_float_out(config))
    return bins


def hits(config: DotConfig, batch: Batch, outcome: DotResults) -> dict[str, Hits]:
    """For every feature, the bins that each dot product of `batch` hits."""
    n = len(batch)
    pair = config.formats[batch.mode]
    name = pair_name(pair)
    classes_a, classes_b = class_table(pair[0])[batch.a], class_table(pair[1])[batch.b]
    common: dict[str, Hits] = {
        "format": [{name}] * n,
        "operand_a": present(classes_a, lambda i: (name, CLASSES[i])),
        "operand_b": present(classes_b, lambda i: (name, CLASSES[i])),
        "operand_pair": present(
            classes_a * np.uint8(len(CLASSES)) + classes_b,
            lambda i: (CLASSES[i // len(CLASSES)], CLASSES[i % len(CLASSES)]),
        ),
        "chain_length": [{range_of(LENGTHS, batch.blocks)}] * n,
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
    hits_of = common | {
        "scale_a": _scale_classes(config, batch.scale_a),
        "scale_b": _scale_classes(config, batch.scale_b),
        "cancellation": block_features.depths(config, batch),
        "alignment": block_features.distances(config, batch),
        "result": _result_hits(result),
    }
    if config.load_c:
        hits_of["c"] = [{C_CLASSES[i]} for i in c_class(batch.c)]
        hits_of["c_distance"] = block_features.c_distances(config, batch)
    if config.accumulator.is_fused:
        hits_of["largest_exponent"] = block_features.leaders(config, batch)
    for name in ("micro_a", "micro_b") if config.micro else ():
        hits_of[name] = [{*row} for row in micro_bits(config, batch, name).tolist()]
    if config.status:
        hits_of["flags"] = [
            {(flag, bool(flags >> bit & 1)) for bit, flag in enumerate(FLAG_NAMES)}
            for flags in outcome.flags.tolist()
        ]
    if config.status and _register(config) is not None:
        # The sign is the register's where the result is neither zero nor special.
        special = (result >= C_CLASSES.index("inf")) & ~_raised(outcome, "overflow")
        hits_of["saturation"] = saturation_hits(
            outcome.result >> (config.out.bits - 1) & 1 == 1,
            (result != C_CLASSES.index("+0")) & ~special,
            _raised(outcome, "saturated"),
        )
    return hits_of


def _register(config: DotConfig) -> Register | None:
    rule = config.accumulator.register
    return None if rule is None else Register(config, rule)


def _raised(outcome: DotResults, flag: str) -> NDArray[np.bool_]:
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


def _scale_classes(config: DotConfig, codes: NDArray[np.uint8]) -> Hits:
    classes = scale_classes(config)
    return present(scale_class(codes, classes), list(classes).__getitem__)


@lru_cache(maxsize=64)
def _class_pairs(config: DotConfig) -> Bins:
    pairs = {(x, y) for a, b in config.formats for x in class_codes(a) for y in class_codes(b)}
    return sorted(pairs)


def _result_bins(config: DotConfig) -> Bins:
    register, out = _register(config), _float_out(config)
    # A float16 as a float32 is never subnormal; some rules have no subnormal numbers.
    running = config.accumulator.running
    least = running.emin if config.accumulator.flushes else running.lsb
    normal, subnormal = True, least < out.emin
    if register is not None:
        normal, subnormal = register.can_be_normal(out), register.can_be_subnormal(out)
    from_c = _keeps_c(config) and running.emin - carried_bits(config) < out.emin
    if register is None and not from_c:
        subnormal = subnormal and _least(config) < out.emin
    bins = ["zero", "nan", *["normal"] * normal, *["subnormal"] * subnormal]
    has_inf = any(fmt.inf_code is not None for pair in config.formats for fmt in pair)
    if has_inf or config.load_c or _can_overflow(config):
        bins.append("inf")
    return bins


def _least(config: DotConfig) -> int:
    """Exponent of the last digit of the smallest product under the smallest scales.

    Alignment may cut the product; groups and c under these scales leave other digits.
    """
    fmt, rule = config.scale_format, config.accumulator
    scales, below = 2 * fmt.emin, 2 * fmt.mantissa_bits  # of two scales; digits of subnormal ones
    if rule.sums_groups and config.load_c:
        return scales - (rule.alignment_bits or 0)
    if rule.sums_groups:
        lsb = min(Pair(*pair).lsb for pair in config.formats)
        return scales + max(lsb - below, -(rule.alignment_bits or 0))
    # Fused sums are cut with their scales, of which subnormal ones have the least exponent too.
    own, after = (below, 0) if rule.is_fused else (0, below)
    last = min(block_features.kept_digit(config, *pair, own) for pair in config.formats)
    return scales + last - after - MICRO_DIGITS * config.micro


def _keeps_c(config: DotConfig) -> bool:
    """True when a c of any size is the result where all products are zero: groups always count."""
    return config.load_c and not config.accumulator.sums_groups


def carried_bits(config: DotConfig) -> int:
    """Fraction bits of c that come through where all products are zero; -1 where c does not."""
    rule = config.accumulator
    if not config.load_c or rule.register is not None:
        return -1
    if rule.alignment_bits is None or not rule.is_fused or rule.promotes_every is not None:
        return rule.running.mantissa_bits
    return min(rule.alignment_bits, rule.step_fraction_bits)


def _narrowest(config: DotConfig) -> FloatFormat:
    """The narrower of the running value's format and the output's."""
    formats = config.accumulator.running, _float_out(config)
    return min(formats, key=lambda fmt: (fmt.emax, fmt.bits))


def _can_overflow(config: DotConfig) -> bool:
    """True when results can overflow.

    A register may be too narrow. Blocks under scales of a short range may be too small to move the
    largest c.
    """
    register = _register(config)
    if register is not None:
        return register.can_overflow(_float_out(config))
    fmt = _narrowest(config)
    largest = max(max(p.largest, -p.least) for p in (Pair(*pair) for pair in config.formats))
    top = 2 * (config.scale_format.emax + 1) + np.log2(largest * config.scale_block)
    if not config.load_c:
        return top > fmt.emax + 1
    digits = carried_bits(config)
    rounds_c = fmt.emax < FLOAT32.emax or digits > fmt.mantissa_bits or _enters_rounded(config)
    return rounds_c or top > fmt.emax - fmt.mantissa_bits


def _can_underflow(config: DotConfig) -> bool:
    """True when results can underflow.

    Products and their grids reach below every float's last digit; a register, or scales of a short
    range, may not.
    """
    register = _register(config)
    if register is not None:
        return register.can_underflow(_float_out(config))
    fmt = _narrowest(config)
    least_of_c = config.accumulator.running.emin - carried_bits(config)
    cuts_c = _keeps_c(config) and (least_of_c < fmt.lsb or _enters_rounded(config))
    return _least(config) < fmt.lsb or cuts_c


def _enters_rounded(config: DotConfig) -> bool:
    """True when c, a float32, is rounded to the running value's format."""
    return config.accumulator.running != FLOAT32


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
