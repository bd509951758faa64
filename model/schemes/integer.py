"""Exact INT32 sums of integer schemes, and their rescaling in float32 (docs/numerics.md, 7)."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, cast, namespace, power
from ..blocks import running_value
from ..errors import choice
from ..formats import INT32, UnsignedFormat
from ..rounding import F32, nearest_even
from .array import ScaledArray
from .grouping import expand
from .operand import Operand, element_range, operand
from .regions import check_pair, regions, rescaled
from .scheme import Scheme, is_region
from .table import scheme as find

DIGIT_BITS = 16  # of each piece of a factor, where products of whole factors leave float64


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class IntegerSums:
    """Sums of (q_a - z_a)(q_b - z_b) times the inner integer scales, over each region.

    sums: int32 (M, N, regions), in units of 2^lsb. scales: float32 (M, N, regions), S of each
    region. overflowed: bool, where the exact sum left INT32; `sums` is then modulo 2^32.
    """

    sums: NDArray[np.int32]
    scales: F32
    overflowed: NDArray[np.bool_]
    lsb: int

    def rescale(self, c: ArrayLike | None = None) -> F32:
        """C' = RNE_fp32(C + S x RNE_fp32(sum)), region after region, from `c` or +0.

        c: floats that are float32, broadcastable to (M, N); TypeError or ValueError if not.
        """
        shape = self.sums.shape[:2]
        start = running_value(c, shape).reshape(shape)
        return rescaled_sums(start, self.sums, self.scales, self.lsb)


def integer_sums(a: ScaledArray, b: ScaledArray, *, overflow: str = "refuse") -> IntegerSums:
    """Exact sums over the last axes of a (M, K) and b (N, K), for every region.

    overflow: ``refuse`` raises for a region longer than `largest_length` of the two schemes;
    ``wrap`` wraps sums as INT32 does, and marks them in `overflowed`.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    choice("overflow", overflow, ("refuse", "wrap"))
    check_pair(a, b)
    return IntegerSums(*sums_of(operand(a), operand(b), a.scheme, b.scheme, overflow))


def sums_of(
    left: Operand, right: Operand, a: Scheme, b: Scheme, overflow: str
) -> tuple[Array, Array, Array, int]:
    """The fields of `IntegerSums` for operands of two schemes."""
    sums, scales = zip(*region_sums(left, right, a, b, overflow), strict=True)
    xp = namespace(left.values)
    exact = xp.stack(sums, -1)
    overflowed = (exact < INT32.lowest) | (exact > INT32.highest)
    wrapped = cast(exact, "int32")  # modulo 2^32
    return wrapped, xp.stack(scales, -1), overflowed, left.lsb + right.lsb


def region_sums(
    left: Operand, right: Operand, a: Scheme, b: Scheme, overflow: str = "refuse"
) -> Iterator[tuple[Array, Array]]:
    """Exact int64 sums (M, N) of each region, with its S."""
    check_integers(a, b)
    parts = regions(left, right)
    if overflow == "refuse":
        check_length(a, b, max(region.length for region in parts))
    terms = [integer_terms(side) for side in (left, right)]
    for region in parts:
        columns = slice(region.start, region.stop)
        exact = exact_product(terms[0][:, columns], terms[1][:, columns])
        yield exact, region.scale(left, right)


def rescaled_sums(c: Array, sums: Array, scales: Array, lsb: int) -> Array:
    """`IntegerSums.rescale` from float32 c (M, N)."""
    for i in range(sums.shape[2]):
        c = rescaled_sum(c, sums[..., i], scales[..., i], lsb)
    return c


def rescaled_sum(c: Array, sums: Array, scale: Array, lsb: int) -> Array:
    """C' = RNE_fp32(C + S x RNE_fp32(sum)) of a region's sums, in units of 2^lsb."""
    return rescaled(c, scale, nearest_even(cast(sums, "float64") * 2.0**lsb))


def largest_length(a: Scheme | str, b: Scheme | str) -> int:
    """The most terms whose sum always fits INT32, derived from the schemes' formats."""
    a, b = find(a, "a"), find(b, "b")
    check_elements(a, b)
    (low_a, high_a), (low_b, high_b) = _term_range(a), _term_range(b)
    highest = max(low_a * low_b, high_a * high_b)
    lowest = min(low_a * high_b, high_a * low_b)
    return min(INT32.highest // highest, INT32.lowest // lowest)


def check_length(a: Scheme, b: Scheme, length: int) -> None:
    """ValueError where a sum of `length` terms can leave INT32."""
    most = largest_length(a, b)
    if length > most:
        raise ValueError(
            f"K of an INT32 sum of {a} x {b} must be at most {most}, not {length}: it could "
            "overflow"
        )


def check_elements(a: Scheme, b: Scheme) -> None:
    """ValueError unless all elements are integers."""
    for scheme in (a, b):
        for element in scheme.elements:
            if not element.is_integer:
                raise ValueError(f"INT32 sums take integer elements, not {element} of {scheme}")


def check_integers(a: Scheme, b: Scheme) -> None:
    """ValueError unless elements and inner scales are integers and the outermost scale a float."""
    check_elements(a, b)
    for scheme in (a, b):
        for i, level in enumerate(scheme.levels):
            if not is_region(level, i) and not isinstance(level.format, UnsignedFormat):
                raise ValueError(
                    f"INT32 sums take float scales outermost and integer ones inside, not {level} "
                    f"of {scheme}"
                )


def has_integer_sums(a: Scheme, b: Scheme, length: int) -> bool:
    """Whether `integer_sums` takes rows of `length` elements of both and cannot overflow."""
    outermost = (scheme.levels[0].granularity.columns or length for scheme in (a, b))
    try:
        check_integers(a, b)
        check_length(a, b, min(length, *outermost))
    except ValueError:
        return False
    return True


def _term_range(scheme: Scheme) -> tuple[int, int]:
    """Least and greatest factor of a term, in units of its last digit."""
    _, low, high = element_range(scheme)
    inner = prod(
        int(level.format.largest_finite)
        for level in scheme.levels
        if isinstance(level.format, UnsignedFormat)
    )
    return low * inner, high * inner


def integer_terms(side: Operand) -> Array:
    """Factors of the terms as integers in float64."""
    values = side.values * 2.0**-side.lsb
    for scale in side.blocks:
        factors = scale.significands * power(scale.exponents)
        values = values * expand(factors, (1, scale.length))
    return values


def exact_product(a: Array, b: Array) -> Array:
    """Exact int64 product of `a` and `b` transposed, both integers in float64.

    Products of float64 matrices are fast. Where a sum does not fit float64, the larger factors are
    cut into digits and the columns into parts that fit. Raises ValueError where a sum needs more
    than 64 bits.
    """
    xp = namespace(a)
    largest = [int(xp.abs(side).max()) for side in (a, b)]
    if prod(largest) * a.shape[1] < 2**53:
        return cast(a @ b.T, "int64")
    if prod(largest) * a.shape[1] >= 2**63:
        raise ValueError(f"sums of a and b must fit 64 bits, not {a.shape[1]} terms of {largest}")
    if largest[0] < largest[1]:
        return exact_product(b, a).T
    step = 2**53 // (2**DIGIT_BITS * max(1, largest[1]))
    total = cast(xp.zeros_like(a[:, :1] * b[None, :, 0]), "int64")
    for shift in range(0, largest[0].bit_length(), DIGIT_BITS):
        digits = xp.fmod(xp.trunc(a * 2.0**-shift), 2.0**DIGIT_BITS)
        for start in range(0, a.shape[1], step):
            columns = slice(start, start + step)
            sums = cast(digits[:, columns] @ b[:, columns].T, "int64")
            total = total + xp.bitwise_left_shift(sums, shift)
    return total
