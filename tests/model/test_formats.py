"""The format table of the contract, and every code against ml_dtypes, gfloat and the oracle."""

from dataclasses import replace
from fractions import Fraction

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest

from format_codes import ML_DTYPES, all_codes
from mxdot.model import E8M0, FORMATS, element_format
from mxdot.model.formats import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT4_SYMMETRIC,
    INT8_FULL,
    INT32,
    FloatFormat,
    Specials,
    UnsignedFormat,
    scale_format,
    sign_magnitude,
)
from mxdot.model.schemes import scheme
from rational import formats as rational_formats

GFLOAT = {
    "e4m3": gfloat.formats.format_info_ocp_e4m3,
    "e5m2": gfloat.formats.format_info_ocp_e5m2,
    "e3m2": gfloat.formats.format_info_ocp_e3m2,
    "e2m3": gfloat.formats.format_info_ocp_e2m3,
    "e2m1": gfloat.formats.format_info_ocp_e2m1,
    "int8": gfloat.formats.format_info_ocp_int8,
}


@pytest.mark.parametrize(
    ("name", "bits", "fields", "bias", "emax", "largest", "smallest"),
    [
        ("e4m3", 8, (4, 3), 7, 8, 448, 2**-9),
        ("e5m2", 8, (5, 2), 15, 15, 57344, 2**-16),
        ("e3m2", 6, (3, 2), 3, 4, 28, 2**-4),
        ("e2m3", 6, (2, 3), 1, 2, 7.5, 2**-3),
        ("e2m1", 4, (2, 1), 1, 2, 6, 2**-1),
        ("int8", 8, (0, 6), 0, 0, 127 / 64, 1 / 64),
        ("int4", 4, (0, 2), 0, 0, 7 / 4, 1 / 4),
        ("int5", 5, (0, 3), 0, 0, 15 / 8, 1 / 8),
        ("int3", 3, (0, 1), 0, 0, 3 / 2, 1 / 2),
        ("e4m3fnuz", 8, (4, 3), 8, 7, 240, 2**-10),
        ("e5m2fnuz", 8, (5, 2), 16, 15, 57344, 2**-17),
        ("fp16", 16, (5, 10), 15, 15, 65504, 2**-24),
        ("bf16", 16, (8, 7), 127, 127, 255 * 2.0**120, 2**-133),
        ("tf32", 19, (8, 10), 127, 127, 2047 * 2.0**117, 2**-136),
    ],
)
@pytest.mark.contract("F1")
def test_table_of_the_contract(name, bits, fields, bias, emax, largest, smallest):
    fmt = FORMATS[name]
    assert fmt.name == str(fmt) == name
    assert fmt.bits == bits
    assert (fmt.exponent_bits, fmt.mantissa_bits) == fields
    assert (fmt.bias, fmt.emax) == (bias, emax)
    assert fmt.largest_finite == largest
    assert fmt.smallest == smallest
    finite = fmt.values[np.isfinite(fmt.values)]
    assert max(finite) == largest
    assert min(finite[finite > 0]) == smallest


@pytest.mark.contract("F1", "F11")
def test_special_codes_of_the_contract():
    def specials(name):
        fmt = FORMATS[name]
        return {c: str(v) for c, v in enumerate(fmt.values) if not np.isfinite(v)}

    assert specials("e4m3") == {0x7F: "nan", 0xFF: "nan"}
    nans = dict.fromkeys((0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF), "nan")
    assert specials("e5m2") == {0x7C: "inf", 0xFC: "-inf"} | nans
    assert specials("e4m3fnuz") == specials("e5m2fnuz") == {0x80: "nan"}
    assert specials("e3m2") == specials("e2m3") == specials("e2m1") == specials("int8") == {}
    assert (FORMATS["e4m3"].nan_code, FORMATS["e4m3"].inf_code) == (0x7F, None)
    assert (FORMATS["e5m2"].nan_code, FORMATS["e5m2"].inf_code) == (0x7E, 0x7C)
    assert all(FORMATS[n].nan_code is FORMATS[n].inf_code is None for n in ("e3m2", "int8"))


@pytest.mark.contract("F6")
def test_most_negative_int8():
    int8 = FORMATS["int8"]
    assert int8.decode(np.array([0x80, 0xFF, 0x00, 0x7F], np.uint8)).tolist() == [
        -2.0,
        -1 / 64,
        0.0,
        127 / 64,
    ]
    assert int8.largest_code == 0x7F
    assert not np.signbit(int8.values[0])


@pytest.mark.parametrize("bits", [3, 4, 5])
@pytest.mark.contract("F7")
def test_every_short_integer(bits):
    """gfloat has none: the values by hand."""
    name, top = f"int{bits}", 2 ** (bits - 1)
    units = [*range(top), *range(-top, 0)]
    assert (2 ** (bits - 2) * FORMATS[name].decode(all_codes(name))).tolist() == units


@pytest.mark.parametrize("name", ML_DTYPES)
def test_decode_equals_ml_dtypes(name):
    codes = all_codes(name)
    theirs = codes.view(ML_DTYPES[name]).astype(np.float32)
    ours = FORMATS[name].decode(codes)
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, theirs)
    finite = np.isfinite(ours)
    np.testing.assert_array_equal(np.signbit(ours[finite]), np.signbit(theirs[finite]))


@pytest.mark.parametrize("name", GFLOAT)
def test_decode_equals_gfloat(name):
    codes = all_codes(name)
    info = GFLOAT[name]
    assert info.k == FORMATS[name].bits
    theirs = [gfloat.decode_float(info, int(code)).fval for code in codes]
    np.testing.assert_array_equal(FORMATS[name].decode(codes), theirs)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.contract("F9")
def test_triples_equal_the_oracle(name):
    fmt = FORMATS[name]
    step = 1 if fmt.bits <= 16 else 61  # the others equal float32: see below
    for code in range(0, 2**fmt.bits, step):
        element = rational_formats.decode(name, code)
        if len(element) == 3:
            triple = fmt.triple(fmt.dtype.type(code))
            assert tuple(int(part) for part in triple) == element
            assert Fraction(float(fmt.values[code])) == rational_formats.value(name, code)
        else:
            assert not np.isfinite(fmt.values[code])


@pytest.mark.contract("F3")
def test_every_tf32_is_the_float32_of_its_fields():
    codes = all_codes("tf32")
    np.testing.assert_array_equal(FORMATS["tf32"].decode(codes), (codes << 13).view(np.float32))


def test_triple_refuses_what_is_not_finite():
    with pytest.raises(ValueError, match=r"^codes of format e5m2 must be finite to have a triple$"):
        FORMATS["e5m2"].triple(np.array([0, 0x7C], np.uint8))


def test_tables_are_read_only():
    fmt = FORMATS["e4m3"]
    for table in (fmt.values, *fmt.triples):
        with pytest.raises(ValueError, match=r"read-only"):
            table[0] = 1


@pytest.mark.parametrize("name", FORMATS)
def test_the_code_of_zero(name):
    zero = FORMATS[name].values[FORMATS[name].zero_code]
    assert zero == 0
    assert not np.signbit(zero)


@pytest.mark.parametrize("name", FORMATS)
def test_negated(name):
    fmt, codes = FORMATS[name], all_codes(name)
    values, negated = fmt.values[codes], fmt.values[fmt.negated(codes)]
    alone = values == min(fmt.extremes)  # of two's complement: it stays
    assert np.array_equal(fmt.negated(fmt.negated(codes)), codes)
    assert alone.sum() == 1
    same = alone & fmt.is_integer
    np.testing.assert_array_equal(negated, np.where(same, values, -values))


@pytest.mark.parametrize("bits", [1, 4, 7, 8])
def test_negated_sign_and_magnitude(bits):
    fmt = sign_magnitude(bits)
    codes = np.arange(2**fmt.bits, dtype=fmt.dtype)
    values, negated = fmt.values[codes], fmt.values[fmt.negated(codes)]
    np.testing.assert_array_equal(negated, -values)
    assert (np.signbit(negated) != np.signbit(values)).all()


# Floats that NumPy has --------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16], ids=str)
def test_facts_of_native_floats(fmt):
    info = ml_dtypes.finfo(fmt.dtype)
    assert (fmt.bits, fmt.mantissa_bits) == (info.bits, info.nmant)
    assert (fmt.emin, fmt.emax) == (info.minexp, info.maxexp - 1)
    assert (fmt.smallest, fmt.smallest_normal) == (info.smallest_subnormal, info.smallest_normal)
    assert fmt.largest_finite == info.max
    assert fmt.nan is not None
    assert np.isnan(fmt.nan)


@pytest.mark.parametrize("fmt", [FLOAT32, FLOAT16, BFLOAT16], ids=str)
def test_encode_rounds_and_saturates_as_it_does_codes(fmt):
    top, least = fmt.largest_finite, fmt.smallest
    got = fmt.encode(np.array([1 + 3 * 2.0**-fmt.significand_bits, 2 * top, least / 2, -0.0]))
    assert got.dtype == fmt.dtype
    assert fmt.exact(got).tolist() == [1 + 4 * 2.0**-fmt.significand_bits, top, 0, 0]


# E8M0 -------------------------------------------------------------------------------------------


@pytest.mark.contract("F5")
def test_scale_decode_equals_ml_dtypes():
    codes = np.arange(256, dtype=np.uint8)
    theirs = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    np.testing.assert_array_equal(E8M0.decode(codes), theirs)
    assert E8M0.decode(codes)[[0, 127, 254]].tolist() == [2.0**-127, 1.0, 2.0**127]
    assert np.flatnonzero(np.isnan(E8M0.decode(codes))).tolist() == [0xFF]


@pytest.mark.contract("Q6")
def test_scale_encode_clamps():
    assert E8M0.encode([-500, -128, -127, 0, 1, 127, 128]).tolist() == [0, 0, 0, 127, 128, 254, 254]
    assert E8M0.exponent_range == (-127, 127)
    exponents = np.arange(-127, 128)
    np.testing.assert_array_equal(E8M0.decode(E8M0.encode(exponents)), 2.0**exponents)


# Bad input --------------------------------------------------------------------------------------


def test_unknown_format():
    names = (
        "e4m3, e5m2, e3m2, e2m3, e2m1, int8, int4, e4m3fnuz, e5m2fnuz, fp16, bf16, tf32, int5, int3"
    )
    with pytest.raises(
        ValueError, match=rf"^format must be one of {names}, not 'e4m4'; nearest: e4m3$"
    ):
        element_format("E4M4")
    with pytest.raises(ValueError, match=rf"^fmt must be one of {names}, not ''$"):
        element_format("", "fmt")
    with pytest.raises(ValueError, match=r"; a scheme of schemes.quantize: nvfp4, nvfp4_16x16, mx"):
        element_format("nvfp4")
    with pytest.raises(
        ValueError, match=r"not 'e4m3'; a format of quantize: e4m3, e2m3, e4m3fnuz$"
    ):
        scheme("e4m3")
    with pytest.raises(TypeError, match=r"^format must be an ElementFormat or its name, not 8$"):
        element_format(8)  # type: ignore[arg-type]
    assert element_format("E4M3") is FORMATS["e4m3"]
    assert element_format(FORMATS["int8"]) is FORMATS["int8"]


@pytest.mark.parametrize(
    ("exponent_bits", "mantissa_bits", "message"),
    [(3, 30, "not e3m30, which has 34 bits, more than 19"),
     (9, 3, "not e9m3, which has 9 exponent bits, more than 8")],
)  # fmt: skip
def test_a_format_that_is_too_long_is_told_the_limit(exponent_bits, mantissa_bits, message):
    fmt = FloatFormat(f"e{exponent_bits}m{mantissa_bits}", exponent_bits, mantissa_bits)
    with pytest.raises(ValueError, match=rf"^format must be a format of MX elements, {message}$"):
        element_format(fmt)


@pytest.mark.parametrize("fmt", [FLOAT32, FLOAT16, INT8_FULL, INT4_SYMMETRIC, INT32], ids=str)
@pytest.mark.contract("F3")
def test_a_format_that_is_no_element_of_mx(fmt):
    with pytest.raises(ValueError, match=rf"^format must be a format of MX elements, not {fmt}$"):
        element_format(fmt)


@pytest.mark.parametrize(
    ("error", "message", "fields"),
    [
        (ValueError, "exponent_bits of f must be from 1 to 10, not 0", (0, 3)),
        (ValueError, "exponent_bits of f must be from 1 to 10, not 11", (11, 3)),
        (ValueError, "exponent_bits of f must be from 1 to 10, not 11", (11, 3, Specials.NAN_ONLY)),
        (ValueError, "exponent_bits of f must be from 2 to 11, not 1", (1, 3, Specials.IEEE)),
        (ValueError, "exponent_bits of f must be from 2 to 11, not 12", (12, 3, Specials.IEEE)),
        (ValueError, "mantissa_bits of f must be from 0 to 52, not -1", (4, -1)),
        (ValueError, "mantissa_bits of f must be from 1 to 52, not 0", (4, 0, Specials.NAN_ONLY)),
        (TypeError, "mantissa_bits of f must be an integer from 0 to 52, not 1.5", (4, 1.5)),
        (TypeError, "specials of f must be a Specials, not 'ieee'", (4, 3, "ieee")),
        (TypeError, "native of f must be True or False, not 1", (4, 3, Specials.NONE, 1)),
    ],
)
def test_what_is_no_float(error, message, fields):
    with pytest.raises(error, match=f"^{message}$"):
        FloatFormat("f", *fields)


def test_small_floats_have_what_they_say():
    """All specials with the narrowest fields: the largest is finite, infinity and NaN are not."""
    made = [(Specials.NONE, 1, 0), (Specials.NAN_ONLY, 1, 1), (Specials.IEEE, 2, 1)]
    for specials, exponent_bits, mantissa_bits in made:
        fmt = FloatFormat("f", exponent_bits, mantissa_bits, specials)
        finite = fmt.values[np.isfinite(fmt.values)]
        assert finite.max() == fmt.values[fmt.largest_code] == fmt.largest_finite > 0
        assert fmt.nan_code is None or np.isnan(fmt.values[fmt.nan_code])
        assert fmt.inf_code is None or fmt.values[fmt.inf_code] == np.inf


@pytest.mark.parametrize("fmt", [INT32, FLOAT32, FLOAT64], ids=str)
def test_no_tables_of_too_many_codes(fmt):
    tables = [lambda: fmt.values, lambda: fmt.triples, lambda: fmt.in_range]
    if fmt is INT32:
        tables.append(lambda: fmt.exact(np.zeros(1, np.uint32)))
    text = rf"^bits of {fmt} must be at most 19 for tables of every code, not {fmt.bits}$"
    for table in tables:
        with pytest.raises(ValueError, match=text):
            table()


def test_unsigned_integers_follow_from_their_bits():
    fmt = UnsignedFormat(4)
    assert (fmt.sign_magnitude, fmt.symmetric, fmt.fraction_bits) == (False, False, 0)
    assert (fmt.name, fmt.lowest, fmt.highest, fmt.dtype) == ("u4", 0, 15, np.uint8)
    assert replace(fmt, bits=11) == UnsignedFormat(11)
    assert len({fmt, UnsignedFormat(4), UnsignedFormat(5)}) == 2


@pytest.mark.contract("F2")
def test_bad_codes():
    fmt = FORMATS["e2m1"]
    with pytest.raises(TypeError, match=r"^codes must have dtype uint8, not int64$"):
        fmt.decode(np.array([1]))
    with pytest.raises(ValueError, match=r"^codes of format e2m1 must be from 0 to 15, not 16$"):
        fmt.decode(np.array([3, 16, 2], np.uint8))
    with pytest.raises(TypeError, match=r"^scales must have dtype uint8, not float64$"):
        E8M0.decode(np.array([1.0]))
    assert fmt.decode(np.zeros((0, 3), np.uint8)).shape == (0, 3)


@pytest.mark.parametrize("name", ["xyz", "u", "u0", "u17", "u1_0", "4", "e5m2", 4, None])
def test_no_format_of_scales(name):
    text = f"^format of scales must be one of float32, .*, e1m0, u1, .*, u16, not {name!r}$"
    with pytest.raises(ValueError, match=text):
        scale_format(name)
    assert [scale_format(n).bits for n in ("float16", "e1m0", "u1", "u16")] == [16, 1, 1, 16]
