"""Block-scaling schemes for tests: names, shorter groups, random arrays, accumulators."""

from dataclasses import replace
from math import lcm

import numpy as np

from mxdot.model import PRESETS
from mxdot.model.schemes import Granularity, IntegerFormat, PowerFormat, ScaledArray, UnsignedFormat
from mxdot.model.schemes.scales import encode

MX = {
    "mxfp8_e4m3": "e4m3",
    "mxfp8_e5m2": "e5m2",
    "mxfp6_e3m2": "e3m2",
    "mxfp6_e2m3": "e2m3",
    "mxfp4": "e2m1",
    "mxint8": "int8",
}
RULES = [
    "exact",
    "aligned:13",
    "aligned:3",
    "aligned:40",
    "fused:13",
    "fused:25",
    "fused:2",
    "fused:64",
    "fixed:40:-20",
    "fixed:20:-8:wrap",
    "fixed:90:-60",
    "float32",
    *PRESETS,
]
PAIRS = [
    ("int4_g32", "int8_channel"),
    ("mxfp8_e4m3", "fp8_e4m3_row"),
    ("nvfp4", "mxfp4"),
    ("mx9", "int8_channel"),
    ("vsquant4_u4", "int8_affine"),
    ("fp8_e4m3_b128", "fp8_e5m2_128x128"),
    ("int4_affine_g128", "uint8_affine"),
    ("mixed8", "mx6"),
    ("msfp12", "nvfp4"),
]


def shrunk(scheme):
    """The scheme with groups of 32 and more a sixteenth as long, squares of 16 a quarter: the
    oracle is slow.
    """

    def size(n):
        return n if n is None or n < 32 else n // 16

    def smaller(group):
        if (group.rows, group.columns) == (16, 16):
            return Granularity(4, 4)
        return Granularity(size(group.rows), size(group.columns))

    levels = (replace(level, granularity=smaller(level.granularity)) for level in scheme.levels)
    return replace(scheme, levels=tuple(levels))


def has_tiles(scheme):
    """Whether some rows of a matrix share scales, but not all."""
    return any((level.granularity.rows or 1) > 1 for level in scheme.levels)


def size(*schemes):
    """Rows, five or more, and columns of two groups and more of every level."""
    levels = [lev.granularity for scheme in schemes for lev in scheme.levels]
    tile = lcm(*(g.rows or 1 for g in levels))
    return tile * -(-5 // tile), max(16, *(2 * (g.columns or 0) for g in levels))


def random_scales(rng, fmt, shape, kind):
    """Stored scales: about 1, at the ends, anything, or with NaN."""
    if isinstance(fmt, UnsignedFormat):
        top = 2**fmt.bits - 1
        scales = rng.integers(1, top + 1, shape)
        ends = rng.choice([1, top], shape)
        return np.where(kind == "ends", ends, scales).astype(
            np.uint16 if fmt.bits > 8 else np.uint8
        )
    if isinstance(fmt, PowerFormat):
        middle = rng.integers(max(fmt.emin, -4), min(fmt.emax, 4) + 1, shape)
        far = rng.choice([fmt.emin, fmt.emin + 1, fmt.emax - 1, fmt.emax], shape)
        anywhere = rng.integers(fmt.emin, fmt.emax + 1, shape)
        stored = fmt.encode({"ends": far, "any": anywhere}.get(kind, middle))
    else:
        values = rng.uniform(0.5, 2, shape)
        if kind == "ends":
            values = rng.choice(
                [0.0, 3 * fmt.smallest, fmt.largest_finite, fmt.largest_finite / 3], shape
            )
        elif kind == "any":
            low, high = np.log2(fmt.smallest), np.log2(fmt.largest_finite)
            values = values * np.exp2(rng.uniform(low, high, shape) / 2)
        stored = encode(values, fmt)
    if kind == "nan" and fmt.nan is not None:
        stored = np.where(rng.random(shape) < 0.2, fmt.nan, stored).astype(stored.dtype)
    return stored


def random_array(rng, scheme, rows, columns, kind):
    """Any codes of the scheme's elements (finite ones unless `kind` is nan), any scales."""
    groups = [lev.granularity.group((rows, columns)) for lev in scheme.levels]
    shapes = [(rows // height, columns // width) for height, width in groups]
    scales = [
        random_scales(rng, lev.format, shape, kind)
        for lev, shape in zip(scheme.levels, shapes, strict=True)
    ]
    selectors = zero_points = None
    chosen = np.zeros((rows, columns), np.int64)
    if scheme.selector_bits:
        selectors = rng.integers(0, len(scheme.elements), shapes[-1]).astype(np.uint8)
        height, width = groups[-1]
        chosen = np.repeat(np.repeat(selectors, height, 0), width, 1)
    codes = np.zeros((rows, columns), scheme.code_dtype)
    for i, element in enumerate(scheme.elements):
        values = element.values
        allowed = np.isfinite(values) | (kind == "nan")
        if isinstance(element, IntegerFormat):
            top = element.highest * 2.0**-element.fraction_bits
            bottom = element.lowest * 2.0**-element.fraction_bits
            allowed = (values >= bottom) & (values <= top)
            if kind == "ends":
                allowed = np.isin(values, [bottom, top])
        codes = np.where(chosen == i, rng.choice(np.flatnonzero(allowed), codes.shape), codes)
    if scheme.zero_point:
        element = scheme.elements[0]
        ends = rng.choice([element.lowest, element.highest], shapes[-1])
        inside = rng.integers(element.lowest, element.highest + 1, shapes[-1])
        zero_points = np.where(kind == "ends", ends, inside).astype(np.int32)
    codes = codes.astype(scheme.code_dtype)
    return ScaledArray(scheme, codes, tuple(scales), zero_points, selectors, -1)


def random_c(rng, shape, kind):
    c = rng.standard_normal(shape).astype(np.float32) * np.float32(2) ** rng.integers(
        -20, 20, shape
    )
    c[rng.random(shape) < 0.3] = 0
    if kind in ("nan", "any"):
        c = np.where(rng.random(shape) < 0.2, rng.choice([np.inf, -np.inf, np.nan], shape), c)
    return c.astype(np.float32)


OPTIONAL = ("zero_points", "selectors")


def assert_same(got, want):
    """Every part of two arrays of the model is equal in dtype, shape and bits."""
    assert isinstance(got, ScaledArray)
    assert (got.scheme, got.axis) == (want.scheme, want.axis)
    parts = [("codes", got.codes, want.codes)]
    parts += [(f"scales[{i}]", got.scales[i], part) for i, part in enumerate(want.scales)]
    parts += [(part, getattr(got, part), getattr(want, part)) for part in OPTIONAL]
    for name, mine, its in parts:
        if its is None:
            assert mine is None, name
            continue
        assert (mine.dtype, mine.shape) == (its.dtype, its.shape), name
        unsigned = np.dtype(f"u{its.dtype.itemsize}")
        np.testing.assert_array_equal(mine.view(unsigned), its.view(unsigned), name)
    assert len(got.scales) == len(want.scales)
