"""The dot unit that multiplies the codes of schemes: the only place that says which."""

import math
from typing import Any

from ...model import Accumulator, DotConfig
from ...model.integers import INTEGER_SCALES
from ...model.schemes import PowerFormat, Scheme, UnsignedFormat
from ...model.schemes.scheme import is_region, is_shift
from .pairing import Pairing

LANES = 32
PAIR = 2  # elements that share a micro-exponent in a unit


class NoUnitError(ValueError):
    """No unit computes the products of a scheme; the message says why."""


def unit_of(pair: Pairing, rule: Accumulator | str = "aligned:13", lanes: int = LANES) -> DotConfig:
    """The unit that computes a region's sum (section 7 of docs/numerics.md) of activations a and
    weights b; float scales of regions are multiplied outside of it.

    Elements of floats and powers of two as scales take `rule` and a float result; integers under
    float scales the INT32 running value, with zero points and integer scales as inputs. Two's
    complement of 4 or 8 bits holds sign-magnitude elements. lanes: of at most a block.
    Raises NoUnitError.
    """
    if pair.activations is None:
        raise NoUnitError("bfloat16 activations take a unit of floats")
    sides = pair.activations, pair.weights
    elements = [_element(scheme) for scheme in sides]
    inner = [_inner(scheme) for scheme in sides]
    powers = any("e8m0" in kinds for kinds in inner)
    integer_scales = [kind for kinds in inner for kind in kinds if kind.startswith("u")]
    zeros = "".join(name for name, scheme in zip("ab", sides, strict=True) if scheme.zero_point)
    floating = powers or any(_is_float(scheme) for scheme in sides)
    if floating and (integer_scales or zeros):
        what = "integer scales" if integer_scales else "a zero point"
        raise NoUnitError(f"no unit takes {what} beside {'E8M0' if powers else 'floats'}")
    options: dict[str, Any] = {
        "formats": "x".join(elements),
        "lanes": min(lanes, *(_stretch(scheme) for scheme in sides)),
    }
    if floating:
        options |= {"accumulator": rule, "micro": any("e1m0" in kinds for kinds in inner)}
    else:
        widest = max(["none", *integer_scales], key=_scale_bits)
        options |= {"accumulator": "int32", "out": "int32", "scales": widest}
        options |= {"zero_points": zeros or "none"}
    try:
        return DotConfig(**options)
    except ValueError as error:
        raise NoUnitError(f"no unit: {error}") from None


def _scale_bits(kind: str) -> int:
    if kind not in INTEGER_SCALES:
        raise NoUnitError(f"a unit's integer scales have 2 to 8 bits, not {kind}")
    return INTEGER_SCALES[kind]


def _element(scheme: Scheme) -> str:
    """The element format of a lane."""
    element, *others = scheme.elements
    if others:
        raise NoUnitError("a unit's formats hold for a whole product, not for a block")
    if element.is_mx:
        return element.name
    return "int4" if element.bits <= 4 else "int8"


def _is_float(scheme: Scheme) -> bool:
    return not scheme.elements[0].is_integer


def _inner(scheme: Scheme) -> list[str]:
    """The scales that join inside a sum, as `DotConfig` calls them, and ``e1m0``."""
    kinds = []
    for i, level in enumerate(scheme.levels):
        if is_region(level, i):
            continue
        if is_shift(level, i):
            if level.granularity.columns != PAIR:
                raise NoUnitError(f"a unit's micro-exponents are for {PAIR} elements, not {level}")
        elif not isinstance(level.format, PowerFormat | UnsignedFormat):
            raise NoUnitError(f"no unit takes {level.format} scales inside a sum")
        kinds.append(str(level.format))
    return kinds


def _stretch(scheme: Scheme) -> float:
    """How many elements stand under one scale, but for micro-exponents; infinity for a row."""
    return min(
        level.granularity.columns or math.inf
        for i, level in enumerate(scheme.levels)
        if not is_shift(level, i)
    )
