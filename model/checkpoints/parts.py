"""Parts of every layout: scales and codes as libraries store them, and arrays of schemes.

Codes and scales keep their bits. A zero scale, which libraries write for blocks of zeros, becomes
the smallest scale over codes of zero: the values are the same. Scales of bfloat16 become float32.
"""

from collections.abc import Mapping
from math import gcd

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..errors import integer_array
from ..formats import (
    E2M1,
    E4M3,
    E5M2,
    FLOAT16,
    FLOAT32,
    INT4_FULL,
    INT8_FULL,
    ElementFormat,
    FloatFormat,
    IntegerFormat,
    PowerFormat,
    ScaleFormat,
)
from ..schemes import SCHEMES, Level, ScaledArray, Scheme
from ..schemes.grouping import CHANNEL, TENSOR, Granularity, block, tile

Parts = Mapping[str, NDArray]
ELEMENTS = {np.dtype(ml_dtypes.float8_e4m3fn): E4M3, np.dtype(ml_dtypes.float8_e5m2): E5M2}
INTEGERS: dict[int, IntegerFormat] = {4: INT4_FULL, 8: INT8_FULL}
E8M0_DTYPE = np.dtype(ml_dtypes.float8_e8m0fnu)
FLOATS = (np.float16, np.float32, np.dtype(ml_dtypes.bfloat16))


def scaled_array(
    elements: ElementFormat,
    codes: NDArray,
    scales: list[NDArray],
    levels: list[tuple[Granularity, ScaleFormat]],
    source: str,
    zero_points: NDArray | None = None,
) -> ScaledArray:
    """The array of a scheme by these levels, the package's own row where it has one."""
    if zero_points is not None:
        low, high = map(int, elements.extremes)
        checked = integer_array("zero points", zero_points, low, high)
        zero_points = np.ascontiguousarray(checked.astype(np.int32))
    rules = ["floor" if isinstance(fmt, PowerFormat) else "amax" for _, fmt in levels]
    made = tuple(
        Level(groups, fmt, rule) for (groups, fmt), rule in zip(levels, rules, strict=True)
    )
    scheme = _known(elements, made, zero_points is not None) or Scheme(
        f"{elements}_{source}", (elements,), made, source, zero_points is not None
    )
    codes, scales, zero_points = _without_zero_scales(scheme, codes, scales, zero_points)
    return ScaledArray(scheme, codes, tuple(scales), zero_points)


def _known(elements: ElementFormat, levels: tuple[Level, ...], zero_point: bool) -> Scheme | None:
    for row in SCHEMES.values():
        if (row.elements, row.levels, row.zero_point) == ((elements,), levels, zero_point):
            return row
    return None


def _without_zero_scales(
    scheme: Scheme, codes: NDArray, scales: list[NDArray], zero_points: NDArray | None
) -> tuple[NDArray, list[NDArray], NDArray | None]:
    """Codes of zero under the smallest scale where a scale is zero."""
    scales = [*scales]
    for i, level in enumerate(scheme.levels):
        fmt, stored = level.format, scales[i]
        if not isinstance(fmt, FloatFormat):
            continue
        zero = within = fmt.exact(stored) == 0
        if not zero.any():
            continue
        for axis in range(codes.ndim):
            within = within.repeat(codes.shape[axis] // zero.shape[axis], axis=axis)
        smallest = 1 if stored.dtype == np.uint8 else fmt.smallest
        scales[i] = np.where(zero, stored.dtype.type(smallest), stored)
        codes = np.where(within, codes.dtype.type(0), codes)
        if zero_points is not None:
            zero_points = np.where(zero, np.int32(0), zero_points)
    return codes, scales, zero_points


def needed(layout: str, parts: Parts, *names: str) -> list[NDArray]:
    """The named tensors; ValueError naming one that is missing."""
    for name in names:
        if name not in parts:
            raise ValueError(f"tensors of a {layout} weight must have {name!r}, not {[*parts]}")
    return [np.asarray(parts[name]) for name in names]


def float_scale(name: str, scale: NDArray) -> tuple[NDArray, FloatFormat]:
    """A scale as FLOAT16 if it is float16, else as FLOAT32; TypeError unless it is a float."""
    if scale.dtype == np.float16:
        return scale, FLOAT16
    if scale.dtype in FLOATS:
        return scale.astype(np.float32), FLOAT32
    raise TypeError(f"{name} must be float32, float16 or bfloat16, not {scale.dtype}")


def e8m0_codes(name: str, scale: NDArray) -> NDArray[np.uint8]:
    """E8M0 codes; TypeError for numbers, which are no exponents."""
    if scale.dtype == np.uint8 or scale.dtype == E8M0_DTYPE:
        return scale.view(np.uint8)
    raise TypeError(f"{name} must hold E8M0 codes, uint8 or float8_e8m0fnu, not {scale.dtype}")


def _e4m3_scale(name: str, scale: NDArray) -> NDArray[np.uint8]:
    """E4M3 codes of positive scales."""
    if scale.dtype != np.dtype(ml_dtypes.float8_e4m3fn) and scale.dtype != np.uint8:
        raise TypeError(f"{name} must be float8_e4m3fn, not {scale.dtype}")
    return scale.view(np.uint8)


def nibbles(packed: NDArray) -> NDArray[np.uint8]:
    """Two codes per byte of the last axis, the first one in the low half."""
    if packed.dtype != np.uint8:
        raise TypeError(f"packed codes must have dtype uint8, not {packed.dtype}")
    low, high = packed & np.uint8(15), packed >> np.uint8(4)
    return np.stack([low, high], axis=-1, dtype=np.uint8).reshape(*packed.shape[:-1], -1)


def words_of(packed: NDArray, bits: int, axis: int) -> NDArray[np.uint8]:
    """Unsigned numbers of 4 or 8 bits in 32-bit words along `axis`, the first in the low bits."""
    if packed.dtype not in (np.int32, np.uint32):
        raise TypeError(f"packed codes must have dtype int32, not {packed.dtype}")
    if packed.ndim != 2:
        raise ValueError(f"packed codes must have 2 axes, not shape {packed.shape}")
    words = np.ascontiguousarray(np.moveaxis(packed, axis, -1))
    return np.moveaxis(_of_bytes(words.view(np.uint8), bits), -1, axis)


def dense_words(packed: NDArray, bits: int, columns: int) -> NDArray[np.uint8]:
    """`columns` unsigned numbers of `bits`, 4 or 8, per row, without gaps."""
    rows = np.ascontiguousarray(packed).view(np.uint8).reshape(packed.shape[0], -1)
    return _of_bytes(rows, bits)[:, :columns]


def word_count(numbers: int, bits: int) -> int:
    """32-bit words of numbers without gaps."""
    return -(-numbers * bits // 32)


def _of_bytes(stored: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    return nibbles(stored) if bits == 4 else stored


def integer_codes(numbers: NDArray[np.uint8], fmt: IntegerFormat) -> NDArray[np.uint8]:
    """Two's complement codes of unsigned numbers that count from the lowest one."""
    largest = 2**fmt.bits - 1
    return (numbers + np.uint8(fmt.lowest & largest)) & np.uint8(largest)


def zero_points_of(numbers: NDArray[np.uint8], fmt: IntegerFormat) -> NDArray[np.int32]:
    """Zero points of unsigned numbers that count from the lowest one."""
    return numbers.astype(np.int32) + fmt.lowest


def groups_of(scales: NDArray, codes: NDArray) -> Granularity:
    """Granularity of scales of rows in blocks; of channels for one block per row."""
    count = scales.shape[-1]
    if scales.ndim != codes.ndim or codes.shape[-1] % max(count, 1):
        raise ValueError(
            f"scales of codes {codes.shape} must have whole groups per row, not shape "
            f"{scales.shape}"
        )
    return CHANNEL if count == 1 else block(codes.shape[-1] // count)


def tiles_of(
    codes: NDArray, scales: NDArray, rows: int, columns: int
) -> tuple[NDArray, Granularity]:
    """Scales of tiles, in smaller tiles where these do not divide the matrix.

    The last tiles of an odd shape are cut: tiles of the common divisors repeat the scales exactly.
    """
    height, width = codes.shape
    want = -(-height // rows), -(-width // columns)
    if scales.shape != want:
        raise ValueError(
            f"scales of codes {codes.shape} must have shape {want}, not {scales.shape}"
        )
    small = gcd(height, rows), gcd(width, columns)
    at_row = np.arange(0, height, small[0]) // rows
    at_column = np.arange(0, width, small[1]) // columns
    return scales[at_row[:, None], at_column[None, :]], tile(*small)


def int4_array(codes: NDArray, scale: NDArray, source: str) -> ScaledArray:
    """Codes of signed integers under float scales of groups of a row."""
    stored, fmt = float_scale("weight_scale", scale)
    levels: list[tuple[Granularity, ScaleFormat]] = [(groups_of(stored, codes), fmt)]
    return scaled_array(INT4_FULL, codes, [stored], levels, source)


def nvfp4_array(packed: NDArray, scale: NDArray, tensor: NDArray, source: str) -> ScaledArray:
    """FP4 codes under E4M3 scales of groups of a row, and a scale of the tensor."""
    codes, stored = nibbles(packed), _e4m3_scale("weight_scale", scale)
    outer = tensor.reshape((1,) * codes.ndim)
    levels: list[tuple[Granularity, ScaleFormat]]
    levels = [(TENSOR, FLOAT32), (groups_of(stored, codes), E4M3)]
    return scaled_array(E2M1, codes, [outer, stored], levels, source)


def transposed_array(
    numbers: NDArray, zeros: NDArray, scales: NDArray, fmt: IntegerFormat, source: str
) -> ScaledArray:
    """A weight (outputs, inputs) of numbers (inputs, outputs); zeros, scales (groups, outputs)."""
    codes = np.ascontiguousarray(integer_codes(numbers, fmt).T)
    stored, scale_format = float_scale("scales", np.ascontiguousarray(scales.T))
    levels: list[tuple[Granularity, ScaleFormat]] = [(groups_of(stored, codes), scale_format)]
    return scaled_array(fmt, codes, [stored], levels, source, zeros.T)


def check_zeros(name: str, zeros: NDArray, scales: NDArray) -> None:
    """ValueError unless there is one zero point for each scale."""
    if zeros.shape != scales.shape:
        raise ValueError(
            f"{name} must hold one zero point for each of scales {scales.shape}, not {zeros.shape}"
        )


def integer_format(bits: int) -> IntegerFormat:
    """Two's complement integers of `bits`; ValueError unless layouts have them."""
    if bits in INTEGERS:
        return INTEGERS[bits]
    raise ValueError(f"bits must be one of {', '.join(map(str, INTEGERS))}, not {bits}")
