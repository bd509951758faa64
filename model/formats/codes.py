"""Codes of floating and integer formats: checks, tables of values, and rounding."""

from enum import Enum
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, cached_property, cast, is_tensor, look_up, namespace

ROUNDINGS = ("nearest_even", "toward_zero", "stochastic")
LONGEST_CODE = 19  # bits of an element: TF32
LONGEST_EXPONENT = 8  # bits of a floating element's exponent: BF16, TF32
LONGEST_IN_TABLES = LONGEST_CODE  # bits of a code that tables hold


def read_only(table: NDArray) -> NDArray:
    """`table` itself, made read-only, because all callers share it."""
    table.flags.writeable = False
    return table


def code_dtype(bits: int) -> np.dtype:
    """Unsigned type of an array of codes of `bits` bits."""
    return np.dtype(np.min_scalar_type(2**bits - 1))


def refuse_nan(values: Array, name: str) -> None:
    """Raise ValueError where format `name` has no code for one of `values`."""
    x = cast(values, "float64")
    if namespace(x).isnan(x).any():
        raise ValueError(f"values must hold no NaN: format {name} has none")


def as_given(x: Array) -> Array:
    """`x`, or its scalar where it has no axes, as NumPy's functions return it."""
    return x[()] if isinstance(x, np.ndarray) else x


class Triple(NamedTuple):
    """Exact value (-1)^sign x significand x 2^exponent; int64 arrays of the shape of the codes."""

    sign: NDArray[np.int64]
    significand: NDArray[np.int64]
    exponent: NDArray[np.int64]


class Specials(Enum):
    """Codes of a format that are not finite."""

    NONE = "every code is a finite number"
    NAN_ONLY = "all-ones exponent and mantissa is NaN; no infinity"
    IEEE = "all-ones exponent is infinity (mantissa 0) or NaN"
    FNUZ = "the code of -0 is NaN; no infinity, no -0, bias one more (Finite, NaN, Unsigned Zero)"


NARROW = {
    (4, 3, Specials.NAN_ONLY): np.dtype(ml_dtypes.float8_e4m3fn),
    (5, 2, Specials.IEEE): np.dtype(ml_dtypes.float8_e5m2),
    (4, 3, Specials.FNUZ): np.dtype(ml_dtypes.float8_e4m3fnuz),
    (5, 2, Specials.FNUZ): np.dtype(ml_dtypes.float8_e5m2fnuz),
    (2, 3, Specials.NONE): np.dtype(ml_dtypes.float6_e2m3fn),
    (3, 2, Specials.NONE): np.dtype(ml_dtypes.float6_e3m2fn),
    (2, 1, Specials.NONE): np.dtype(ml_dtypes.float4_e2m1fn),
}
"""Types of ml_dtypes by exponent bits, mantissa bits and special codes; an element is a byte."""


def narrow_codes(x: ArrayLike, narrow: np.dtype | None) -> NDArray:
    """`x` as an array; the bytes of an array whose type is `narrow`."""
    array = np.asarray(x)
    return array if narrow is None or array.dtype != narrow else array.view(np.uint8)


class Codes:
    """Base of formats whose codes are the low bits of the unsigned type `dtype`.

    A subclass has `name`, `bits`, `nan_code`, the `values` and `triples` of every code, and
    `encode_unchecked`.
    """

    zero_code: int | None = 0
    """Code of zero, or None."""

    @property
    def narrow(self) -> np.dtype | None:
        """Type of ml_dtypes whose bytes are the codes; None without one."""
        return None

    @cached_property
    def dtype(self: Any) -> np.dtype:
        """Type of an array in NumPy."""
        return code_dtype(self.bits)

    @cached_property
    def _kept_as(self) -> str:
        return self.dtype.name  # NumPy builds the name at each access

    def __str__(self: Any) -> str:
        return self.name

    def encode(
        self: Any, values: Array, rounding: str = "nearest_even", random: Array | None = None
    ) -> Array:
        """`values` (float64 or narrower) rounded to the format, as `dtype` stores them.

        Values saturate at the largest finite value. NaN and infinity become the format's own.
        Without an infinity, infinity saturates; without a NaN, NaN raises ValueError. A scalar of
        NumPy gives a scalar. random: uint32 `words` of `round_to_integers`.
        """
        if self.nan_code is None:
            refuse_nan(values, self.name)
        return self.encode_unchecked(values, rounding, random)

    def check(self: Any, codes: ArrayLike, name: str = "codes") -> NDArray:
        """`codes` as an array of `dtype`; an array of the type `narrow` gives its bytes.

        TypeError for another type, ValueError for a code too wide.
        """
        codes = narrow_codes(codes, self.narrow)
        if codes.dtype != self.dtype:
            raise TypeError(f"{name} must have dtype {self.dtype}, not {codes.dtype}")
        if self.bits < 8 * self.dtype.itemsize and codes.size and codes.max() >= 2**self.bits:
            raise ValueError(
                f"{name} of format {self.name} must be from 0 to {2**self.bits - 1}, "
                f"not {codes.max()}"
            )
        return codes

    def every_code(self: Any) -> NDArray[np.int64]:
        """All codes in order; ValueError where their tables would not fit memory."""
        if self.bits > LONGEST_IN_TABLES:
            raise ValueError(
                f"bits of {self.name} must be at most {LONGEST_IN_TABLES} for tables of every "
                f"code, not {self.bits}"
            )
        return np.arange(2**self.bits, dtype=np.int64)

    def exact(self: Any, stored: Array) -> Array:
        """Exact values of valid codes, in their shape, float64."""
        return look_up(self.values, stored)

    def decode(self: Any, codes: ArrayLike) -> NDArray[np.float32]:
        """Exact float32 values of `codes`, in their shape."""
        return self.values.astype(np.float32)[self.check(codes)]

    def triple(self: Any, codes: ArrayLike) -> Triple:
        """Exact (sign, significand, exponent) of `codes`; ValueError unless all are finite."""
        codes = self.check(codes)
        if not np.isfinite(self.values[codes]).all():
            raise ValueError(f"codes of format {self.name} must be finite to have a triple")
        return Triple(*(table[codes] for table in self.triples))


def checked_words(random: Array | None, rounding: str, x: Array) -> Array | None:
    """`random` for ``stochastic`` rounding of `x`, else None; ValueError unless uint32 words."""
    if rounding != "stochastic":
        return None
    words: Array = random if is_tensor(random) else np.asarray(random)
    if words.dtype != namespace(x).uint32 or words.shape != x.shape:
        name = str(words.dtype).removeprefix("torch.")
        text = f"{name} {tuple(words.shape)}" if name != "object" else repr(words.item())
        raise ValueError(f"random must be uint32 words of shape {tuple(x.shape)}, not {text}")
    return words


def round_to_integers(x: Array, rounding: str, words: Array | None) -> Array:
    """Round non-negative floats `x` to integers, as floats of the same type.

    words: for ``stochastic`` rounding, an integer r from 0 to 2^32 - 1 per value, which rounds up
    if floor(fraction x 2^32) + r >= 2^32.
    """
    xp = namespace(x)
    if rounding == "nearest_even":
        return xp.round(x)
    below = xp.floor(x)
    if rounding == "toward_zero":
        return below
    fraction = cast((x - below) * 2.0**32, "int64")
    return below + (fraction + cast(words, "int64") >= 2**32)
