"""Requantisation: an INT32 sum rescaled to a narrow integer (docs/numerics.md, section 8).

Sources of the two integer rules: Jacob et al., Integer-Arithmetic-Only Inference, CVPR 2018,
arXiv:1712.05877 (multiplier and shift); Arm's TOSA specification, RESCALE (its single rounding).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, cast, namespace
from .blocks import as_float32
from .errors import choice, integer, integer_array
from .formats import (
    INT4_FULL,
    INT4_SYMMETRIC,
    INT8_FULL,
    INT8_SYMMETRIC,
    INT32,
    UINT8,
    IntegerFormat,
)

INTEGERS = {f.name: f for f in (INT8_FULL, INT8_SYMMETRIC, UINT8, INT4_FULL, INT4_SYMMETRIC)}
LEAST_MULTIPLIER_BITS, MULTIPLIER_BITS = 4, 31  # unsigned
SHIFT_BITS = 6
LARGEST_SHIFT = 62  # a sum x multiplier and its rounding then fit 64 bits
LARGEST_SHIFT_ALONE = 31
SUM_BITS, LOWEST, HIGHEST = INT32.bits, INT32.lowest, INT32.highest
Ints = NDArray[np.int64]


def rescaled_floats(wide: Array, scale: Array) -> Array:
    """RNE_fp32(wide x scale) of float32 sums."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return wide * scale


class Rescaled(NamedTuple):
    """int64 integers before zero point and clipping. inexact: a non-zero bit was rounded away."""

    integers: Array
    inexact: Array


@dataclass(frozen=True, eq=False)
class FloatRescale:
    """RNE(RNE_fp32(RNE_fp32(sum) x scale)).

    scale: positive finite float32, one or an array that broadcasts to the sums, else ValueError.
    """

    scale: NDArray[np.float32]

    def __init__(self, scale: ArrayLike) -> None:
        value = np.array(as_float32(_reals(scale), "scale"))
        usable = np.isfinite(value) & (value > 0)
        if not usable.all():
            raise ValueError(f"scale must be positive and finite, not {value[~usable].flat[0]}")
        vars(self)["scale"] = value

    @staticmethod
    def rescaled(sums: Array, scale: Array) -> Rescaled:
        """Sums times a scale."""
        wide, exact_sums = cast(sums, "float32"), cast(sums, "float64")
        exact = cast(wide, "float64") * cast(scale, "float64")
        product = rescaled_floats(wide, scale)
        xp = namespace(product)
        integers = xp.round(product)
        inexact = cast(wide, "float64") != exact_sums
        inexact = inexact | (cast(product, "float64") != exact) | (integers != product)
        limit = 2.0**SUM_BITS  # beyond every integer format
        return Rescaled(cast(xp.clip(integers, -limit, limit), "int64"), inexact)


@dataclass(frozen=True, eq=False)
class FixedRescale:
    """floor(sum x multiplier / 2^shift + 1/2): to nearest, ties toward +infinity.

    multiplier: 0 to 2^31 - 1, shift: 0 to 62; integers that broadcast to the sums.
    """

    multiplier: Ints
    shift: Ints

    def __init__(self, multiplier: ArrayLike, shift: ArrayLike) -> None:
        vars(self).update(
            multiplier=integer_array("multiplier", multiplier, 0, 2**MULTIPLIER_BITS - 1),
            shift=integer_array("shift", shift, 0, LARGEST_SHIFT),
        )

    @classmethod
    def of(cls, scale: ArrayLike, bits: int = MULTIPLIER_BITS) -> "FixedRescale":
        """The rule with the nearest multiplier of `bits` significant bits, ties to even.

        Raises ValueError unless every scale is at least 2^-32 and, rounded, below 2^bits. A smaller
        scale makes only zeros.
        """
        bits = integer("bits", bits, LEAST_MULTIPLIER_BITS, MULTIPLIER_BITS)
        value = _reals(scale)
        fraction, exponent = np.frexp(value)
        multiplier = np.rint(np.ldexp(fraction, bits))
        carry = multiplier == 2.0**bits
        multiplier = np.where(carry, multiplier / 2, multiplier)
        shift = bits - (exponent + carry)
        usable = np.isfinite(value) & (value >= 2.0**-SUM_BITS) & (shift >= 0)
        if not usable.all():
            wrong = value[~usable].flat[0]
            raise ValueError(f"scale must be from 2^-32 to less than 2^{bits}, not {wrong}")
        return cls(multiplier.astype(np.int64), shift.astype(np.int64))

    @staticmethod
    def rescaled(sums: Array, multiplier: Array, shift: Array) -> Rescaled:
        """Sums times multiplier x 2^-shift."""
        return _shifted(sums * multiplier, shift)


@dataclass(frozen=True, eq=False)
class ShiftRescale:
    """floor(sum / 2^shift + 1/2): to nearest, ties toward +infinity.

    shift: 0 to 31; integers that broadcast to the sums.
    """

    shift: Ints

    def __init__(self, shift: ArrayLike) -> None:
        vars(self)["shift"] = integer_array("shift", shift, 0, LARGEST_SHIFT_ALONE)

    @classmethod
    def of(cls, scale: ArrayLike) -> "ShiftRescale":
        """The rule for powers of two; ValueError unless every scale is one from 2^-31 to 1."""
        value = _reals(scale)
        fraction, exponent = np.frexp(value)
        shift = 1 - exponent
        usable = (fraction == 0.5) & (shift >= 0) & (shift <= LARGEST_SHIFT_ALONE)
        if not usable.all():
            wrong = value[~usable].flat[0]
            raise ValueError(f"scale must be a power of two from 2^-31 to 1, not {wrong}")
        return cls(shift)

    @staticmethod
    def rescaled(sums: Array, shift: Array) -> Rescaled:
        """Sums times 2^-shift."""
        return _shifted(sums, shift)


Rescale = FloatRescale | FixedRescale | ShiftRescale
RULES: dict[str, type[Rescale]] = {rule.__name__: rule for rule in get_args(Rescale)}


class Requantized(NamedTuple):
    """int32 integers of the output. inexact: rounded; clipped: changed by clipping."""

    integers: Array
    inexact: Array
    clipped: Array


def requantize(
    sums: ArrayLike,
    rescale: Rescale,
    output: IntegerFormat | str = INT8_FULL,
    *,
    zero_point: ArrayLike = 0,
    low: int | None = None,
    high: int | None = None,
) -> NDArray[np.int32]:
    """Integers of `output`: min(max(rescaled sum + zero_point, low), high).

    sums: integers within INT32, of any dtype and shape. zero_point: integers of `output`. It and
    the parameters of `rescale` broadcast to the sums: one for all, channels along the last axis, or
    (channels, 1). low, high: clipping range inside the range of `output`, as a fused activation
    needs it; None for the whole range. Returns int32 of the shape of `sums`; `output.encode` makes
    codes of it. Raises TypeError or ValueError, naming the argument.
    """
    return requantize_traced(
        sums, rescale, output, zero_point=zero_point, low=low, high=high
    ).integers


def requantize_traced(
    sums: ArrayLike,
    rescale: Rescale,
    output: IntegerFormat | str = INT8_FULL,
    *,
    zero_point: ArrayLike = 0,
    low: int | None = None,
    high: int | None = None,
) -> Requantized:
    """`requantize` with the places where results were rounded or clipped."""
    check_rescale(rescale)
    output = integer_format(output)
    integer("highest of output", output.highest, 1, HIGHEST)
    low, high = clipping_range(output, low, high)
    values = integer_array("sums", sums, LOWEST, HIGHEST)
    zero = integer_array("zero_point", zero_point, output.lowest, output.highest)
    return requantized(values, type(rescale), vars(rescale), zero, low, high)


def clipping_range(output: IntegerFormat, low: int | None, high: int | None) -> tuple[int, int]:
    """The clipping range; TypeError or ValueError unless it lies in the range of `output`."""
    low = output.lowest if low is None else integer("low", low, output.lowest, output.highest)
    return low, output.highest if high is None else integer("high", high, low, output.highest)


def requantized(
    sums: Array,
    rule: type[Rescale],
    parameters: Mapping[str, Array],
    zero: Array,
    low: int,
    high: int,
) -> Requantized:
    """int64 `sums` requantised by `rule`; ValueError for parameters that do not broadcast."""
    for name, parameter in {**parameters, "zero_point": zero}.items():
        check_shape(name, tuple(parameter.shape), tuple(sums.shape))
    integers, inexact = rule.rescaled(sums, *parameters.values())
    moved = integers + zero
    result = namespace(moved).clip(moved, low, high)
    return Requantized(cast(result, "int32"), inexact, result != moved)


def integer_format(value: IntegerFormat | str, name: str = "output") -> IntegerFormat:
    """The IntegerFormat with a name, or `value` itself; ValueError lists the names."""
    if isinstance(value, IntegerFormat):
        return value
    return INTEGERS[choice(name, value, INTEGERS)]


def _reals(scale: ArrayLike) -> NDArray[np.float64]:
    """`scale` as float64; TypeError unless real numbers."""
    value = np.asarray(scale)
    if value.dtype.kind not in "iuf" and value.dtype.name != "bfloat16":
        raise TypeError(f"scale must be real numbers, not {value.dtype}")
    return value.astype(np.float64)


def _shifted(values: Array, shift: Array) -> Rescaled:
    xp = namespace(values)
    half = xp.bitwise_right_shift(xp.bitwise_left_shift(xp.ones_like(shift), shift), 1)
    result = xp.bitwise_right_shift(values + half, shift)
    return Rescaled(result, xp.bitwise_left_shift(result, shift) != values)


def check_rescale(rescale: object) -> None:
    """TypeError unless `rescale` is one of the three rules."""
    if not isinstance(rescale, Rescale):
        raise TypeError(
            f"rescale must be a FloatRescale, FixedRescale or ShiftRescale, not {rescale!r}"
        )


def check_shape(name: str, parameter: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """ValueError unless the shape `parameter` broadcasts to sums of `shape`."""
    try:
        fits = np.broadcast_shapes(parameter, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name} must broadcast to the sums' shape {shape}, not {parameter}")
