"""Units drawn at random from all that there are, extreme parameters as often as ordinary ones."""

import random
from collections.abc import Callable
from typing import Any

from mxdot.model import (
    MX_FORMATS,
    PRESETS,
    DotConfig,
    DotQuantizeConfig,
    QuantizeConfig,
    accumulator,
)
from mxdot.model.formats import ROUNDINGS
from mxdot.model.integers import INTEGER_SCALES, ZERO_POINTS
from mxdot.model.outputs import INTEGER_OUTPUTS, OUTPUTS
from mxdot.model.quantize import NONFINITE, SCALE_RULES
from mxdot.model.units.base import LANES

PAIRS = [f"{a}x{b}" for a in MX_FORMATS for b in MX_FORMATS]
INTEGERS = ["int8", "int4", "int8xint4", "int4xint8"]
BOUNDS = (-300, -272, -254, -149, -133, -126, -24, -14, 0, 15, 16, 127, 128, 254, 260, 270, 290)
"""Exponents near which something of a fixed register's results changes."""


def fixed(rng: random.Random) -> str:
    """A register of any width anywhere, often with an end near a bound."""
    width = rng.choice([2, 3, 8, 24, 32, 64, 1024, rng.randint(2, 80), rng.randint(2, 1024)])
    bound = rng.choice(BOUNDS) + rng.randint(-3, 3)
    lsb = rng.choice([-1024, 1023, rng.randint(-1024, 1023), *[bound, bound - width + 1] * 2])
    return f"fixed:{width}:{min(max(lsb, -1024), 1023)}{rng.choice(['', ':wrap'])}"


def rule(rng: random.Random) -> str:
    """An accumulator, every third of them `fixed`."""
    bits = rng.choice([0, 1, 13, 25, 64, rng.randint(0, 64)])
    simple = [
        "exact",
        "float32",
        "int32",
        f"aligned:{bits}",
        f"fused:{bits}",
        rng.choice([*PRESETS]),
    ]
    return rng.choice([*simple, *[fixed(rng)] * 3])


def dot(rng: random.Random) -> DotConfig:
    """A unit of float results."""
    text = rule(rng)
    pairs = INTEGERS if text == "int32" else PAIRS
    lanes = rng.choice([n for n in LANES if n <= (32 if text == "hopper-mx" else 128)])
    kind = accumulator(text)
    return DotConfig(
        ",".join(rng.sample(pairs, rng.choice([1, 1, 1, 2, 3]))),
        lanes,
        text,
        scales="e4m3" if kind.takes_significands and rng.random() < 0.3 else "e8m0",
        scale_block=rng.choice([n for n in LANES if n <= lanes]) if kind.is_fused else None,
        out=rng.choice(["float32", *OUTPUTS]),
        status=rng.random() < 0.8,
        load_c=rng.random() < 0.7,
        micro=rng.random() < 0.2,
    )


def integer(rng: random.Random) -> DotConfig:
    """A unit of integer results."""
    return DotConfig(
        rng.choice(INTEGERS),
        rng.choice(LANES),
        "int32",
        out=rng.choice(["int32", *INTEGER_OUTPUTS]),
        status=rng.random() < 0.8,
        load_c=rng.random() < 0.5,
        scales=rng.choice([*INTEGER_SCALES]),
        zero_points=rng.choice(ZERO_POINTS),
    )


def quantizer(rng: random.Random) -> QuantizeConfig:
    """A quantiser."""
    block, rounding = rng.choice(LANES), rng.choice(ROUNDINGS)
    return QuantizeConfig(
        rng.sample([*MX_FORMATS], rng.choice([1, 1, 2, 3, 7])),
        block,
        rng.choice([*OUTPUTS]),
        rng.sample([*SCALE_RULES], rng.choice([1, 1, 2, 3])),
        rounding,
        rng.choice(NONFINITE),
        random=rng.choice(["stream", "lfsr"]) if rounding == "stochastic" else "stream",
    )


def dot_quantizer(rng: random.Random) -> DotQuantizeConfig:
    """A dot unit with a quantiser."""
    return DotQuantizeConfig(
        dot(rng),
        rng.choice([*MX_FORMATS]),
        rng.choice(LANES),
        rng.choice([*SCALE_RULES]),
        rng.choice(ROUNDINGS),
        rng.choice(NONFINITE),
    )


def units(make: Callable[[random.Random], Any], count: int) -> list:
    """`count` units, the same every time."""
    return [make(random.Random(f"{make.__name__} {number}")) for number in range(count)]
