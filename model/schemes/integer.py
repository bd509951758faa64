"""Exact INT32 sums of integer schemes, and their rescaling in float32 (docs/numerics.md, 7)."""

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..dot import running_value
from ..errors import choice
from ..formats import INT32, UnsignedFormat
from ..rounding import F32, F64, nearest_even
from .array import ScaledArray
from .operand import Operand, element_range, is_region, operand
from .regions import check_pair, regions, rescaled
from .scheme import Scheme
from .table import scheme as find


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class IntegerSums:
    """Sums of (q_a - z_a)(q_b - z_b), inner integer scales multiplied in, over each region.

    sums: int32 (M, N, regions), in units of 2^unit. scales: float32 (M, N, regions), S of
    each. overflowed: bool, where the exact sum left INT32, and `sums` holds it modulo 2^32.
    """

    sums: NDArray[np.int32]
    scales: F32
    overflowed: NDArray[np.bool_]
    unit: int

    def rescale(self, c: ArrayLike | None = None) -> F32:
        """C' = RNE_fp32(C + S x RNE_fp32(sum)), region after region, from `c` or +0.

        c: floats that are float32, broadcastable to (M, N); TypeError or ValueError if not.
        """
        shape = self.sums.shape[:2]
        result = running_value(c, shape).reshape(shape)
        for i in range(self.sums.shape[2]):
            partial = nearest_even(np.ldexp(self.sums[..., i].astype(np.float64), self.unit))
            result = rescaled(result, self.scales[..., i], partial)
        return result


def integer_sums(a: ScaledArray, b: ScaledArray, *, overflow: str = "refuse") -> IntegerSums:
    """The exact sums over the last axes of a (M, K) and b (N, K), for every region.

    overflow: ``refuse`` a region longer than `largest_length` of the two schemes, or ``wrap`` as
    INT32 does and tell where.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    choice("overflow", overflow, ("refuse", "wrap"))
    check_pair(a, b)
    check_integers(a.scheme, b.scheme)
    left, right = operand(a), operand(b)
    cuts = regions(left, right)
    longest = max(region.length for region in cuts)
    if overflow == "refuse":
        check_length(a.scheme, b.scheme, longest)
    terms = [_integers(side) for side in (left, right)]
    sums, scales = [], []
    for region in cuts:
        columns = slice(region.start, region.stop)
        sums.append(_exact(terms[0][:, columns], terms[1][:, columns]))
        scales.append(region.scale(left, right))
    exact = np.stack(sums, axis=-1)
    return IntegerSums(
        exact.astype(np.int32),  # modulo 2^32
        np.stack(scales, axis=-1),
        (exact < INT32.lowest) | (exact > INT32.highest),
        left.lsb + right.lsb,
    )


def largest_length(a: Scheme | str, b: Scheme | str) -> int:
    """The most terms whose sum is sure to fit INT32, derived from the schemes' formats."""
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
    """Whether `integer_sums` takes rows of `length` elements of both, and none can overflow."""
    outermost = (scheme.levels[0].granularity.columns or length for scheme in (a, b))
    try:
        check_integers(a, b)
        check_length(a, b, min(length, *outermost))
    except ValueError:
        return False
    return True


def _term_range(scheme: Scheme) -> tuple[int, int]:
    """The least and the greatest factor of a term, in units of its lsb."""
    _, low, high = element_range(scheme)
    inner = prod(
        int(level.format.largest_finite)
        for level in scheme.levels
        if isinstance(level.format, UnsignedFormat)
    )
    return low * inner, high * inner


def _integers(side: Operand) -> F64:
    """The factors of the terms as integers."""
    values = np.ldexp(side.values, -side.lsb)
    for scale in side.blocks:
        factors = np.ldexp(scale.significands, scale.exponents)
        values = values * np.repeat(factors, scale.length, axis=1)
    return values


def _exact(a: F64, b: F64) -> NDArray[np.int64]:
    """a times b transposed, exact: by float64 where that has room, else by int64."""
    largest = [int(np.abs(side).max()) for side in (a, b)]
    if prod(largest) * a.shape[1] < 2**53:
        return (a @ b.T).astype(np.int64)
    if prod(largest) * a.shape[1] >= 2**63:
        raise ValueError(f"sums of a and b must fit 64 bits, not {a.shape[1]} terms of {largest}")
    return a.astype(np.int64) @ b.astype(np.int64).T
