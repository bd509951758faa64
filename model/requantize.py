"""Requantisation: an INT32 sum rescaled to a narrow integer (docs/numerics.md, section 8).

Sources of the two integer rules: Jacob et al., Integer-Arithmetic-Only Inference, CVPR 2018,
arXiv:1712.05877 (multiplier and shift); Arm's TOSA specification, RESCALE (its single rounding).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
MULTIPLIER_BITS = 31  # unsigned
SHIFT_BITS = 6
LARGEST_SHIFT = 62  # a sum x multiplier and its rounding then fit 64 bits
LARGEST_SHIFT_ALONE = 31
SUM_BITS, LOWEST, HIGHEST = INT32.bits, INT32.lowest, INT32.highest
Ints = NDArray[np.int64]


class Rescaled(NamedTuple):
    """Integers before zero point and clipping, and where a non-zero bit was rounded away."""

    integers: Ints
    inexact: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FloatRescale:
    """RNE(RNE_fp32(RNE_fp32(sum) x scale)).

    scale: positive finite float32, one or an array that broadcasts to the sums. ValueError if not.
    """

    scale: NDArray[np.float32]

    def __init__(self, scale: ArrayLike) -> None:
        value = np.array(as_float32(_reals(scale), "scale"))
        usable = np.isfinite(value) & (value > 0)
        if not usable.all():
            raise ValueError(f"scale must be positive and finite, not {value[~usable].flat[0]}")
        vars(self)["scale"] = value

    def __call__(self, sums: Ints) -> Rescaled:
        """`sums` times the scale."""
        wide = sums.astype(np.float32)
        exact = wide.astype(np.float64) * self.scale
        with np.errstate(over="ignore", under="ignore"):
            product = wide * self.scale
        integers = np.rint(product)
        inexact = (wide != sums) | (product != exact) | (integers != product)
        limit = 2.0**SUM_BITS  # beyond every integer format
        return Rescaled(np.clip(integers, -limit, limit).astype(np.int64), inexact)


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
    def of(cls, scale: ArrayLike) -> "FixedRescale":
        """The nearest multiplier of 31 significant bits (ties to even), and its shift.

        ValueError unless every scale is at least 2^-32 and, rounded, below 2^31: a smaller one
        makes nothing but zeros.
        """
        value = _reals(scale)
        fraction, exponent = np.frexp(value)
        multiplier = np.rint(np.ldexp(fraction, MULTIPLIER_BITS))
        carry = multiplier == 2.0**MULTIPLIER_BITS
        multiplier = np.where(carry, multiplier / 2, multiplier)
        shift = MULTIPLIER_BITS - (exponent + carry)
        usable = np.isfinite(value) & (value >= 2.0**-SUM_BITS) & (shift >= 0)
        if not usable.all():
            got = value[~usable].flat[0]
            raise ValueError(f"scale must be from 2^-32 to less than 2^31, not {got}")
        return cls(multiplier.astype(np.int64), shift.astype(np.int64))

    def __call__(self, sums: Ints) -> Rescaled:
        """`sums` times multiplier x 2^-shift."""
        return _shifted(sums * self.multiplier, self.shift)


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
        """The shift of a power of two; ValueError unless every scale is one from 2^-31 to 1."""
        value = _reals(scale)
        fraction, exponent = np.frexp(value)
        shift = 1 - exponent
        usable = (fraction == 0.5) & (shift >= 0) & (shift <= LARGEST_SHIFT_ALONE)
        if not usable.all():
            got = value[~usable].flat[0]
            raise ValueError(f"scale must be a power of two from 2^-31 to 1, not {got}")
        return cls(shift)

    def __call__(self, sums: Ints) -> Rescaled:
        """`sums` times 2^-shift."""
        return _shifted(sums, self.shift)


Rescale = FloatRescale | FixedRescale | ShiftRescale


class Requantized(NamedTuple):
    """Integers of the output, and where they were rounded and where clipped."""

    integers: NDArray[np.int32]
    inexact: NDArray[np.bool_]
    clipped: NDArray[np.bool_]


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

    sums: integers of any dtype within INT32, of any shape. Parameters of `rescale` and
    `zero_point` (integers of `output`) are one for all or broadcast to the sums: channels along
    the last axis, or (channels, 1). low, high: the clipping range inside that of `output`
    (all of it when None), as a fused activation needs it. The result is in the shape of `sums`;
    `output.encode` makes codes of it. TypeError or ValueError, naming the argument.
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
    """As `requantize`, and where non-zero bits were rounded away and results clipped."""
    check_rescale(rescale)
    output = integer_format(output)
    values = integer_array("sums", sums, LOWEST, HIGHEST)
    bottom, top = output.lowest, output.highest
    zero = integer_array("zero_point", zero_point, bottom, top)
    low = bottom if low is None else integer("low", low, bottom, top)
    high = top if high is None else integer("high", high, low, top)
    for name, parameter in {**vars(rescale), "zero_point": zero}.items():
        check_shape(name, parameter.shape, values.shape)
    integers, inexact = rescale(values)
    moved = integers + zero
    result = np.clip(moved, low, high)
    return Requantized(result.astype(np.int32), inexact, result != moved)


def integer_format(value: IntegerFormat | str, name: str = "output") -> IntegerFormat:
    """The IntegerFormat of a name or of itself; ValueError lists the known names."""
    if isinstance(value, IntegerFormat):
        return value
    return INTEGERS[choice(name, value, INTEGERS)]


def _reals(scale: ArrayLike) -> NDArray[np.float64]:
    """`scale` as float64; TypeError for what is no real number."""
    value = np.asarray(scale)
    if value.dtype.kind not in "iuf" and value.dtype.name != "bfloat16":
        raise TypeError(f"scale must be real numbers, not {value.dtype}")
    return value.astype(np.float64)


def _shifted(values: Ints, shift: Ints) -> Rescaled:
    half = (np.int64(1) << shift) >> 1
    result = (values + half) >> shift
    return Rescaled(result, result << shift != values)


def check_rescale(rescale: object) -> None:
    """TypeError unless `rescale` is one of the three rules."""
    if not isinstance(rescale, Rescale):
        raise TypeError(
            f"rescale must be a FloatRescale, FixedRescale or ShiftRescale, not {rescale!r}"
        )


def check_shape(name: str, parameter: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """ValueError unless a parameter of that shape broadcasts to sums of `shape`."""
    try:
        fits = np.broadcast_shapes(parameter, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name} must broadcast to the sums' shape {shape}, not {parameter}")
