"""Features of blocks in a quantiser for functional coverage, and their goals.

A feature is a set of bins that a block hits; its goal holds those that the configuration can reach.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...model import E8M0, ElementFormat, QuantizeConfig
from ...model.formats import E4M3, FLOAT32
from ...model.rounding import quotient
from ...model.schemes.scales import shared_exponent
from ...model.units.quantize import PAIR
from ..bench.operands import (
    CLASSES,
    E4M3_CLASSES,
    SCALE_CLASSES,
    class_codes,
    class_table,
    present,
    scale_class,
)
from .carries import EDGES, edge, powers, units
from .choices import by_each_format, choice_goals, choice_hits
from .item import Batch, QuantizeResults, values
from .ranges import ENDS, exponent_limits, range_bins, stays_below, tied_scales

INFINITY = 0x7F800000
"""Bits of a float32."""
OUTER_CLASSES = ("zero", "negative", "subnormal", "normal", "largest", "inf", "nan")
VALUE_CLASSES = ("zero", "-zero", "subnormal", "normal", "largest", "inf", "nan")
BLOCK_CLASSES = (
    "zeros only",
    "finite",
    "with infinity",
    "with NaN",
    "with both",
    "no finite value",
)
ROUNDED = ("exact", "below half", "tie to even down", "tie to even up", "above half")
LIMITS = ("saturated", "lost to zero")
MICRO = ("0", "1", "1 of zeros")
SCALE_NAMES = {E8M0.name: SCALE_CLASSES, E4M3.name: E4M3_CLASSES}


def goals(config: QuantizeConfig) -> dict[str, Sequence[object]]:
    """The bins of every feature that `config` can hit."""
    formats = config.formats
    return {
        "format_rule": [(fmt.name, rule) for fmt in formats for rule in config.scale_rules],
        "value": list(VALUE_CLASSES),
        "block": list(BLOCK_CLASSES),
        "scale": _scale_bins(config),
        "range": range_bins(config, *formats),
        **_own_goals(config),
        **choice_goals(config),
        "element": [(fmt.name, name) for fmt in formats for name in _element_classes(config, fmt)],
        "rounding": [(fmt.name, name) for fmt in formats for name in ROUNDED],
        "limit": [(fmt.name, name) for fmt in formats for name in _limits(config, fmt)],
        **(
            {"chance": [(fmt.name, name) for fmt in formats for name in EDGES]}
            if config.word_bits
            else {}
        ),
    }


def hits(
    config: QuantizeConfig, batch: Batch, outcome: QuantizeResults
) -> Mapping[str, list[set[object]]]:
    """For every feature, the bins that each block of `batch` hits."""
    if config.select is None:
        return _hits(config, batch, outcome)
    tried = by_each_format(config, batch, outcome)
    hits_of: dict[str, list[set[object]]] = choice_hits(config, batch, outcome, tried)
    for mode, made in enumerate(tried):  # what is not chosen has been compared
        for name, bins in _hits(config.with_mode, replace(batch, mode=mode), made).items():
            column = hits_of.setdefault(name, [set() for _ in range(len(batch))])
            for own, more in zip(column, bins, strict=True):
                own |= more
    return hits_of


def _hits(
    config: QuantizeConfig, batch: Batch, outcome: QuantizeResults
) -> Mapping[str, list[set[object]]]:
    """Hits of blocks of one format."""
    fmt, rule = config.formats[batch.mode], config.scale_rules[batch.rule]
    with np.errstate(invalid="ignore"):
        wide = values(config, batch.bits).astype(np.float64)
    scale_names = SCALE_NAMES[config.scales]
    finite = np.isfinite(wide)
    magnitude = np.where(finite, np.abs(wide), 0.0)
    amax = magnitude.max(axis=1)
    poisoned = outcome.scale == config.scale_format.nan_code
    classes = class_table(fmt)[outcome.codes]
    ratio = quotient(magnitude, _scaling(config, batch, outcome))
    in_units = units(fmt, ratio)
    sets = {
        "value": present(_value_class(config, wide, batch.bits), VALUE_CLASSES.__getitem__),
        "block": present(_block_class(wide), BLOCK_CLASSES.__getitem__),
        "scale": present(
            scale_class(outcome.scale, scale_names)[:, None], list(scale_names).__getitem__
        ),
        **(
            _quotient_hits(config, batch, amax, fmt)
            if config.divides
            else _rule_hits(amax, fmt, rule)
        ),
        **_micro_hits(config, magnitude, outcome),
        "element": present(classes, lambda i: (fmt.name, CLASSES[i])),
        "rounding": present(_rounded(in_units), lambda i: (fmt.name, ROUNDED[i])),
    }
    if config.word_bits:
        names = [(fmt.name, name) for name in EDGES]
        places = edge(config, batch, in_units)
        hit = [(places == place).any(axis=1) & ~poisoned for place in range(len(names))]
        sets["chance"] = [
            {name for name, one in zip(names, row, strict=True) if one}
            for row in zip(*hit, strict=True)
        ]
    none = poisoned | (amax == 0)
    for names, skip in (
        (("range", "carry", "scale_rounding", "rounding"), none),
        (("element", "micro"), poisoned),
    ):
        for name in sets.keys() & set(names):
            sets[name] = [set() if s else bins for bins, s in zip(sets[name], skip, strict=True)]
    saturated = finite & (ratio > fmt.largest_finite)
    lost = (classes == CLASSES.index("zero")) & (magnitude > 0)
    sets["limit"] = [
        {(fmt.name, name) for name, hit in zip(LIMITS, row, strict=True) if hit}
        for row in zip(*((x.any(axis=1) & ~poisoned) for x in (saturated, lost)), strict=True)
    ]
    sets["format_rule"] = [{(fmt.name, rule)}] * len(batch)
    return sets


def _value_class(config: QuantizeConfig, wide: NDArray, bits: NDArray[np.uint32]) -> NDArray:
    magnitude = np.abs(wide)
    top = 2.0 ** (2 ** (config.source.exponent_bits - 1) - 1)
    largest = top * (2 - 2.0**-config.source.mantissa_bits)
    conditions = [
        np.isnan(wide),
        np.isinf(wide),
        (magnitude == 0) & (bits == 0),
        magnitude == 0,
        magnitude < 2.0**config.source.emin,
        magnitude == largest,
    ]
    names = ("nan", "inf", "zero", "-zero", "subnormal", "largest")
    return np.select(conditions, [VALUE_CLASSES.index(n) for n in names], 3)


def _block_class(wide: NDArray) -> NDArray:
    nan, infinite = np.isnan(wide).any(axis=1), np.isinf(wide).any(axis=1)
    none = ~np.isfinite(wide).any(axis=1)
    conditions = [none, nan & infinite, nan, infinite, (wide == 0).all(axis=1)]
    return np.select(conditions, [5, 4, 3, 2, 0], 1)


def _rule_hits(amax: NDArray, fmt: ElementFormat, rule: str) -> dict[str, list[set[object]]]:
    """Hits of a power-of-two scale: the place of the rule's exponent, and whether it carries."""
    floor = shared_exponent(amax, fmt, "floor")
    exponent = np.where(amax == 0, 0, shared_exponent(amax, fmt, rule))
    return {
        "range": present(1 + _beyond(exponent), ENDS.__getitem__),
        "carry": present(exponent > floor, lambda i: (rule, bool(i))),
    }


def _quotient_hits(
    config: QuantizeConfig, batch: Batch, amax: NDArray, fmt: ElementFormat
) -> dict[str, list[set[object]]]:
    """Hits of an E4M3 scale: the outer scale, the place of the quotient, and its rounding."""
    outer = np.where(_is_scale(batch), batch.outer.view(np.float32), np.float32(1))
    ratio = quotient(amax, outer.astype(np.float64) * fmt.largest_finite)
    end = 1 + (ratio > E4M3.largest_finite).astype(np.int64) - (ratio < E4M3.smallest)
    rounded = present(_rounded(units(E4M3, ratio)), ROUNDED.__getitem__)
    return {
        "outer": present(outer_classes(batch.outer), OUTER_CLASSES.__getitem__),
        "range": present(end, ENDS.__getitem__),
        "scale_rounding": [
            bins if inside else set() for bins, inside in zip(rounded, end == 1, strict=True)
        ],
    }


def outer_classes(bits: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Index into OUTER_CLASSES of float32 bits."""
    magnitude = bits & 0x7FFFFFFF
    conditions = [
        magnitude > INFINITY,
        magnitude == INFINITY,
        magnitude == 0,
        bits != magnitude,
        magnitude < 1 << FLOAT32.mantissa_bits,
        magnitude == INFINITY - 1,
    ]
    names = ("nan", "inf", "zero", "negative", "subnormal", "largest")
    return np.select(conditions, [OUTER_CLASSES.index(n) for n in names], 3)


def _micro_hits(
    config: QuantizeConfig, magnitude: NDArray, outcome: QuantizeResults
) -> dict[str, list[set[object]]]:
    """Hits of micro-exponents: each value, and the micro-exponent of two zeros."""
    if not config.micro:
        return {}
    zeros = magnitude.reshape(len(magnitude), -1, PAIR).max(axis=2) == 0
    return {"micro": present(np.where(zeros, 2, outcome.micro), MICRO.__getitem__)}


def _is_scale(batch: Batch) -> NDArray[np.bool_]:
    """True for outer scales that are positive and finite."""
    return (batch.outer > 0) & (batch.outer < INFINITY)


def _scaling(config: QuantizeConfig, batch: Batch, outcome: QuantizeResults) -> NDArray[np.float64]:
    """The divisor of each value, (n, block) or (n, 1); any positive number if it is poisoned."""
    if config.divides:
        scale = outcome.scale.astype(np.int64)[:, None]
        outer = np.where(_is_scale(batch), batch.outer.view(np.float32), np.float32(1))
        poisoned = scale == E4M3.nan_code
        return outer[:, None] * np.where(poisoned, 1.0, E4M3.values[scale])
    return powers(outcome, config.micro)


def _rounded(in_units: NDArray) -> NDArray:
    """Index into ROUNDED."""
    below = np.floor(in_units)
    fraction = in_units - below
    odd = below % 2 == 1
    conditions = [fraction == 0, fraction < 0.5, fraction > 0.5, odd]
    return np.select(conditions, [0, 1, 4, 3], 2)


def _beyond(exponent: NDArray) -> NDArray:
    low, high = E8M0.exponent_range
    return np.where(exponent < low, -1, np.where(exponent > high, 1, 0))


def _own_goals(config: QuantizeConfig) -> dict[str, Sequence[object]]:
    """Goals of the unit's kind of scales."""
    if config.divides:
        parities = {code % 2 for fmt in config.formats for code in tied_scales(config, fmt)}
        missing = {ROUNDED[2 + parity] for parity in (0, 1) if parity not in parities}
        return {"outer": OUTER_CLASSES, "scale_rounding": [x for x in ROUNDED if x not in missing]}
    carries = [(rule, carried) for rule in config.scale_rules for carried in _carries(rule)]
    # Under `twice` every pair has room for its micro-exponent, except where E8M0 ends.
    micro = MICRO[1:] if stays_below(config, *config.formats) else MICRO
    return {"carry": carries, **({"micro": micro} if config.micro else {})}


def _carries(rule: str) -> tuple[bool, ...]:
    return {"floor": (False,), "twice": (True,)}.get(rule, (False, True))


def _scale_bins(config: QuantizeConfig) -> Sequence[object]:
    if config.divides:
        return [name for name in SCALE_NAMES[config.scales] if name != "zero"]
    _, top = exponent_limits(config, *config.formats)
    reached = {"smallest": True, "small": True, "one": top >= 0, "large": top >= 1}
    reached |= {"largest": top >= E8M0.exponent_range[1], "nan": _poisons(config)}
    return [name for name in SCALE_CLASSES if reached[name]]


def _limits(config: QuantizeConfig, fmt: ElementFormat) -> Sequence[str]:
    """Limits that a format can hit.

    Without micro-exponents, the rule `ceil` saturates only values that E8M0 cannot scale, in a few
    formats, and `even` where a source has digits between the largest element and the values that
    carry.
    """
    last = 2.0**-config.source.mantissa_bits
    largest = {"floor": 2.0 - last, "even": 2.0 - 2.0 ** -(fmt.mantissa_bits + 1) - last}
    if config.micro:  # pairs are doubled after a carry
        largest |= dict.fromkeys(("even", "ceil", "twice"), 2.0 - last)
    above = any(largest.get(r, 0) > fmt.largest_finite / 2.0**fmt.emax for r in config.scale_rules)
    saturates = above or config.divides or ENDS[2] in range_bins(config, fmt)
    return LIMITS if saturates else LIMITS[1:]


def _poisons(config: QuantizeConfig) -> bool:
    if config.nonfinite == "poison":
        return True
    return any(fmt.nan_code is None for fmt in config.formats)


def _element_classes(config: QuantizeConfig, fmt: ElementFormat) -> Sequence[str]:
    """Classes of codes that quantisation makes."""
    missing = {"most_negative"}
    if config.nonfinite == "poison":
        missing |= {"inf", "nan"}
    elif config.select is not None and _poisons(config):  # whatever the format
        missing.add("nan")
    classes = class_codes(fmt)
    if stays_below(config, fmt) and not config.micro:
        last = np.nextafter(2.0**fmt.emax, 0 if config.rounding == "toward_zero" else np.inf)
        of_infinity = config.nonfinite == "element" and fmt.inf_code is None
        finite = classes.keys() & {"normal", *["largest"] * (not of_infinity)}
        missing |= {name for name in finite if (np.abs(fmt.values[classes[name]]) > last).all()}
    return [name for name in classes if name not in missing]
