"""Units of schemes: the unit that multiplies codes, and the unit that makes them."""

import math
from itertools import product
from typing import Any

from ...model import Accumulator, DotConfig, QuantizeConfig
from ...model.formats import BF16, BLOCK_SCALES, E4M3, E8M0, FLOAT32, FORMATS, ElementFormat
from ...model.integers import INTEGER_SCALES
from ...model.schemes import Level, PowerFormat, Scheme, UnsignedFormat, block
from ...model.schemes.pairing import Pairing
from ...model.schemes.scheme import is_region, is_shift

LANES = 32
INTEGER_LANES = dict(sorted(((f.name, f.bits) for f in FORMATS.values() if f.is_integer),
                            key=lambda lane: lane[1]))  # fmt: skip
"""Integer elements of units and their bits, the narrowest first."""
PAIR = 2  # elements that share a micro-exponent in a unit


class NoUnitError(ValueError):
    """No unit computes the products of a scheme, or its codes; the message says why."""


def unit_of(pair: Pairing, rule: Accumulator | str = "aligned:13", lanes: int = LANES) -> DotConfig:
    """Unit that computes a region's sum (section 7 of docs/numerics.md).

    Activations are operand a, weights b. Float scales of regions are multiplied outside. Float
    elements, and block scales that are floats or powers of two, take `rule` and a float result.
    Integers under float scales of regions take the INT32 running value, with zero points and
    integer scales as inputs. The narrowest two's complement holds sign-magnitude elements.
    Selectors of code books, a's then b's, are the mode of each block. Activations in bfloat16 are
    elements, and weights their codes. A lane's integers are fractions; the scale outside converts
    them. lanes: at most a block. Raises NoUnitError.
    """
    sides = [side for side in (pair.activations, pair.weights) if side is not None]
    weights = [_lane(element) for element in pair.weights.elements]
    activations = [BF16.name]
    if pair.activations is not None:
        activations = [_lane(element) for element in pair.activations.elements]
    inner = [kind for scheme in sides for kind in _inner(scheme)]
    of_blocks = {kind for kind in inner if kind in BLOCK_SCALES}
    integer_scales = [kind for kind in inner if kind.startswith("u")]
    zeros = "".join(name for name, scheme in zip("ab", sides, strict=False) if scheme.zero_point)
    floating = bool(of_blocks) or pair.activations is None or any(map(_is_float, sides))
    if floating and (integer_scales or zeros):
        what = "integer scales" if integer_scales else "a zero point"
        beside = min(of_blocks).upper() if of_blocks else "floats"
        raise NoUnitError(f"no unit takes {what} beside {beside}")
    if len(of_blocks) > 1:
        raise NoUnitError("no unit takes E4M3 scales of one operand beside E8M0's of the other")
    options: dict[str, Any] = {
        "formats": ",".join(f"{a}x{b}" for a, b in product(activations, weights)),
        "lanes": min(lanes, *(_stretch(scheme) for scheme in sides)),
    }
    if floating:
        scales = E4M3.name if E4M3.name in of_blocks else E8M0.name
        options |= {"accumulator": rule, "micro": "e1m0" in inner, "scales": scales}
    else:
        widest = max(["none", *integer_scales], key=_scale_bits)
        options |= {"accumulator": "int32", "out": "int32", "scales": widest}
        options |= {"zero_points": zeros or "none"}
    try:
        return DotConfig(**options)
    except ValueError as error:
        raise NoUnitError(f"no unit: {error}") from None


def quantizer_of(scheme: Scheme | None) -> QuantizeConfig:
    """Unit that makes the codes of activations: `mxdot.model.schemes.quantize` to the bit.

    A float scale of regions around E4M3 scales is an input. Signs and magnitudes leave in the form
    of the scheme. None stands for activations in bfloat16. Raises NoUnitError.
    """
    if scheme is None:
        raise NoUnitError("activations in bfloat16 are not quantised")
    if len(scheme.elements) > 1 and scheme.error_digits is None:
        raise NoUnitError(
            "no quantiser chooses by errors summed in float64, which takes a tree of float64 "
            f"adders for each format; {scheme}:e8 has one, by errors of 8 digits"
        )
    if scheme.zero_point:
        raise NoUnitError(
            "no quantiser makes zero points: it compares magnitudes, and they take the least and "
            "the greatest value"
        )
    outer, *inner = scheme.levels
    innermost = scheme.levels[-1]
    options: dict[str, Any]
    if outer.format == E8M0 and all(_is_micro(level) for level in inner):
        blocks, options = outer, {"scale_rule": outer.rule, "micro": bool(inner)}
        options["select"] = scheme.error_digits
    elif [level.format for level in scheme.levels] == [FLOAT32, E4M3]:
        blocks, options = innermost, {"scales": E4M3.name}
    else:
        raise NoUnitError(f"no quantiser makes {innermost.format} scales: {_why_not(innermost)}")
    if blocks.granularity.rows != 1:
        raise NoUnitError(f"a quantiser's blocks are of one row, not {blocks.granularity}")
    try:
        return QuantizeConfig(scheme.elements, **options, block=blocks.granularity.columns or 0)
    except ValueError as error:
        raise NoUnitError(f"no quantiser: {error}") from None


def _why_not(level: Level) -> str:
    """Reason why no quantiser makes the scales of an innermost level."""
    if level.granularity.rows == 1 and level.granularity.columns is not None:
        return "its dividers round scales to E4M3 alone"
    return f"the largest magnitude of a {level.granularity} is known when all of it has come"


def _is_micro(level: Level) -> bool:
    """True for an inner level with a unit's micro-exponents."""
    return is_shift(level, 1) and level.granularity == block(PAIR)


def _scale_bits(kind: str) -> int:
    if kind not in INTEGER_SCALES:
        raise NoUnitError(f"a unit's integer scales have 2 to 8 bits, not {kind}")
    return INTEGER_SCALES[kind]


def _lane(element: ElementFormat) -> str:
    """Element format of a lane that holds the element."""
    if element.is_mx:
        return element.name
    return next(name for name, bits in INTEGER_LANES.items() if element.bits <= bits)


def _is_float(scheme: Scheme) -> bool:
    return not scheme.elements[0].is_integer


def _inner(scheme: Scheme) -> list[str]:
    """Names of scales that join inside a sum, as in `DotConfig`, and ``e1m0``."""
    kinds = []
    for i, level in enumerate(scheme.levels):
        if is_region(level, i):
            continue
        if is_shift(level, i):
            if level.granularity.columns != PAIR:
                raise NoUnitError(f"a unit's micro-exponents are for {PAIR} elements, not {level}")
        elif not isinstance(level.format, PowerFormat | UnsignedFormat) and level.format != E4M3:
            raise NoUnitError(f"no unit takes {level.format} scales inside a sum")
        kinds.append(str(level.format))
    return kinds


def _stretch(scheme: Scheme) -> float:
    """Elements under one scale, without micro-exponents; infinity for a row."""
    return min(
        level.granularity.columns or math.inf
        for i, level in enumerate(scheme.levels)
        if not is_shift(level, i)
    )
