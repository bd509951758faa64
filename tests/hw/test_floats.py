"""The floating-point pieces of the datapath: sum, rounder, tree adder, output conversion."""

import gc
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from compare import generator
from hw_bench import Evaluator, assert_same
from mxdot.hw.arithmetic.floats import FloatRounder, FloatSum
from mxdot.hw.dot.convert import Convert
from mxdot.hw.dot.float_tree import SIGNIFICAND, ProductToFloat, TreeAdder
from mxdot.model import DotConfig
from mxdot.model.accumulators import NAN_DEFAULT, NAN_NVIDIA
from mxdot.model.formats import BFLOAT16, FLOAT16, FloatFormat
from mxdot.model.outputs import convert
from mxdot.model.pipeline.widths import Widths
from mxdot.model.rounding import two_sum
from rational import formats as rational_formats

# Neighbourhoods of zero, of the smallest normal and of 1, ties, and the largest.
CORNERS = [
    0x00000000, 0x00000001, 0x00000002, 0x00000003, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF,
    0x01000000, 0x33800000, 0x33800001, 0x34000000, 0x34000001, 0x3F7FFFFF, 0x3F800000, 0x3F800001,
    0x3F800002, 0x3F800003, 0x3FFFFFFF, 0x40000000, 0x4B7FFFFF, 0x4B800000, 0x4B800001, 0x4C000000,
    0x73000000, 0x73000001, 0x72FFFFFF, 0x7E7FFFFF, 0x7E800000, 0x7F000000, 0x7F7FFFFE, 0x7F7FFFFF,
]  # fmt: skip


def floats(bits) -> NDArray[np.float32]:
    return np.asarray(bits).astype(np.uint32).view(np.float32)


def bits_of(x: NDArray) -> NDArray[np.int64]:
    return x.view(np.uint32).astype(np.int64)


def unpacked(x: NDArray[np.float32], zero: bool = False) -> dict[str, NDArray]:
    """FloatLayout(24) of finite `x`; `zero` sets the field for zeros."""
    bits = bits_of(x)
    field, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    return {
        "significand": fraction | (field > 0).astype(int) << 23,
        "exponent": np.maximum(field, 1) - 127,
        "sign": bits >> 31,
        "zero": (x == 0) & zero,
    }


def operand_pairs(rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Finite pairs: all corners; any; near exponents; cancelling; subnormal; huge; tied."""
    corner = np.array(CORNERS + [c | 1 << 31 for c in CORNERS])
    pairs = [(np.repeat(corner, len(corner)), np.tile(corner, len(corner)))]
    n = 30_000
    signs = rng.integers(0, 2, (12, n)) << 31
    any_a, any_b = rng.integers(0, 0x7F800000, (2, n))
    apart = rng.integers(-30, 31, n) << 23
    near = np.clip(any_a + apart, 0, 0x7F7FFFFF)
    near = near & ~0x7FFFFF | any_b & 0x7FFFFF
    close = np.clip(any_a + rng.integers(-3, 4, n), 0, 0x7F7FFFFF)
    subnormal = rng.integers(0, 1 << 24, n)
    huge = rng.integers(0x7E000000, 0x7F800000, n)
    # A few bits only, far apart: sums that lie half-way between two float32.
    sparse = any_a & ~0x7FFFF0 | 1
    half = np.clip((sparse & ~0x7FFFFF) - (24 << 23), 0, None) | rng.integers(0, 2, n)
    for a, b in [
        (any_a, any_b),
        (any_a, near),
        (any_a, close),
        (subnormal, rng.integers(0, 1 << 24, n)),
        (huge, rng.integers(0x7E000000, 0x7F800000, n)),
        (sparse, half),
    ]:
        pairs.append((a | signs[len(pairs)], b | signs[-len(pairs)]))
        pairs.append((pairs[-1][1], pairs[-1][0]))
    a, b = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return floats(a), floats(b)


class Adder:
    """FloatSum and FloatRounder, as `accumulate` and `promote` join them."""

    def __init__(self) -> None:
        sum_ = FloatSum(24, 24)
        self.sum = Evaluator(sum_)
        self.rounder = Evaluator(FloatRounder(sum_.sum_bits, nearest=True))

    def __call__(self, a: NDArray[np.float32], b: NDArray[np.float32], zero: bool):
        return self.rounder(**self.sum(a=unpacked(a), b=unpacked(b, zero)))


@pytest.mark.parametrize("zero", [False, True])
def test_float_sum_and_rounder_add_like_numpy(zero):
    """Zeros are marked, or have only a zero significand."""
    a, b = operand_pairs(generator("float sum"))
    with np.errstate(over="ignore"):
        want = a + b + np.float32(0)
    total, error = two_sum(a.astype(np.float64), b.astype(np.float64))
    inexact = (want.astype(np.float64) != total) | (error != 0)
    flags = {"overflow": np.isinf(want), "inexact": inexact, "underflow": np.zeros(len(a), bool)}
    got = Adder()(a, b, zero)
    assert_same(got, {"result": bits_of(want), **flags}, a=bits_of(a), b=bits_of(b))
    assert flags["overflow"].sum() > 1000
    assert (~flags["inexact"]).sum() > 1000


# Wide operands, against exact rational arithmetic -----------------------------------------------


def number(sign: int, significand: int, exponent: int, width: int) -> Fraction:
    """(-1)^sign x significand x 2^(exponent - width + 1)."""
    return (-significand if sign else significand) * rational_formats.pow2(exponent - width + 1)


def rounded(x: Fraction, rounding: str, fraction_bits: int = 23) -> dict[str, int]:
    status = rational_formats.Status()
    result = rational_formats.round_float32(x, rounding, status, fraction_bits)
    flags = {name: getattr(status, name) for name in ("overflow", "underflow", "inexact")}
    return {"result": rational_formats.encode_float32(result, 0), **flags}


def columns(rows: list[dict[str, int]]) -> dict[str, NDArray]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def wide_integers(rng: np.random.Generator, width: int, n: int) -> list[int]:
    """Numbers of up to `width` bits: any, short, and nearly half-way patterns."""
    values = []
    for kind in rng.integers(0, 4, n):
        value = int.from_bytes(rng.bytes(width // 8 + 1)) % 2**width
        length = int(rng.integers(1, width + 1))
        if kind == 1:
            value >>= width - length
        elif kind == 2:
            value &= -1 << (width - length)
        elif kind == 3:
            value = value & (-1 << length) | 1 << (length - 1) | int(rng.integers(0, 2))
        values.append(value % 2**width)
    return values


@pytest.mark.parametrize("width", [24, 25, 38, 71])
def test_float_sum_of_a_wide_operand(width):
    """c + a normalised block sum of any scale: one rounding of the exact sum."""
    rng = generator("wide sum", width)
    n = 3000
    c = operand_pairs(rng)[0]
    c = c[rng.integers(0, len(c), n)]
    significand = [v << (width - v.bit_length()) for v in wide_integers(rng, width, n)]
    near = np.where(rng.random(n) < 0.7, np.frexp(c)[1] + rng.integers(-80, 81, n), 0)
    exponent = np.where(near != 0, near, rng.integers(-330, 331, n))
    sign = rng.integers(0, 2, n)
    # Some sums cancel to the last bits.
    for i in np.flatnonzero(rng.random(n) < 0.2):
        c_parts = {name: int(value[0]) for name, value in unpacked(c[i : i + 1]).items()}
        if c_parts["significand"] >> 23:
            significand[i] = (c_parts["significand"] << (width - 24)) | int(rng.integers(0, 2))
            exponent[i], sign[i] = c_parts["exponent"], 1 - c_parts["sign"]
    b = {
        "significand": np.array(significand, object),
        "exponent": exponent,
        "sign": sign,
        "zero": np.array([value == 0 for value in significand]),
    }
    sum_ = FloatSum(24, width)
    total = Evaluator(sum_)(a=unpacked(c), b=b)
    got = Evaluator(FloatRounder(sum_.sum_bits, nearest=True))(**total)
    want = [
        rounded(
            Fraction(float(c[i])) + number(sign[i], significand[i], int(exponent[i]), width),
            "nearest_even",
        )
        for i in range(n)
    ]
    shown = {"significand": b["significand"], "exponent": exponent, "sign": sign}
    assert_same(got, columns(want), c=bits_of(c), **shown)


@pytest.mark.parametrize(
    ("rounding", "fraction_bits"), [("nearest_even", 23), ("toward_zero", 23), ("toward_zero", 13)]
)
@pytest.mark.parametrize("width", [5, 18, 24, 26, 27, 31, 75])
@pytest.mark.contract("C2", "P8", "R3")
def test_float_rounder(rounding, width, fraction_bits):
    nearest = rounding == "nearest_even"
    rng = generator("rounder", rounding, width, fraction_bits)
    n = 2500
    magnitude = wide_integers(rng, width, n)
    low = rng.integers(-126, -126 + width + 3, n)
    exponent = np.choose(
        rng.integers(0, 3, n), [low, rng.integers(-126, 400, n), rng.integers(120, 132 + width, n)]
    )
    sign = rng.integers(0, 2, n)
    got = Evaluator(FloatRounder(width, nearest=nearest, fraction_bits=fraction_bits))(
        sign=sign, magnitude=np.array(magnitude, object), exponent=exponent
    )
    want = [
        rounded(number(sign[i], magnitude[i], int(exponent[i]), width), rounding, fraction_bits)
        for i in range(n)
    ]
    assert_same(got, columns(want), sign=sign, magnitude=np.array(magnitude), exponent=exponent)
    # A magnitude that fits the significand is never cut.
    cut = ("underflow", "inexact") if width > fraction_bits + 1 else ()
    for name in ("overflow", *cut):
        assert columns(want)[name].any(), name


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_a_rounder_to_nearest_has_all_fraction_bits():
    with pytest.raises(ValueError, match="fraction_bits must be 23 to round to nearest, not 13"):
        FloatRounder(30, nearest=True, fraction_bits=13)
    gc.collect(0)  # the rounder that nobody uses


# The tree of `float32` ---------------------------------------------------------------------------


@pytest.mark.contract("A6")
def test_tree_adder_adds_like_numpy():
    """Normal values between 2^-64 and 2^64 and zeros, which is what a tree of products meets."""
    rng = generator("tree adder")
    a, b = (np.abs(x) for x in operand_pairs(rng))
    n = len(a)
    field_a, field_b = (bits_of(x) >> 23 for x in (a, b))
    middle = rng.integers(127 - 36, 127 + 36, n)
    apart = np.clip(field_b - field_a, -27, 27)
    a = floats(bits_of(a) & 0x7FFFFF | middle << 23 | rng.integers(0, 2, n) << 31)
    b = floats(bits_of(b) & 0x7FFFFF | (middle + apart) << 23 | rng.integers(0, 2, n) << 31)
    a = np.where(rng.random(n) < 0.02, np.float32(0), a)
    b = np.where(rng.random(n) < 0.02, np.float32(0), np.where(rng.random(n) < 0.02, -a, b))
    got = Evaluator(TreeAdder())(a=unpacked(a, True), b=unpacked(b, True))
    want = a + b
    nonzero = want != 0
    assert_same(got["o"]["zero"], ~nonzero)
    expected = {name: value[nonzero] for name, value in unpacked(want).items()}
    assert_same(
        {name: value[nonzero] for name, value in got["o"].items()},
        expected,
        a=bits_of(a)[nonzero],
        b=bits_of(b)[nonzero],
    )
    assert_same(got["o"]["significand"][~nonzero], np.zeros((~nonzero).sum()))
    total, error = two_sum(a.astype(np.float64), b.astype(np.float64))
    assert_same(got["inexact"], (want != total) | (error != 0), a=bits_of(a), b=bits_of(b))
    assert (~nonzero).sum() > 1000


@pytest.mark.parametrize("formats", ["e4m3", "e5m2", "int8", "e4m3,int8xe5m2"])
def test_product_to_float(formats):
    widths = Widths(DotConfig(formats=formats, lanes=4, accumulator="float32"))
    bits = widths.product_bits
    product = np.arange(2**bits)[:: max(1, 2**bits // 4096)]
    for exponent in (0, 1, 2**widths.exponent_bits - 1):
        for sign in (0, 1):
            i = {"significand": product, "exponent": exponent, "sign": sign}
            i["nonzero"] = product != 0
            got = Evaluator(ProductToFloat(widths))(i=i)["o"]
            value = np.ldexp(product.astype(np.float32), exponent + widths.product_lsb)
            want = unpacked(-value if sign else value, True)
            nonzero = product != 0
            assert_same(got["zero"], ~nonzero)
            assert_same(got["significand"], want["significand"], product=product)
            assert_same(
                got["exponent"][nonzero], want["exponent"][nonzero], product=product[nonzero]
            )
            assert_same(got["sign"][nonzero], want["sign"][nonzero])
    assert bits <= SIGNIFICAND


# Output conversion -------------------------------------------------------------------------------


NANS = [NAN_DEFAULT, NAN_NVIDIA]  # the only ones that a result can be


def interesting_float32(out: FloatFormat) -> NDArray[np.float32]:
    """All signs and exponents, with the fractions around every kind of rounding boundary."""
    cut = 23 - out.mantissa_bits
    kept = np.array(
        [0, 1, 2, 3, 2**out.mantissa_bits // 2, 2**out.mantissa_bits - 2, 2**out.mantissa_bits - 1]
    )
    below = [0, 1, 2 ** (cut - 1) - 1, 2 ** (cut - 1), 2 ** (cut - 1) + 1, 2**cut - 1]
    single = 1 << np.arange(23)
    fraction = np.unique(
        np.concatenate([(kept[:, None] << cut | below).ravel(), single, single - 1, 2**23 - single])
    )
    head = np.arange(2**9) << 23
    patterned = (head[:, None] | fraction).ravel()
    random = generator("convert").integers(0, 2**32, 100_000)
    return floats(np.concatenate([patterned, random, NANS]))


@pytest.mark.parametrize(("out", "dtype"), [(FLOAT16, np.float16), (BFLOAT16, ml_dtypes.bfloat16)])
@pytest.mark.contract("N1")
def test_convert(out, dtype):
    x = interesting_float32(out)
    x = x[~np.isnan(x) | np.isin(bits_of(x), NANS)]
    flags = generator("convert flags").integers(0, 16, len(x))
    before = {
        name: flags >> bit & 1
        for bit, name in enumerate(("overflow", "underflow", "inexact", "saturated"))
    }
    running = {"c": bits_of(x), "flags": before}
    got = Evaluator(Convert(out))(i={"running": running})["o"]["result"]

    with np.errstate(over="ignore", invalid="ignore"):
        narrow = x.astype(dtype)
    number = ~np.isnan(x)
    result = np.where(narrow == 0, 0, narrow.view(np.uint16).astype(int))  # a zero is +0
    assert_same(got["c"][number], result[number], x=bits_of(x)[number])
    assert_same(got["c"], convert(x, out).view(np.uint16), x=bits_of(x))

    wide = narrow.astype(np.float32)
    finite = np.isfinite(x)
    lost = finite & (wide != x)
    tiny = lost & (np.abs(wide) < 2.0**out.emin)
    added = {
        "overflow": finite & np.isinf(wide),
        "underflow": tiny,
        "inexact": lost,
        "saturated": np.zeros(len(x), bool),
    }
    assert_same(
        got["flags"], {name: before[name] | where for name, where in added.items()}, x=bits_of(x)
    )


@pytest.mark.parametrize(
    ("out", "wants"), [(FLOAT16, (0x7E00, 0x7FFF)), (BFLOAT16, (0x7FC0, 0x7FFF))]
)
@pytest.mark.contract("N2")
def test_convert_of_the_nans_that_results_have(out, wants):
    got = Evaluator(Convert(out))(i={"running": {"c": np.array(NANS)}})["o"]["result"]
    assert got["c"].tolist() == list(wants)
    assert not any(flag.any() for flag in got["flags"].values())
