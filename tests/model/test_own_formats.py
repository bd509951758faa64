"""Elements, scales, rules, schemes and accumulators of users, and P3109's formats."""

import inspect
import re
from fractions import Fraction
from operator import mul

import numpy as np
import pytest
from gfloat import RoundMode, decode_ndarray, round_ndarray
from gfloat.formats import format_info_p3109
from gfloat.types import Domain, Signedness

import own_formats
from cases import Cases
from compare import difference
from mxdot.model import (
    E2M1,
    E4M3,
    E8M0,
    DotConfig,
    MXArray,
    QuantizeConfig,
    TableFormat,
    dot,
    element_format,
    format_pairs,
    p3109,
    quantize,
    register_accumulator,
    register_format,
    register_scale_format,
    schemes,
)
from mxdot.model.formats import FORMATS, FloatFormat
from mxdot.model.schemes import (
    FLOAT16,
    FLOAT32,
    TENSOR,
    Granularity,
    Level,
    PowerFormat,
    ScaledArray,
    ScaleRule,
    Scheme,
    block,
    register_scale_rule,
    register_scheme,
)
from own_formats import MAKERS, SCHEME_MAKERS, Doubled, hif4, hifloat8, nf4, ue5m3
from quantize_cases import POLICIES, ROUNDINGS, random_blocks, with_nonfinite
from rational.formats import add_table, quantize_block
from registries import registries as registries

RULES = ("exact", "aligned:6", "fused:13", "float32", "float16", "rvbna:4", "fixed:64:-30")
FLUSHING = "cdna2-fp16"


def numbers(seed, shape=(8, 256)):
    rng = np.random.default_rng(seed)
    spread = np.exp2(rng.integers(-9, 9, shape))
    return (rng.standard_normal(shape) * spread).astype(np.float32)


def same_bits(a, b):
    np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


def refused(message, error: type[Exception] = ValueError):
    return pytest.raises(error, match=f"^{re.escape(message)}")


def loaded(path):
    array = schemes.load(path)
    assert isinstance(array, ScaledArray)
    return array


# Elements given by their values -------------------------------------------------------------------

TABLES = {
    "nf4": nf4(),
    "hifloat8": hifloat8(),
    "p3109_k8p4se": p3109(8, 4),
    "p3109_k8p3uf": p3109(8, 3, signed=False, extended=False),
    "p3109_k6p3ue": p3109(6, 3, signed=False),
    "odd": TableFormat("odd", (0.0, -0.0, 1.5, -1.0, 0.375, 3.0, -7.0, np.nan), emin=0),
    "without_nan": TableFormat("without_nan", (-3.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 6.0)),
}


def known_to_the_oracle(name):
    fmt = TABLES[name]
    add_table(fmt.name, fmt.values.tolist(), fmt.ties, fmt.emin)
    return fmt


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e3m2", "e2m1", "e5m2fnuz", "fp16"])
@pytest.mark.contract("F13", "F14")
def test_a_table_of_a_formats_values_is_that_format(name):
    """Codes by every rounding, and products by every kind of accumulator, have equal bits."""
    fmt = element_format(name)
    table = TableFormat(f"{name}_table", fmt.values, emin=fmt.emin)
    x, rng = numbers(1), np.random.default_rng(2)
    x[0, 3], x[1, 40] = np.inf, -np.nan
    words = rng.integers(0, 2**32, x.shape, dtype=np.uint32)
    for rounding in ROUNDINGS:
        for policy in POLICIES:
            options = {"rounding": rounding, "nonfinite": policy, "rng": words}
            a, b = (quantize(x, kind, **options) for kind in (fmt, table))
            np.testing.assert_array_equal(a.scales, b.scales)
            np.testing.assert_array_equal(fmt.values[a.codes], table.values[b.codes])
    a, b = quantize(x, fmt), quantize(x, table)
    for rule in RULES:
        same_bits(dot(a, a, rule), dot(b, b, rule))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.contract("F14")
def test_codes_of_tables_are_the_oracles(name, rounding):
    fmt, rng = known_to_the_oracle(name), np.random.default_rng(3)
    points = np.array([v for v in fmt.values if np.isfinite(v)])
    ties = np.float32((points[:, None] + points) / 2)
    rows = [with_nonfinite(rng, random_blocks(rng, 40, 8))]
    rows += [np.resize(rng.permutation(x.ravel()), (60, 8)) for x in (ties, points)]
    x = np.concatenate(rows).astype(np.float32)
    words = rng.integers(0, 2**32, x.shape, dtype=np.uint32)
    for policy in POLICIES:
        options = {"rounding": rounding, "nonfinite": policy, "rng": words, "block_size": 8}
        made = quantize(x, fmt, **options)
        for row, word, codes, scale in zip(x, words, made.codes, made.scales, strict=True):
            rest = rounding, policy, word.tolist()
            want = quantize_block(row.view(np.uint32).tolist(), fmt.name, "floor", *rest)
            assert (int(scale[0]), codes.tolist()) == want


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.filterwarnings("ignore::mxdot.model.OperandsWarning")
@pytest.mark.contract("F13")
def test_products_of_tables_are_the_oracles(name):
    """Blocks of 48: machines fill up their steps of 32 with the table's zero."""
    fmt, rng = known_to_the_oracle(name), np.random.default_rng(4)
    finite = np.flatnonzero(np.isfinite(fmt.values))
    codes = rng.choice(finite, (2, 24, 96)).astype(fmt.dtype)
    codes[:, 12:, 50:52] = rng.integers(0, 2**fmt.bits, (2, 12, 2))
    scales = rng.integers(120, 134, (2, 24, 2)).astype(np.uint8)
    a, b = (MXArray(codes[i], scales[i], fmt, 48) for i in range(2))
    cases = Cases(a, b, rng.standard_normal(24).astype(np.float32))
    for rule in (*RULES, "hopper", "cdna3-fp8", FLUSHING, "blackwell"):
        assert difference(cases, rule) is None


# P3109 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(3, 9))
@pytest.mark.contract("F15")
def test_p3109_is_gfloats(k):
    """Values of all formats of width k, and values and midpoints rounded in two ways."""
    rng = np.random.default_rng(5)
    for signed in (True, False):
        for p in range(1, k + 1 - signed):
            for extended in (True, False):
                ours = p3109(k, p, signed, extended)
                info = format_info_p3109(
                    k,
                    p,
                    Signedness.Signed if signed else Signedness.Unsigned,
                    Domain.Extended if extended else Domain.Finite,
                )
                assert element_format(info.name) == ours
                np.testing.assert_array_equal(decode_ndarray(info, np.arange(2**k)), ours.values)
                finite = np.sort(ours.values[np.isfinite(ours.values)])
                ties = (finite[1:] + finite[:-1]) / 2
                x = np.concatenate([finite, ties, rng.standard_normal(99) * 10, [1e30]])
                x = x if signed else np.abs(x)
                for mode, rounding in (
                    (RoundMode.TiesToEven, "nearest_even"),
                    (RoundMode.TowardZero, "toward_zero"),
                ):
                    want = round_ndarray(info, x, mode, sat=True)
                    np.testing.assert_array_equal(ours.values[ours.encode(x, rounding)], want)


def test_a_format_of_p3109_has_infinities_and_signs_unless_told():
    assert p3109(8, 4).name == "p3109_k8p4se"
    assert p3109(8, 4, extended=False).name == "p3109_k8p4sf"


@pytest.mark.contract("F15")
def test_special_codes_of_p3109():
    signed, unsigned = element_format("p3109_k8p4se"), element_format("p3109_k8p4ue")
    assert signed.encode(np.array([np.inf, -np.inf, np.nan, -0.0])).tolist() == [127, 255, 128, 0]
    assert unsigned.encode(np.array([np.inf, -np.inf, np.nan, -2.0])).tolist() == [254, 0, 255, 0]
    with refused("p of a P3109 format of width 8 must be from 1 to 7, not 8"):
        p3109(8, 8)
    with refused("format must be one of"):
        element_format("p3109_k8")


# Schemes ------------------------------------------------------------------------------------------


def test_users_need_30_lines_and_public_names():
    text = inspect.getsource(own_formats)
    imports = [
        line for line in text.splitlines() if line.startswith(("from mxdot", "import mxdot"))
    ]
    assert {line.split()[1] for line in imports} == {"mxdot.model", "mxdot.model.schemes"}
    assert not re.search(r"\b_[a-z]", text)
    for maker in MAKERS:
        assert len(inspect.getsource(maker).splitlines()) <= 30


@pytest.mark.parametrize("make", SCHEME_MAKERS, ids=lambda make: make.__name__)
@pytest.mark.contract("S17", "S41", "S45")
def test_schemes_of_users(make, tmp_path):
    """Names, products (those of the values, by `exact`) and files of registered schemes."""
    scheme = schemes.register_scheme(make())
    x = numbers(6, (8, 256)).clip(-99, 99)
    made = schemes.quantize(x, scheme.name)
    values = made.dequantize().astype(np.float64)
    got = schemes.matmul(made, made, "exact")
    want = values @ values.T
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6 * np.abs(values).max() ** 2)
    schemes.save(tmp_path / "x.npz", made)
    again = loaded(tmp_path / "x.npz")
    assert again.scheme == scheme
    np.testing.assert_array_equal(again.codes, made.codes)
    same_bits(again.dequantize(), made.dequantize())


@pytest.mark.parametrize("make", [hif4, own_formats.fp4_ue5m3], ids=lambda make: make.__name__)
@pytest.mark.contract("S48", "T3", "T4", "T10")
def test_a_blocks_product_is_rounded_once(make):
    """`exact` over one block against the sum of fractions; `fixed` in units of 2^-80 too."""
    length = make().levels[0].granularity.columns
    rng = np.random.default_rng(10)
    x = rng.standard_normal((2, 40, length)) * np.exp2(rng.integers(-6, 6, (2, 40, 1)))
    x = x.astype(np.float32)
    a, b = (schemes.quantize(part, make()) for part in x)
    lists = [q.dequantize().astype(np.float64).tolist() for q in (a, b)]
    values: list[list[list[Fraction]]] = [[[*map(Fraction, r)] for r in rows] for rows in lists]
    sums = [[sum(map(mul, p, q)) for q in values[1]] for p in values[0]]
    for rule in ("exact", "fixed:256:-80"):
        got = schemes.matmul(a, b, rule)
        # A sum of these values has at most 53 bits: float64 holds it.
        assert all(Fraction(float(s)) == s for row in sums for s in row)
        same_bits(got, np.array([[float(s) for s in row] for row in sums]).astype(np.float32))


def test_hif4_has_the_published_rule():
    """Scales and bits by amax / 7 and by thresholds of 4 and 2, in exact arithmetic."""
    x = np.random.default_rng(4).standard_normal((2000, 64), dtype=np.float32)
    made = schemes.quantize(x, hif4())
    parts = np.abs(x.astype(np.float64)).reshape(-1, 8, 2, 4)
    fours = parts.max(axis=3, keepdims=True)
    eights = fours.max(axis=2, keepdims=True)
    scale = eights.max(axis=1, keepdims=True) / 7
    unit = 2.0 ** (np.floor(np.log2(scale)) - 2)  # the last place of an E6M2
    scale = np.round(scale / unit) * unit
    outer = np.where(eights / scale >= 4, 2.0, 1.0)
    inner = np.where(fours / scale / outer >= 2, 2.0, 1.0)
    whole = scale * outer * inner
    values = np.minimum(np.round(parts / whole * 4) / 4, 1.75) * whole
    for level, stored, want in zip(
        made.scheme.levels, made.scales, (scale, outer, inner), strict=True
    ):
        got = level.format.exact(stored)
        np.testing.assert_array_equal(got, want.reshape(got.shape))
    np.testing.assert_array_equal(made.dequantize(), np.copysign(values.reshape(x.shape), x))


def test_values_under_hif4():
    """60 / 7 is nearest to a scale of 8; blocks of 8 and of 4 reach 4 times as far, or 2."""
    x = np.zeros((1, 64), np.float32)
    x[0, :6] = 56, 49, -24.5, 14, 1.9, 60
    x[0, 8:10], x[0, 12:14] = (16, 3), (15, 3)
    made = schemes.quantize(x, hif4())
    assert made.scheme.levels[0].format.exact(made.scales[0][0, 0]) == 8
    assert made.scales[1][0, :2].tolist() == [1, 0]
    assert made.scales[2][0, :4].tolist() == [1, 1, 1, 0]
    row = made.dequantize()[0]
    assert row[:6].tolist() == [56, 48, -24, 16, 0, 56]
    assert row[8:10].tolist() == [16, 4]
    assert schemes.bits_per_element(made.scheme) == 4.5


@pytest.mark.contract("S48")
def test_values_under_ue5m3_are_read():
    """2^-14 is the least normal scale, 2^-17 the least, 0xFF is NaN."""
    fmt = ue5m3()
    assert (fmt.smallest, fmt.largest_finite, fmt.nan_code) == (2.0**-17, 1.75 * 2.0**16, 255)
    scheme = Scheme("ue5m3", (E2M1,), (Level(block(2), fmt),), "a test")
    made = schemes.quantize(np.array([[6 * 2.0**-17, 0, 1e9, 0, np.nan, 1, 7.5, 0]], "f4"), scheme)
    assert made.scales[0].tolist() == [[1, 254, 255, (15 << 3) + 2]]
    np.testing.assert_array_equal(
        made.dequantize()[0, :4], [6 * 2.0**-17, 0, 6 * 1.75 * 2.0**16, 0]
    )


def test_codes_of_nan_of_powers_of_two():
    for code in (0, 15):
        fmt = PowerFormat("p4", bits=4, emin=-6, emax=7, bias=7, nan_code=code)
        assert np.isnan(fmt.decode(np.uint8(code)))
    for code in (-1, 16):
        with refused(f"nan_code of p4 must be from 0 to 15, not {code}"):
            PowerFormat("p4", bits=4, emin=-6, emax=7, bias=7, nan_code=code)
    with refused("nan_code of p4 must be outside the codes of values, 1 to 14, not 14"):
        PowerFormat("p4", bits=4, emin=-6, emax=7, bias=7, nan_code=14)


def test_scales_are_codes_of_values():
    fmt = PowerFormat("p8", bits=8, emin=-10, emax=10, bias=127, nan_code=255)
    scheme = Scheme("p8", (E2M1,), (Level(block(4), fmt, "floor"),), "a test")
    codes = np.zeros((1, 4), np.uint8)
    for code in (117, 137, 255):
        ScaledArray(scheme, codes, (np.array([[code]], np.uint8),))
    for code in (116, 138):
        with refused("scales[0] of p8 must be from 0.000976562 to 1024, or NaN, not "):
            ScaledArray(scheme, codes, (np.array([[code]], np.uint8),))


def test_pairs_of_formats_with_an_x_in_their_names():
    own = FloatFormat("fx1", 3, 2)
    register_format(own)
    try:
        for text in ("fx1xe4m3", "FX1 x e4m3"):
            assert format_pairs(text) == ((own, E4M3),)
        assert format_pairs("e4m3, fx1, e4m3xfx1") == ((E4M3, E4M3), (own, own), (E4M3, own))
    finally:
        del FORMATS["fx1"]


@pytest.mark.contract("A5")
def test_a_register_far_above_the_smallest_values():
    """2^254 x 2^-298 is beyond 51 bits from 2^-150."""
    tiny = TableFormat("tiny", (0, 2.0**-149))
    x = MXArray(np.ones(1, np.uint8), np.array([254], np.uint8), tiny, 1)
    for width in (20, 51, 52):
        made = dot(x, x, f"fixed:{width}:-150", trace=True)
        assert made.flags.saturated
        assert made.result == np.float32((2 ** (width - 1) - 1) * 2.0**-150)
        assert dot(x, x, f"fixed:{width}:-150:wrap") == 0


def test_wide_sums_of_an_unsigned_format():
    """2^60 + 1 + 1 - 2^60, which float64 does not hold."""
    fmt = p3109(8, 1, signed=False, extended=False)
    code = {value: number for number, value in enumerate(fmt.values.tolist())}
    scale = np.array([E8M0.bias], np.uint8)
    x = MXArray(np.array([code[2.0**60], code[1], code[1], code[1]], np.uint8), scale, fmt, 4)
    y = MXArray(np.array([code[1], code[1], code[1], code[0]], np.uint8), scale, fmt, 4)
    assert dot(x, y, "exact", np.float32(-(2.0**60))) == 2


@pytest.mark.contract("S46")
def test_schemes_without_a_nan_scale():
    """`poison` makes the group's elements NaN; without a NaN anywhere, values must be finite."""
    powers = PowerFormat("e8", bits=8, emin=-128, emax=127, bias=128, nan_code=None)
    x = np.ones((1, 8), np.float32)
    x[0, 5] = np.inf
    levels = (Level(block(4), powers, "floor"),)
    made = schemes.quantize(x, Scheme("nan", (E4M3,), levels, "a test"))
    assert made.codes[0].tolist() == [0x78] * 4 + [0x7F] * 4
    assert np.isnan(made.dequantize()[0, 4:]).all()
    none = Scheme("no_nan", (E2M1,), levels, "a test")
    with refused("x must be finite for no_nan, which has no NaN"):
        schemes.quantize(x, none)
    assert np.isfinite(schemes.quantize(x, none, nonfinite="element").dequantize()).all()


# Rules of scales ----------------------------------------------------------------------------------


@pytest.mark.contract("S47")
def test_even1_is_the_rule_of_compressed_tensors():
    """As `ceil` for E4M3, except that 1.75 x 2^k goes up."""
    x = np.array([448, 1.75, 1.7499999, 1.7500001, 1, 1.5, 0.25, 1.75 * 2.0**-20], np.float32)
    x = np.concatenate([x, np.abs(numbers(7)).ravel()])[:, None].astype(np.float32)
    even1, ceil = (quantize(x, E4M3, block_size=1, scale_rule=r).scales for r in ("even1", "ceil"))
    at = np.frexp(x)[0] == 0.875
    assert at.sum() >= 3
    np.testing.assert_array_equal(even1, ceil + at)
    rounded = (x.view(np.uint32) + (1 << 21) & 0x7F800000).view(np.float32)
    np.testing.assert_array_equal(even1, 127 + np.log2(rounded) - 8)
    assert schemes.scheme("mxfp8_e4m3:even1").levels[0].rule == "even1"


@pytest.mark.parametrize("outer", [(), (Level(TENSOR, FLOAT32, "amax256"),)], ids=["", "tensor"])
@pytest.mark.contract("S47")
def test_four_over_six_takes_the_scale_that_errs_less(outer):
    """Against both candidates by hand: block scales RNE(A / 6P) and RNE(A / 4P), errors |d|."""
    levels = (*outer, Level(block(16), E4M3, "four_over_six"))
    x = np.random.default_rng(8).standard_normal((64, 16)).astype(np.float32)
    x[0] = [6, *[3] * 15]
    x[1] = [4, *[3.9] * 15]
    made = schemes.quantize(x, Scheme("b", (E2M1,), levels, "a test"))
    tensor = float(made.scales[0].item()) if outer else 1.0
    scales, codes, errors = [], [], []
    for reach in (6.0, 4.0):
        scales.append(E4M3.encode(np.abs(x).max(1).astype(np.float64) / (reach * tensor)))
        scale = tensor * E4M3.values[scales[-1]][:, None]
        codes.append(E2M1.encode(x / scale))
        errors.append(np.abs(x - scale * E2M1.values[codes[-1]]).sum(1))
    is_four = errors[1] < errors[0]
    assert outer or is_four[:2].tolist() == [False, True]
    assert 0 < is_four.sum() < 64
    np.testing.assert_array_equal(made.scales[-1][:, 0], np.where(is_four, *scales[::-1]))
    np.testing.assert_array_equal(made.codes, np.where(is_four[:, None], *codes[::-1]))
    assert made.selectors is None


@pytest.mark.contract("S15")
def test_a_largest_value_beyond_24_bits():
    """A row's scale is its largest magnitude / (32767 x 2^-15 x 65504), of 26 bits: no float32."""
    fmt = TableFormat("wide", (-0.5, 0.0, 0.5, 32767 / 32768))
    rows = Granularity(1, None)
    scheme = Scheme("w", (fmt,), (Level(rows, FLOAT32), Level(block(4), FLOAT16)), "a test")
    x = np.random.default_rng(11).uniform(1, 2, (64, 8)).astype(np.float32)
    outer = schemes.quantize(x, scheme).scales[0][:, 0]
    for amax, got in zip(x.max(1), outer, strict=True):
        exact = Fraction(float(amax)) / (Fraction(float(fmt.largest_finite)) * 65504)
        near = [np.nextafter(got, np.float32(way)) for way in (0, 1)]
        distances = [abs(Fraction(float(value)) - exact) for value in (got, *near)]
        assert distances[0] < min(distances[1:])


@pytest.mark.contract("S47")
def test_a_scale_of_the_tensor_that_leaves_room_for_four_over_six():
    """A tensor's scale of A / (256 m), m the largest element, so that block scales reach 256."""
    outer = Level(TENSOR, FLOAT32, "amax256")
    scheme = Scheme("r", (E2M1,), (outer, Level(block(16), E4M3)), "a test")
    x = np.random.default_rng(9).standard_normal((4, 32)).astype(np.float32)
    tensor, blocks = schemes.quantize(x, scheme).scales
    assert tensor.item() == np.float32(np.abs(x).max().astype(np.float64) / (256 * 6))
    assert E4M3.values[blocks].max() == 256


@pytest.mark.contract("S45")
def test_rules_of_users():
    def up(amax, room, element):
        return np.ceil(np.log2(amax / room + (amax == 0))).astype(np.int64)

    register_scale_rule("up", up, powers=True)
    made = quantize(np.array([[3, 0], [8, -1], [0, 0]], "f4"), E4M3, block_size=2, scale_rule="up")
    assert made.scales.tolist() == [[129], [130], [0]]
    with refused("name of a rule must be new, not 'floor'"):
        register_scale_rule("floor", up, powers=True)
    with refused("candidates must be from 1 to "):
        register_scale_rule("none", up, candidates=0)
    with refused("function of rule no must be callable, not 3", TypeError):
        register_scale_rule("no", 3)  # type: ignore[arg-type]
    two = register_scale_rule("two", lambda amax, room, element: (amax, amax, amax), candidates=2)
    assert two == ScaleRule("two", two.function, False, 2, "squared")
    assert ScaleRule("up", up) == ScaleRule("up", up, False, 1, "squared")
    with refused("rule two must return 2 arrays of shape (1, 1), not of [(1, 1), (1, 1), (1, 1)]"):
        level = Level(block(2), FLOAT32, "two")
        schemes.quantize(np.ones((1, 2), "f4"), Scheme("two", (E4M3,), (level,), "a test"))
    with refused("rule two of s must be that of the innermost scales of one element format"):
        Scheme("s", (E4M3,), (Level(TENSOR, FLOAT32, "two"), Level(block(2), E4M3)), "a test")
    with refused("rule of e4m3 scales must be one of amax, amax256, four_over_six, two, not []"):
        Level(block(2), E4M3, [])  # type: ignore[arg-type]
    with refused("rule of e4m3 scales must be one of amax, amax256, four_over_six, two, not 'up'"):
        Level(block(2), E4M3, "up")


# Names and files ----------------------------------------------------------------------------------


def test_names_are_those_of_one_content():
    fmt = register_format(TableFormat("own", (0.0, 1.0)))
    assert element_format("own") is fmt is register_format(TableFormat("own", (0.0, 1.0)))
    for other in (TableFormat("own", (0.0, 2.0)), TableFormat("e4m3", (0.0, 2.0))):
        with refused("name of format TableFormat("):
            register_format(other)
    with refused("name of format PowerFormat(name='e8m0'"):
        register_scale_format(PowerFormat("e8m0", 8, -120, 120, 120, 255))
    with refused("name of scheme mxfp4 must be new"):
        levels = (Level(block(32), E8M0, "ceil"),)
        register_scheme(Scheme("mxfp4", (E2M1,), levels, "a test"))
    with refused("name of a format must be of a-z, 0-9 and _, not 'My format'"):
        register_format(TableFormat("My format", (0.0, 1.0)))


@pytest.mark.contract("S41")
def test_files_keep_tables_by_content(tmp_path):
    fmt = TableFormat("own", (0.0, -0.0, 0.7109375, np.nan, 1, 2, 3, np.inf), "away", 1)
    scheme = Scheme("s", (fmt,), (Level(block(4), ue5m3()),), "a test")
    made = schemes.quantize(np.ones((1, 8), np.float32), scheme)
    schemes.save(tmp_path / "x", made)
    restored = loaded(tmp_path / "x")
    (again,) = restored.scheme.elements
    assert again == fmt
    assert again is not fmt
    assert again.values.tobytes() == fmt.values.tobytes()
    register_format(TableFormat("own", (0.0, 1.0)))
    with refused(f"{tmp_path / 'x'} must hold a quantised array or limits: format of the name own"):
        schemes.load(tmp_path / "x")
    with refused("format of the name own must be"):
        schemes.save(tmp_path / "y", made)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ((0.0, 1.0, 2.0), {}, "values of t must be 2, 4, 8, ... 65536 numbers, not (3,)"),
        ((0.0, 0.1), {}, "values of t must be float32 numbers, NaN or infinite, not 0.1"),
        ((0.0, 1e39), {}, "values of t must be float32 numbers, NaN or infinite, not 1e+39"),
        ((0.0, -1.0), {}, "values of t must have a positive number"),
        ((0.0, 1.0), {"ties": "odd"}, "ties of t must be one of even, away, not 'odd'"),
        ((0.0, 1.0), {"emin": 1}, "emin of t must be from 0 to 0, not 1"),
        ((2.0**-149, 2.0**127), {}, "values of t must have midpoints that float64 holds"),
    ],
)
@pytest.mark.contract("F13")
def test_refused_tables(values, options, message):
    with refused(message):
        TableFormat("t", values, **options)


def test_published_values():
    """NF4 as bitsandbytes has it; codes of HiFloat8 from its paper."""
    positive = 0.0795803, 0.1609302, 0.2461123, 0.3379152, 0.4407098, 0.5626170, 0.7229568, 1
    negative = -1, -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734, -0.0910500
    np.testing.assert_allclose(nf4().values, [*negative, 0, *positive], atol=2e-7)
    codes = [0x00, 0x01, 0x07, 0x08, 0x0F, 0x10, 0x6E, 0x6F, 0x7F, 0x81, 0xEE, 0xEF]
    largest = 2.0**15
    want = [0, 2.0**-22, 2.0**-16, 1, 1.875, 2, largest, np.inf, 1.5 * 2.0**-15]
    fmt = hifloat8()
    assert fmt.values[codes].tolist() == [*want, -(2.0**-22), -largest, -np.inf]
    assert np.isnan(fmt.values[0x80])
    assert len(np.unique(fmt.values[:128])) == 128


def test_negated_codes():
    fmt = TABLES["odd"]
    assert fmt.negated(np.arange(8, dtype=np.uint8)).tolist() == [1, 0, 2, 3, 4, 5, 6, 7]
    assert nf4().negated(np.array([0, 7, 15, 1], np.uint8)).tolist() == [15, 7, 0, 1]


def test_refused_elements():
    ones = TableFormat("ones", (1.0, 2.0))
    with refused("fmt must be a format of MX elements, not ones"):
        quantize(np.ones((1, 32), "f4"), ones)
    with refused("values of element ones of s must hold a zero"):
        Scheme("s", (ones,), (Level(block(4), FLOAT32),), "a test")
    for fmt in (FLOAT16, FloatFormat("e9m3", 9, 3)):
        with refused(f"element of s must be a format of MX elements, not {fmt}"):
            Scheme("s", (fmt,), (Level(block(4), FLOAT32),), "a test")


@pytest.mark.parametrize("make", [lambda f: DotConfig(f, lanes=4), lambda f: QuantizeConfig(f)])
def test_units_refuse_tables(make):
    for value in ("p3109_k8p4se", nf4()):
        name = value if isinstance(value, str) else "nf4"
        with refused(f"formats of a unit must be floats or integers, not the table {name}"):
            make(value if isinstance(value, str) else [value])


# An accumulator -----------------------------------------------------------------------------------


def test_an_accumulator_of_a_user():
    register_accumulator(Doubled)
    for word in ("aligned", "hopper"):
        other = type("Other", (Doubled,), {"syntax": f"{word}:F"})
        with refused(f"syntax of Other must begin with a new word, not '{word}'"):
            register_accumulator(other)
    x = quantize(numbers(9), E4M3)
    same_bits(dot(x, x, "doubled:6"), 2 * dot(x, x, "aligned:6"))
