"""Tests of schemes that the model and PyTorch share.

tests/model runs them against the rational oracle, tests/gpu against the model; each gives the
fixture `backend`.
"""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compare import generator
from mxdot.model.formats import E2M1, ROUNDINGS
from mxdot.model.quantize import NONFINITE
from mxdot.model.schemes import (
    BFLOAT16,
    E4M3,
    FLOAT16,
    FLOAT32,
    INT8_FULL,
    SCHEMES,
    TENSOR,
    Granularity,
    IntegerFormat,
    Level,
    Limits,
    ScaledArray,
    Scheme,
    UnsignedFormat,
    block,
    tile,
)
from quantize_cases import FLOAT32_MAX, random_blocks, with_nonfinite
from scheme_cases import MX, PAIRS, RULES, random_array, random_c, shrunk, size

KINDS = ("one", "ends", "any", "nan")
every_scheme = pytest.mark.parametrize("name", SCHEMES)

# Quantisation -----------------------------------------------------------------------------------


@every_scheme
@pytest.mark.contract(
    "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "S12", "S15", "S18", "S22", "S23", "S29"
)
def test_random_matrices(name, backend):
    rng = generator("schemes", name)
    for scheme, (rows, columns) in backend.sizes(SCHEMES[name]):
        for finite in (True, True, False):
            matrix = random_blocks(rng, rows, columns)
            backend.check(matrix if finite else with_nonfinite(rng, matrix), scheme)
        normal = rng.standard_normal((rows, 2 * columns)).astype(np.float32)
        backend.check(normal, scheme)
        backend.check(normal**5, scheme)  # heavy tails: a code book's choices differ
        part = normal[:, :columns]
        backend.check(np.zeros_like(part), scheme)
        backend.check(np.full_like(part, -0.0), scheme)
        backend.check(np.copysign(np.float32(FLOAT32_MAX), part), scheme)
        tiny = rng.integers(-3, 4, (rows, columns)).astype(np.float32)
        backend.check(np.float32(2.0**-149) * tiny, scheme)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@every_scheme
@pytest.mark.contract("S19", "S20", "S21", "S26", "S27", "S28")
def test_roundings_and_policies(name, rounding, backend):
    rng = generator("schemes", name, rounding)
    for nonfinite in NONFINITE:
        matrix = with_nonfinite(rng, random_blocks(rng, 8, 16))
        words = rng.integers(0, 2**32, matrix.shape, dtype=np.uint32)
        options = {"rounding": rounding, "nonfinite": nonfinite}
        backend.check(matrix, shrunk(SCHEMES[name]), words, **options)


@every_scheme
@pytest.mark.contract("S13", "S19", "S20", "S21")
def test_ties(name, backend):
    """Multiples of half a step under a scale that is a power of two, where codes are ties."""
    scheme = shrunk(SCHEMES[name])
    element = scheme.elements[0]
    rng = generator("ties", name)
    largest = 255 if scheme.zero_point else element.largest_finite
    step = 1.0 if scheme.zero_point else element.largest_finite / 2**8
    matrix = np.round(rng.uniform(-largest, largest, (backend.rows, 16)) / step * 2) / 2 * step
    matrix[:, 0::8] = largest
    backend.check(np.clip(matrix, -largest, largest).astype(np.float32), scheme)


@settings(max_examples=200)
@given(
    patterns=st.lists(st.integers(0, 2**32 - 1), min_size=32, max_size=32),
    name=st.sampled_from(sorted(SCHEMES)),
)
@pytest.mark.contract("S14", "S29")
def test_any_float32(backend, patterns, name):
    matrix = np.array(patterns, np.uint32).view(np.float32).reshape(2, 16)
    scheme = SCHEMES[name]
    columns = [lev.granularity.columns for lev in scheme.levels]
    levels = tuple(
        replace(lev, granularity=Granularity(1, n and min(n, 16)))
        for lev, n in zip(scheme.levels, columns, strict=True)
    )
    backend.check(matrix, replace(scheme, levels=levels))


@pytest.mark.parametrize("rule", ["floor", "ceil", "even"])
@pytest.mark.parametrize("name", [*MX, "msfp12", "mx9", "mixed4", "mixed8"])
@pytest.mark.contract("S16")
def test_rules_of_powers_of_two(name, rule, backend):
    scheme = shrunk(SCHEMES[name])
    scheme = replace(scheme, levels=tuple(replace(lev, rule=rule) for lev in scheme.levels))
    rng = generator("rules", name, rule)
    backend.check(random_blocks(rng, backend.rows, 16), scheme)
    backend.check(rng.standard_normal((backend.rows, 16)).astype(np.float32), scheme)


NVFP4 = SCHEMES["nvfp4"]
OTHER_SCALES = {
    "bfloat16": replace(SCHEMES["int4_g32"], levels=(Level(block(4), BFLOAT16),)),
    "bfloat16 with zero points": replace(
        SCHEMES["int8_affine"], levels=(Level(block(4), BFLOAT16),)
    ),
    "u16": replace(NVFP4, levels=(NVFP4.levels[0], Level(block(4), UnsignedFormat(16)))),
    "three levels": replace(NVFP4, levels=(*NVFP4.levels, Level(block(2), UnsignedFormat(2)))),
    "tiles of a code book": Scheme(
        "book", SCHEMES["mixed6"].elements, (Level(tile(2, 5), FLOAT32),), "a test"
    ),
}


@pytest.mark.parametrize("scheme", OTHER_SCALES.values(), ids=OTHER_SCALES)
@pytest.mark.contract("S8", "S9", "S10", "S11", "S12", "S15")
def test_other_scales(scheme, backend):
    """Scales that no scheme of the table has."""
    rng = generator("other scales", scheme.name)
    columns = 5 if scheme.name == "book" else 32
    backend.check(random_blocks(rng, 16, 2 * columns), scheme)
    backend.check(with_nonfinite(rng, random_blocks(rng, 16, columns)), scheme)
    backend.check(rng.standard_normal((16, columns)).astype(np.float32), scheme)


# Refusals ---------------------------------------------------------------------------------------

ONES = np.ones((4, 32), np.float32)
TILES = Scheme("t", (E2M1,), (Level(tile(2, 8), FLOAT32),), "a test")
TOO_FEW_ROWS = "row count must be a multiple of 128 for tile 128 x 128, not"
WRONG_TYPES = [
    (
        "x must be float32, float16, bfloat16 or float64, not int64",
        ONES.astype(np.int64),
        "mxfp4",
        {},
    ),
    (
        "x must be float32, float16, bfloat16 or float64, not int32",
        ONES.astype(np.int32),
        "mx9",
        {},
    ),
    ("scheme must be a Scheme or its name, not 4", ONES, 4, {}),
    ("scheme must be a Scheme or its name, not 8", ONES, 8, {}),
    ("limits must be Limits or None, not float", ONES, "int8_tensor", {"limits": 1.0}),
]
# The 128 rows of the third shape are of two matrices.
WRONG_VALUES = [
    ("row length must be a multiple of 32 for block 32, not 48", np.ones((4, 48)), "mxfp4", {}),
    ("row length must be a multiple of 32 for block 32, not 4", ONES, "mxfp4", {"axis": 0}),
    (f"{TOO_FEW_ROWS} 64", np.ones((2, 64, 128)), "fp8_e4m3_128x128", {}),
    (f"{TOO_FEW_ROWS} 1", np.ones(128), "fp8_e4m3_128x128", {"axis": 0}),
    ("row length must be a multiple of 16 for block 16, not 20", ONES[:, :20], "mx9", {}),
    ("row count must be a multiple of 2 for tile 2 x 8, not 3", np.ones((4, 3, 8)), TILES, {}),
    (r"x must hold at least one value, not have shape \(0, 32\)", ONES[:0], "mxfp4", {}),
    ("axis must be from -2 to 1, not 2", ONES, "mxfp4", {"axis": 2}),
    ("x of dtype float64 must hold float32 .*, not 0.1: .*", 0.1 * np.ones((4, 32)), "mxfp4", {}),
    ("scheme must be one of mxfp8_e4m3, .*, not 'fp9'", ONES, "fp9", {}),
    ("scheme must be one of mxfp8_e4m3, .*, not 'mx7'.*", ONES, "mx7", {}),
    (".* mixed4, not 'mxfp8'; nearest: mxfp4, .*mxfp8_e4m3.*", ONES, "mxfp8", {}),
    (
        "rounding must be one of nearest_even, toward_zero, stochastic, not 'up'",
        ONES, "mx9", {"rounding": "up"},
    ),
    ("nonfinite must be one of poison, element, not 'drop'", ONES, "mx9", {"nonfinite": "drop"}),
    (
        r"limits must have shape \(1, 1\), not \(4, 1\)",
        ONES, "int8_tensor", {"limits": Limits(np.zeros((4, 1)), np.ones((4, 1)))},
    ),
]  # fmt: skip
REFUSED = [
    *((TypeError, *row) for row in WRONG_TYPES),
    *((ValueError, *row) for row in WRONG_VALUES),
]


@pytest.mark.parametrize(("error", "message", "x", "scheme", "options"), REFUSED)
@pytest.mark.contract("S3")
def test_refused_quantisation(error, message, x, scheme, options, backend):
    with pytest.raises(error, match=f"^{message}$"):
        backend.quantize(x, scheme, **options)


# Products ---------------------------------------------------------------------------------------

EVERY = [*((name, name) for name in SCHEMES), *PAIRS]


@pytest.mark.parametrize("names", EVERY, ids="x".join)
@pytest.mark.contract(
    "T1", "T2", "T5", "T6", "T11", "T12", "T13", "T14", "T16", "T17", "T18", "T19"
)
def test_every_scheme_and_accumulator(names, backend):
    """The model takes every other accumulator for a scheme, the others for the next."""
    rng, number = generator("products", names), EVERY.index(names)
    schemes = [shrunk(SCHEMES[name]) for name in names]
    rows, columns = size(*schemes)
    integer = all(isinstance(e, IntegerFormat) or e.is_integer for s in schemes for e in s.elements)
    texts = [*RULES, *RULES[:3], "fused:25"]
    texts = texts if backend.every_text else texts[number % 2 :: 2]
    for i, text in enumerate([*texts, *(["int32"] * 4 if integer else [])]):
        kind = KINDS[(i + number // 2) % 4]
        a, b = (random_array(rng, scheme, rows, columns, kind) for scheme in schemes)
        c = random_c(rng, (rows, rows), kind)
        backend.check_product(a, b, text, c, int(rng.choice([4, 6, 128])))


def wide_schemes():
    """Two inner levels, and significands of blocks that need the exact product of two float64."""
    outer, e8m0 = Level(TENSOR, FLOAT32), SCHEMES["mxfp4"].levels[0]
    three = (Level(block(8), E4M3), Level(block(4), UnsignedFormat(2)))
    twice = tuple(replace(e8m0, granularity=block(n)) for n in (8, 4))
    for name, elements, levels in (
        ("three", NVFP4.elements, (outer, *three)),
        ("u15", (INT8_FULL,), (outer, Level(block(8), UnsignedFormat(15)))),
        ("u16", (INT8_FULL,), (outer, Level(block(8), UnsignedFormat(16)))),
        ("half", (INT8_FULL,), (outer, Level(block(4), FLOAT16))),
        ("e5m2", SCHEMES["mxfp8_e5m2"].elements, (outer, Level(block(8), UnsignedFormat(16)))),
        ("e8m0 twice", (INT8_FULL,), twice),
    ):
        yield Scheme(name, elements, levels, "a test")


WIDE_RULES = ("exact", "aligned:13", "fused:25", "float32", "fixed:60:-30", "fixed:200:-99")


@pytest.mark.contract("T8", "T9", "T10")
def test_three_levels_and_wide_scales(backend):
    rng, wide = generator("levels"), list(wide_schemes())
    for left in wide:
        for right in wide:
            for text in WIDE_RULES:
                a, b = (random_array(rng, s, 3, 16, "one") for s in (left, right))
                backend.check_product(a, b, text, random_c(rng, (3, 3), "one"))


@pytest.mark.parametrize("text", ["exact", "float32", "aligned:40", "fixed:64:0"])
@pytest.mark.contract("T15")
def test_a_block_and_its_scale_may_need_more_than_53_bits(text, backend):
    """(2^23 + 1)(2^15 + 1)^2 is odd and has 54 bits; the block before takes the leading ones."""
    levels = (Level(TENSOR, FLOAT32), Level(block(1024), UnsignedFormat(16)))
    scheme = Scheme("wide", (INT8_FULL,), levels, "a test")
    a, b = np.zeros((2, 1, 2048), np.int8)
    a[0, :518] = [-128] * 516 + [-127, -1]  # -(2^23 + 2^9 + 1), times 2^30
    b[0, :518] = [127] * 516 + [8, 9]
    a[0, 1024:1536] = b[0, 1024:1536] = -128
    a[0, 1536] = b[0, 1536] = 1
    scales = np.array([[2**15, 2**15 + 1]], np.uint16)
    one = np.ones((1, 1), np.float32)
    x, y = (ScaledArray(scheme, v.view(np.uint8), (one, scales), None, None, -1) for v in (a, b))
    assert backend.product(x, y, text, lanes=1024).item() == 2**23 + 2**16 + 1


@settings(max_examples=60)
@given(
    names=st.tuples(*[st.sampled_from(sorted(SCHEMES))] * 2),
    text=st.sampled_from(RULES),
    kind=st.sampled_from(KINDS),
    number=st.integers(0, 2**32 - 1),
    lanes=st.integers(1, 40),
)
@pytest.mark.contract("T7")
def test_any_pair_of_schemes(backend, names, text, kind, number, lanes):
    rng = np.random.default_rng(number)
    schemes = [shrunk(SCHEMES[name]) for name in names]
    rows, columns = size(*schemes)
    a, b = (random_array(rng, scheme, rows, columns, kind) for scheme in schemes)
    backend.check_product(a, b, text, random_c(rng, (rows, rows), kind), lanes)


WEIGHT_ONLY = (
    "exact", "fused:3", "fused:13", "fused:25", "fused:40", "hopper-fp16", "hopper-promoted", "ada",
)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["int4_g32", "int4_affine_g128", "int8_channel", "nvfp4", "mx9"])
@pytest.mark.contract("T27", "T28", "T30")
def test_weight_only(name, dtype, backend):
    rng = generator("weight-only", name, np.dtype(dtype).name)
    rows, outputs, columns = backend.weight_only_shape
    for kind in KINDS:
        low, high = (-140, 127) if kind == "ends" and dtype != np.float16 else (-24, 12)
        x = rng.standard_normal((rows, columns)) * 2.0 ** rng.integers(low, high, (rows, columns))
        x[0, :3] = [0, -0.0, 2.0**-24]
        x[1, columns // 2 :] = -x[1, : columns // 2]
        x[3] = rng.standard_normal(columns)
        if kind == "nan":
            x[2, rng.integers(0, columns)] = np.inf
            x[rng.random(x.shape) < 0.05] = np.inf
            x[3, 7] = np.nan
        with np.errstate(over="ignore", under="ignore"):
            x = x.astype(dtype)
        weights = random_array(rng, shrunk(SCHEMES[name]), outputs, columns, kind)
        for text in WEIGHT_ONLY:
            for lanes in {12, int(rng.choice([4, 6, 128]))}:
                backend.check_product(x, weights, text, random_c(rng, (rows, outputs), kind), lanes)
