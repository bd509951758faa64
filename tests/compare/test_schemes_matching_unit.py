"""The unit of a scheme computes the scheme's sums, bit for bit; pairings and their bits."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from compare import generator
from mxdot.compare.schemes.matching_unit import NoUnitError, quantizer_of, unit_of
from mxdot.model import MXArray, schemes
from mxdot.model.formats import FloatFormat
from mxdot.model.integers import integer_dot
from mxdot.model.schemes import SCHEMES, Level, PowerFormat, UnsignedFormat, block
from mxdot.model.schemes.operand import is_region
from mxdot.model.schemes.pairing import BFLOAT16_BITS, pairing

NONE = {
    "int4_affine_g128/bfloat16": "no unit takes a zero point beside floats",
    "nvfp4/mxfp4": "no unit takes E4M3 scales of one operand beside E8M0's of the other",
    "vsquant4_u4/nvfp4": "no unit takes integer scales beside E4M3",
    "nvfp4/bfloat16": (
        "no unit: scales must be e8m0 with aligned:13 and bf16xe2m1, whose sums may leave float32, "
        "not e4m3"
    ),
    "mxint8/int8_affine": "no unit takes a zero point beside E8M0",
    "fp8_e4m3_row/int8_affine": "no unit takes a zero point beside floats",
    "vsquant4_u4/mxfp8_e4m3": "no unit takes integer scales beside E8M0",
}
PAIRS = (
    "int8_channel/int8_affine",
    "int4_g128/int8_affine",
    "int4_affine_g128/uint8_affine",
    "vsquant4_u4/int8_channel",
    "vsquant4_u4/vsquant8_u6",
    "mxfp4/mxfp8_e4m3",
    "mx9/mxint8",
    "nvfp4/fp8_e4m3_row",
)
CODE_BOOKS = ("mixed8", "mixed6", "mixed4")  # tests/hw/test_code_books.py
ROWS = 128


def arrays(pair, seed):
    """Quantised activations and weights of one region, whose scales are made one."""
    rng = generator("units", pair.name, seed)
    outer = [side.levels[0] for side in (pair.activations, pair.weights)]
    regions = [lev.granularity.columns for lev in outer if isinstance(lev.format, FloatFormat)]
    length = min([128, *(columns or 128 for columns in regions)])
    made = []
    for scheme in (pair.activations, pair.weights):
        x = rng.standard_normal((ROWS, length)) * 2.0 ** rng.integers(-3, 4, (ROWS, length))
        q = schemes.quantize(x.astype(np.float32), scheme)
        if isinstance(scheme.levels[0].format, FloatFormat):
            q = replace(q, scales=(np.ones_like(q.scales[0]), *q.scales[1:]))
        made.append(q)
    return made


def element_values(q):
    return q.scheme.elements[0].values[q.codes]


def codes_of(q, fmt):
    """Codes of the same values for lanes of `fmt`; integers unchanged."""
    values = element_values(q)
    if fmt.is_integer and isinstance(q.scheme.levels[0].format, FloatFormat):
        if values.max() > 2 ** (fmt.bits - 1) - 1:  # unsigned
            values = values - 2 ** (fmt.bits - 1)
        return values.astype(np.int64).astype(np.uint8) & (2**fmt.bits - 1)
    table = np.nan_to_num(fmt.values, nan=np.inf)
    order = np.argsort(table, kind="stable")
    found = order[np.searchsorted(table[order], values)]
    assert (fmt.values[found] == values).all()
    return found.astype(np.uint8)


def block_scales(q, lanes, kind, neutral):
    """(rows, blocks) of the scales that a unit takes; neutral where the scheme has none."""
    for index, (level, stored) in enumerate(zip(q.scheme.levels, q.scales, strict=True)):
        if is_region(level, index):
            continue
        if isinstance(level.format, kind) and level.granularity.columns != 2:
            across = np.repeat(stored, level.granularity.columns // lanes, axis=1)
            return np.repeat(across, level.granularity.rows, axis=0)
    return np.full((ROWS, q.shape[1] // lanes), neutral, np.uint8)


def by_unit(config, a, b):
    """Results of the unit for rows of a by the same rows of b."""
    sides = list(zip((a, b), config.formats[0], strict=True))
    if not config.has_integers:
        kind, one = (PowerFormat, 127) if config.scales == "e8m0" else (FloatFormat, 56)
        scales = [block_scales(q, config.lanes, kind, one) for q, _ in sides]
        x, y = (
            MXArray(codes_of(q, fmt), s, fmt, config.lanes)
            for (q, fmt), s in zip(sides, scales, strict=True)
        )
        none = np.zeros((ROWS, x.shape[1] // 2), np.uint8)
        micro = [q.scales[1] if len(q.scales) > 1 else none for q, _ in sides]
        return config.dot(x, y, micro=tuple(micro) if config.micro else None).result
    inputs = {}
    for name, (q, fmt) in zip("ab", sides, strict=True):
        if name in config.zero_sides:
            top = 2 ** (fmt.bits - 1)
            z = np.broadcast_to(q.zero_points, (ROWS, 1))
            inputs[f"zero_{name}"] = z - (top if q.scheme.elements[0].lowest == 0 else 0)
        if config.scale_bits:
            inputs[f"scale_{name}"] = block_scales(q, config.lanes, UnsignedFormat, 1)
    parts = [codes_of(q, fmt).reshape(ROWS, -1, config.lanes) for q, fmt in sides]
    return integer_dot(config, *parts, inputs=inputs).result


@pytest.mark.parametrize("rule", ["aligned:13", "exact", "hopper"])
@pytest.mark.parametrize("name", [n for n in [*SCHEMES, *PAIRS] if n not in CODE_BOOKS])
def test_the_unit_computes_the_sums_of_the_scheme(name, rule):
    pair = pairing(name)
    config = unit_of(pair, rule)
    a, b = arrays(pair, rule)
    if config.has_integers:
        assert str(config.accumulator) == "int32"
        want = schemes.integer_sums(a, b, overflow="wrap").sums[..., 0]  # none does
    else:
        assert str(config.accumulator) == rule
        want = schemes.matmul(a, b, rule, lanes=config.lanes)
    got = by_unit(config, a, b)
    np.testing.assert_array_equal(got, np.diagonal(want))
    assert len(np.unique(got)) > 20


def test_names_of_units():
    known = {
        "mxfp8_e4m3": "e4m3 aligned:13 x32 stages 4",
        "mx4": "int3 aligned:13 x16 stages 4 micro",
        "mx6": "int5 aligned:13 x16 stages 4 micro",
        "mx9": "int8 aligned:13 x16 stages 4 micro",
        "msfp11": "int3 aligned:13 x16 stages 4",
        "msfp12": "int4 aligned:13 x16 stages 4",
        "msfp13": "int5 aligned:13 x16 stages 4",
        "msfp14": "int8 aligned:13 x16 stages 4",
        "fp8_e4m3_b16": "e4m3 aligned:13 x16 stages 4",
        "int8_channel": "int8 int32 x32 stages 4 int32",
        "int4_g128/int8_affine": "int8xint4 int32 x32 stages 4 int32 zero-points a",
        "vsquant4_u4/vsquant8_u6": "int8xint4 int32 x16 stages 4 int32 scales u6",
        "nvfp4": "e2m1 aligned:13 x16 stages 4 scales e4m3",
        "mixed4": "e2m1,e2m1xint4,int4xe2m1,int4 aligned:13 x32 stages 4",
        "mixed6/mxfp4": "e2m1xe2m3,e2m1xe3m2 aligned:13 x32 stages 4",
        "int4_g128/bfloat16": "bf16xint4 aligned:13 x32 stages 4",
        "mxfp4/bfloat16": "bf16xe2m1 aligned:13 x32 stages 4",
    }
    assert {name: str(unit_of(pairing(name))) for name in known} == known
    assert unit_of(pairing("mxfp8_e4m3"), lanes=8).lanes == 8


@pytest.mark.parametrize(("name", "reason"), NONE.items())
def test_where_there_is_no_unit(name, reason):
    with pytest.raises(NoUnitError, match=f"^{re.escape(reason)}$"):
        unit_of(pairing(name))


def test_schemes_that_no_unit_has():
    wide = replace(
        SCHEMES["vsquant4_u4"],
        levels=(SCHEMES["vsquant4_u4"].levels[0], Level(block(16), UnsignedFormat(10))),
    )
    odd = replace(
        SCHEMES["mxfp4"], levels=(replace(SCHEMES["mxfp4"].levels[0], granularity=block(12)),)
    )
    fours = replace(
        SCHEMES["mx9"],
        levels=(SCHEMES["mx9"].levels[0], replace(SCHEMES["mx9"].levels[1], granularity=block(4))),
    )
    for scheme, message in (
        (wide, "a unit's integer scales have 2 to 8 bits, not u10"),
        (odd, "no unit: lanes must be one of 4, 8, 16, 32, 64, 128, not 12"),
        (fours, "a unit's micro-exponents are for 2 elements, not e1m0 per block 4, floor"),
    ):
        pair = replace(pairing("mxfp4"), weights=scheme, activations=scheme)
        with pytest.raises(NoUnitError, match=f"^{re.escape(message)}$"):
            unit_of(pair)


# Quantisers --------------------------------------------------------------------------------------

CHOICE = (
    "no quantiser chooses by errors summed in float64, which takes a tree of float64 adders for "
    "each format; {0}:e8 has one, by errors of 8 digits"
)


ZERO_POINTS = (
    "no quantiser makes zero points: it compares magnitudes, and they take the least and the "
    "greatest value"
)


BOOKS = [name for name, scheme in SCHEMES.items() if len(scheme.elements) > 1]


@pytest.mark.parametrize("name", [*SCHEMES, *(f"{name}:e8" for name in BOOKS)])
def test_every_scheme_has_a_quantizer_or_a_reason(name):
    """A scheme's unit makes the codes, scales and selectors of the scheme."""
    scheme = schemes.scheme(name)
    try:
        unit = quantizer_of(scheme)
    except NoUnitError as error:
        innermost = scheme.levels[-1]
        whole, blocks = (
            "is known when all of it has come",
            "its dividers round scales to E4M3 alone",
        )
        known = {
            CHOICE.format(name): name in BOOKS,
            ZERO_POINTS: scheme.zero_point,
            f"no quantiser makes {innermost.format} scales: {blocks}": "block" in str(innermost),
            f"no quantiser makes {innermost.format} scales: the largest magnitude of a "
            f"{innermost.granularity} {whole}": "block" not in str(innermost),
            "a quantiser's blocks are of one row, not tile 16 x 16": "tile" in str(innermost),
        }
        unit = None if known.get(str(error)) else str(error)
    if unit is None:
        return
    assert not isinstance(unit, str), unit
    rng = generator("quantisers", name)
    x = (rng.standard_normal((4, 128)) * 2.0 ** rng.integers(-9, 9, (4, 1))).astype(np.float32)
    want = schemes.quantize(x, scheme)
    outer = want.scales[0].ravel()[0] if unit.divides else None
    got = unit.quantize(x, outer=outer)
    assert (got.codes == want.codes).all()
    for mine, its in zip(got.level_scales, want.scales, strict=True):
        assert (mine == its).all()
    assert np.asarray(got.selectors).tolist() == np.asarray(want.selectors).tolist()


def test_quantizers_of_activations():
    known = {
        "mxfp8_e4m3:ceil:b16": "quantize float32 to e4m3 x16 ceil nearest_even poison stages 4",
        "nvfp4": "quantize float32 to e2m1 x16 amax nearest_even poison stages 4 scales e4m3",
        "mx6": "quantize float32 to sm5 x16 floor nearest_even poison stages 4 micro",
        "msfp12": "quantize float32 to sm4 x16 floor nearest_even poison stages 4",
        "mixed6:b8:e5": (
            "quantize float32 to e2m3,e3m2 x8 floor nearest_even poison stages 4 select 5"
        ),
    }
    assert {name: str(quantizer_of(schemes.scheme(name))) for name in known} == known
    for scheme, message in (
        (None, "activations in bfloat16 are not quantised"),
        (SCHEMES["mixed4"], CHOICE.format("mixed4")),
        (SCHEMES["int8_affine"], ZERO_POINTS),
        (SCHEMES["fp8_e4m3_b128"], "no quantiser makes float32 scales: its dividers round scales"),
        (SCHEMES["vsquant4_u4"], "no quantiser makes u4 scales"),
        (schemes.scheme("mxfp4:b24"), "no quantiser: block must be one of 4, 8, 16, 32, 64, 128"),
    ):
        with pytest.raises(NoUnitError, match=f"^{re.escape(message)}"):
            quantizer_of(scheme)


# Pairings ---------------------------------------------------------------------------------------


def test_names():
    assert pairing("mxfp4").name == pairing("mxfp4/mxfp4").name == "mxfp4"
    for name in (*PAIRS, "int4_g128/bfloat16"):
        assert pairing(name).name == name
    assert pairing("INT4_g128 / BFloat16").activations is None
    for text in ("fp9", "mxfp4/fp9", "bfloat16/mxfp4", "mxfp4/", "/mxfp4"):
        with pytest.raises(ValueError, match=r"^scheme must be one of mxfp8_e4m3, .*, not '"):
            pairing(text)


def test_values_and_bits():
    rng = generator("pairing")
    x, w = (rng.standard_normal((n, 128)).astype(np.float32) for n in (3, 5))
    pair = pairing("int4_g128/int8_affine")
    np.testing.assert_array_equal(
        pair.activation_values(x), schemes.quantize(x, "int8_affine").dequantize()
    )
    dequantised = schemes.quantize(w, "int4_g128").dequantize()
    np.testing.assert_array_equal(pair.weight_values(w), dequantised)
    assert pair.bits((5, 128), (3, 128)) == (4.125, 8 + 40 / 384)
    only = pairing("int4_g128/bfloat16")
    np.testing.assert_array_equal(
        only.activation_values(x), x.astype(ml_dtypes.bfloat16).astype(np.float32)
    )
    np.testing.assert_array_equal(
        only.weight_values(w), dequantised.astype(ml_dtypes.bfloat16).astype(np.float32)
    )
    assert only.bits((5, 128), (3, 128)) == (4.125, BFLOAT16_BITS)
