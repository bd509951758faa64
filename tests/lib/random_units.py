"""Units drawn at random from all that there are, extreme parameters as often as ordinary ones."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mxdot.model import (
    MACHINES,
    PRESETS,
    Accumulator,
    DotConfig,
    DotQuantizeConfig,
    QuantizeConfig,
    accumulator,
)
from mxdot.model.accumulators.base import RUNNING
from mxdot.model.formats import FORMATS, ROUNDINGS
from mxdot.model.integers import INTEGER_SCALES, ZERO_POINTS
from mxdot.model.outputs import INTEGER_OUTPUTS, OUTPUTS
from mxdot.model.quantize import NONFINITE, SCALE_RULES
from mxdot.model.units import MatmulConfig
from mxdot.model.units.base import LANES
from mxdot.model.units.dot import MAX_INTERLEAVE
from mxdot.model.units.quantize_formats import MOST_BITS, SCHEME_INTEGERS

DOT_LANES = (2, *LANES)
"""Lanes of dot units, two of machines alone."""
INTEGERS = [name for name, fmt in FORMATS.items() if fmt.is_integer]
NARROW = [name for name, fmt in FORMATS.items() if fmt.bits <= MOST_BITS]
"""Formats of MX that a quantiser makes."""
BOUNDS = (-300, -272, -254, -149, -133, -126, -24, -14, 0, 15, 16, 127, 128, 254, 260, 270, 290)
"""Exponents near which something of a fixed register's results changes."""
MOST_SIDE = 3
"""Rows and columns of a matrix unit, all of whose dot units are alike."""


def fixed(rng: random.Random) -> str:
    """A register of any width anywhere, often with an end near a bound."""
    width = rng.choice([2, 3, 8, 24, 32, 64, 1024, rng.randint(2, 80), rng.randint(2, 1024)])
    bound = rng.choice(BOUNDS) + rng.randint(-3, 3)
    lsb = rng.choice([-1024, 1023, rng.randint(-1024, 1023), *[bound, bound - width + 1] * 2])
    return f"fixed:{width}:{min(max(lsb, -1024), 1023)}{rng.choice(['', ':wrap'])}"


def rule(rng: random.Random) -> Accumulator:
    """An accumulator, every third of them `fixed`."""
    bits = rng.choice([0, 1, 13, 25, 64, rng.randint(0, 64)])
    running = rng.choice([*RUNNING])
    simple = [
        "exact",
        rng.choice([*RUNNING]),
        "int32",
        f"aligned:{bits}:{running}",
        f"fused:{bits}:{running}",
        rng.choice([*PRESETS]),
        rng.choice([name for name, row in MACHINES.items() if row.has_unit]),
    ]
    return accumulator(rng.choice([*simple, *[fixed(rng)] * 3]))


def accepts(check: Callable, *arguments: Any, **keywords: Any) -> bool:
    """Whether a call raises no ValueError."""
    try:
        check(*arguments, **keywords)
    except ValueError:
        return False
    return True


def rule_of(rng: random.Random, lanes: int) -> Accumulator:
    """An accumulator of units of so many lanes."""
    while True:
        kind = rule(rng)
        if kind.least_lanes <= lanes and accepts(kind.check_unit, lanes, lanes):
            return kind


def pairs(rng: random.Random, kind: Accumulator) -> str:
    """One to three format pairs that an accumulator takes."""
    every = [
        f"{a}x{b}"
        for a, x in FORMATS.items()
        for b, y in FORMATS.items()
        if accepts(kind.check_formats, x, y)
    ]
    return ",".join(rng.sample(every, min(len(every), rng.choice([1, 1, 1, 2, 3]))))


def dot(rng: random.Random) -> DotConfig:
    """A unit of float results."""
    lanes = rng.choice(DOT_LANES)
    kind = rule_of(rng, lanes)
    blocks = [n for n in DOT_LANES if kind.least_lanes <= n <= lanes]
    blocks = [n for n in blocks if accepts(kind.check_unit, lanes, n)]
    config = DotConfig(
        pairs(rng, kind),
        lanes,
        kind,
        scale_block=rng.choice(blocks),
        out=rng.choice(["float32", *OUTPUTS]),
        status=rng.random() < 0.8,
        load_c=rng.random() < 0.7,
        micro=rng.random() < 0.2,
    )
    scales = {"scales": "e4m3"}
    has = rng.random() < 0.3 and accepts(replace, config, **scales)
    return replace(config, gate_idle=rng.random() < 0.2, **(scales if has else {}))


def integer(rng: random.Random) -> DotConfig:
    """A unit of integer results."""
    return DotConfig(
        f"{rng.choice(INTEGERS)}x{rng.choice(INTEGERS)}",
        rng.choice(LANES),
        "int32",
        out=rng.choice(["int32", *INTEGER_OUTPUTS]),
        status=rng.random() < 0.8,
        load_c=rng.random() < 0.5,
        scales=rng.choice([*INTEGER_SCALES]),
        zero_points=rng.choice(ZERO_POINTS),
        gate_idle=rng.random() < 0.2,
    )


def quantizer(rng: random.Random) -> QuantizeConfig:
    block, rounding = rng.choice(LANES), rng.choice(ROUNDINGS)
    return QuantizeConfig(
        rng.sample([*NARROW, *SCHEME_INTEGERS], rng.choice([1, 1, 2, 3, 7])),
        block,
        rng.choice([*OUTPUTS]),
        rng.sample([*SCALE_RULES], rng.choice([1, 1, 2, 3])),
        rounding,
        rng.choice(NONFINITE),
        beats=rng.choice([1, 1, 2 ** rng.randrange(block.bit_length())]),
        random=rng.choice(["stream", "lfsr"]) if rounding == "stochastic" else "stream",
    )


def dot_quantizer(rng: random.Random) -> DotQuantizeConfig:
    """A dot unit with a quantiser."""
    return DotQuantizeConfig(
        dot(rng),
        rng.choice(NARROW),
        rng.choice(LANES),
        rng.choice([*SCALE_RULES]),
        rng.choice(ROUNDINGS),
        rng.choice(NONFINITE),
    )


def matmul(rng: random.Random) -> MatmulConfig:
    """A matrix unit of a few dot units, with streams as wide as a step, or of any width."""
    turns = {"micro": False, "interleave": rng.choice([1, 1, 2, rng.randint(1, MAX_INTERLEAVE)])}
    turns["gate_idle"] = False
    sides = rng.randint(1, MOST_SIDE), rng.randint(1, MOST_SIDE)
    options = {"depth": 4, "initial_c": rng.random() < 0.5, "keep_b": rng.random() < 0.5}
    plain = MatmulConfig(DotConfig(**{**dot(rng).arguments, **turns}), *sides, **options)
    widths: dict[str, Any] = {
        f"{side}_bytes": rng.choice([None, 1, rng.randint(1, 2 * plain.unit_bytes(side))])
        for side in (*plain.inputs, "c")
    }
    return MatmulConfig(plain.dot, *sides, **options, **widths)


def units(make: Callable[[random.Random], Any], count: int) -> list:
    """`count` units, the same every time."""
    return [make(random.Random(f"{make.__name__} {number}")) for number in range(count)]
