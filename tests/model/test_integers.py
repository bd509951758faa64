"""Units with integer results: the model against Python's integers, and what is refused."""

import re
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from compare import some
from mxdot.model import DotConfig, quantize, schemes
from mxdot.model.formats import FLOAT32
from mxdot.model.integers import integer_dot
from mxdot.model.outputs import OUTPUTS, IntegerOutput
from rational.formats import floor_log2, pow2

LOW, HIGH = -(2**31), 2**31 - 1


def by_hand(config, a, b, c, inputs, row):
    """One dot product in Python integers: (result, saturated, inexact, clipped)."""

    def signed(code, bits):
        return code - 2**bits if code >= 2 ** (bits - 1) else code

    bits = [fmt.bits for fmt in config.formats[0]]
    total, saturated = int(c[row]), False
    for block in range(a.shape[1]):
        block_sum = 0
        for x, y in zip(a[row, block].tolist(), b[row, block].tolist(), strict=True):
            z_a = int(inputs["zero_a"][row, block]) if "zero_a" in inputs else 0
            z_b = int(inputs["zero_b"][row, block]) if "zero_b" in inputs else 0
            block_sum += (signed(x, bits[0]) - z_a) * (signed(y, bits[1]) - z_b)
        if "scale_a" in inputs:
            block_sum *= int(inputs["scale_a"][row, block]) * int(inputs["scale_b"][row, block])
        total += block_sum
        saturated |= not LOW <= total <= HIGH
        total = min(max(total, LOW), HIGH)
    fmt = config.out.format
    if fmt is None:
        return total, saturated, False, False
    if config.out.rescale == "scale":
        return (*scaled_by_hand(total, inputs["result_scale"][row], fmt), saturated)
    factor = int(inputs["multiplier"][row]) if "multiplier" in inputs else 1
    exact = Fraction(total * factor, 2 ** int(inputs["shift"][row]))
    moved = floor(exact + Fraction(1, 2)) + int(inputs["zero_out"][row])
    result = min(max(moved, fmt.lowest), fmt.highest)
    return result, saturated, exact.denominator > 1, result != moved


def scaled_by_hand(total, scale, out):
    """(bits, invalid, overflow, underflow, inexact) by exact arithmetic."""
    if not np.isfinite(scale):
        special = "nan" if np.isnan(scale) or total == 0 else (scale > 0) == (total > 0)
        bits = {"nan": 0x7FC00000, True: 0x7F800000, False: 0xFF800000}[special]
        return narrowed(bits, out), special == "nan", False, False, False
    flags = [False, False, False]
    value = Fraction(total)
    for factor, fmt in ((1, FLOAT32), (Fraction(float(scale)), FLOAT32), (1, out)):
        exact = value if isinstance(value, str) else value * factor
        if isinstance(exact, str):
            continue
        exponent = max(floor_log2(abs(exact)), fmt.emin) if exact else fmt.emin
        unit = pow2(exponent - fmt.mantissa_bits)
        value = round(exact / unit) * unit
        lost = value != exact
        flags[1] |= lost and abs(value) < pow2(fmt.emin)
        flags[2] |= lost
        if abs(value) >= pow2(fmt.bias + 1):
            value, flags[0], flags[2] = ("inf" if exact > 0 else "-inf"), True, True
    with np.errstate(over="ignore"):
        bits = int(np.float32(float(value)).view(np.uint32))
    return narrowed(bits if value else 0, out), False, *flags


def narrowed(bits, out):
    """The bits in `out` of a float32 that it holds."""
    if out == FLOAT32 or out.name == "bfloat16":
        return bits >> (32 - out.bits)
    return int(np.uint32(bits).view(np.float32).astype(np.float16).view(np.uint16))


def scales_drawn(rng, out, n):
    """float32 of any kind: mostly such that sums of 18 bits meet the range of `out`."""
    exponent = rng.integers(out.emin - out.mantissa_bits - 20, out.emax - 14, n)
    scale = (rng.uniform(-2, 2, n) * 2.0**exponent).astype(np.float32)
    raw = rng.integers(0, 2**32, n, dtype=np.uint32).view(np.float32)
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, 1, 3], np.float32)
    kind = rng.random(n)
    return np.where(kind < 0.7, scale, np.where(kind < 0.8, raw, rng.choice(ends, n)))


def drawn(config, rng, n, blocks):
    """Operands and inputs over their whole ranges."""
    shape = (n, blocks, config.lanes)
    a, b = (rng.integers(0, 2**fmt.bits, shape, dtype=np.uint8) for fmt in config.formats[0])
    c = rng.integers(LOW, HIGH + 1, n) >> rng.integers(0, 32, n)
    c = np.where(rng.random(n) < 0.2, rng.choice([LOW, HIGH], n), c)
    inputs = {}
    if config.scale_bits:
        for name in ("scale_a", "scale_b"):
            inputs[name] = rng.integers(0, 2**config.scale_bits, shape[:2])
    for name, width in config.side_inputs.items():
        if name.startswith("zero_") and name != "zero_out":
            inputs[name] = rng.integers(-(2 ** (width - 1)), 2 ** (width - 1), shape[:2])
        elif name == "result_scale":
            inputs[name] = scales_drawn(rng, config.out.format, n)
        elif name == "zero_out":
            inputs[name] = rng.integers(config.out.format.lowest, config.out.format.highest + 1, n)
        else:
            inputs[name] = rng.integers(0, min(2**width, 63 if name == "shift" else 2**31), n)
    return a, b, c, inputs


@pytest.mark.parametrize(
    "options",
    [
        {"out": "int32"},
        {"out": "int32", "scales": "u8", "zero_points": "ab"},
        {"out": "int8_full:shift"},
        {"out": "int8_symmetric:multiply", "zero_points": "a"},
        {"out": "uint8:multiply", "zero_points": "b", "scales": "u4"},
        {"out": "int4_symmetric:shift", "scales": "u6"},
        {"out": "int4_full:multiply", "zero_points": "ab"},
    ],
    ids=str,
)
@pytest.mark.contract("U8", "I14", "I15", "I16", "I18", "I19")
def test_integers_by_hand(options):
    config = DotConfig("int8", lanes=4, accumulator="int32", **options)
    rng = np.random.default_rng(1)
    a, b, c, inputs = drawn(config, rng, 300, 3)
    trace = integer_dot(config, a, b, c, inputs=inputs)
    flags = trace.flags
    seen = set()
    for row in range(len(a)):
        want = by_hand(config, a, b, c, inputs, row)
        got = (trace.result[row], flags.saturated[row], flags.inexact[row], flags.overflow[row])
        assert got == want
        seen.add(want[1:])
    assert not flags.invalid.any()
    assert not flags.underflow.any()
    assert len(seen) > 1


@pytest.mark.parametrize(
    "options",
    [
        {"out": "float16:scale", "zero_points": "a"},
        {"out": "bfloat16:scale", "scales": "u3"},
        {"out": "float32:scale", "zero_points": "ab"},
    ],
    ids=str,
)
@pytest.mark.contract("I20", "I23", "I24", "I25")
def test_scaled_sums_by_hand(options):
    config = DotConfig("int8", lanes=4, accumulator="int32", **options)
    rng = np.random.default_rng(4)
    a, b, c, inputs = drawn(config, rng, len(some(range(100_000), 50)), 2)
    trace = integer_dot(config, a, b, c, inputs=inputs)
    assert isinstance(config.out, IntegerOutput)
    fmt, flags = config.out.format, trace.flags
    assert fmt is not None
    bits = trace.result.view(f"u{fmt.bits // 8}")
    seen = set()
    for row in range(len(a)):
        want = by_hand(config, a, b, c, inputs, row)
        got = (bits[row], flags.invalid[row], flags.overflow[row], flags.underflow[row])
        got += flags.inexact[row], flags.saturated[row]
        assert got == want, (
            f"{config}: c {c[row]}, scale {inputs['result_scale'][row]!r}, got "
            f"0x{bits[row]:x}, {got[1:]}, want 0x{want[0]:x}, {want[1:]}, row {row}"
        )
        seen.update(enumerate(want[1:]))
    # A float32 product of an integer is a multiple of the scale's last digit: none underflows.
    assert len(seen) == (9 if fmt == FLOAT32 else 10)


@pytest.mark.parametrize("scheme", ["int8_affine", "uint8_affine"])
@pytest.mark.parametrize("out", ["float16", "bfloat16", "float32"])
@pytest.mark.contract("I21")
def test_scaled_sums_are_products_of_schemes_in_a_narrower_float(scheme, out):
    rng = np.random.default_rng(5)
    x = rng.normal(0.5, 1, (6, 32)).astype(np.float32)
    y = rng.normal(0, 40, (5, 32)).astype(np.float32)
    a, b = schemes.quantize(x, scheme), schemes.quantize(y, "int8_channel")
    product = schemes.matmul(a, b, "int32")
    assert product.any()
    config = DotConfig("int8", 16, "int32", out=f"{out}:scale", zero_points="a")
    flip = 128 * (scheme == "uint8_affine")
    pairs = np.divmod(np.arange(30), 5)
    codes_a, codes_b = a.codes[pairs[0]] ^ np.uint8(flip), b.codes[pairs[1]]
    scale = np.broadcast_to(a.scales[0] * b.scales[0].T, (6, 5)).reshape(-1)  # S, a float32
    assert a.zero_points is not None
    zero = np.broadcast_to(a.zero_points.astype(int), (6, 1))[pairs[0]] - flip
    trace = integer_dot(
        config,
        codes_a.reshape(30, 2, 16),
        codes_b.reshape(30, 2, 16),
        inputs={"zero_a": zero, "result_scale": scale},
    )
    want = product.reshape(-1).astype(OUTPUTS[out].dtype)
    assert trace.result.dtype == want.dtype
    assert trace.result.tobytes() == want.tobytes()


@pytest.mark.contract("I14", "I19")
def test_sum_saturates_at_both_ends_and_comes_back():
    config = DotConfig("int8", lanes=4, accumulator="int32", out="int32")
    most = np.full((4, 2, 4), 0x7F, np.uint8)
    other = most.copy()
    other[:, 1] = 0x81  # -127
    other[2:, 0], other[2:, 1] = 0x81, 0x7F
    step = 4 * 127 * 127
    c = np.array([HIGH - step, HIGH - step + 1, LOW + step, LOW + step - 1])
    trace = integer_dot(config, most, other, c)
    assert trace.result.tolist() == [HIGH - step, HIGH - step, LOW + step, LOW + step]
    assert trace.flags.saturated.tolist() == [False, True, False, True]


@pytest.mark.contract("I17")
def test_unsigned_operands_are_signed_ones_with_their_top_bit_inverted():
    rng = np.random.default_rng(2)
    unsigned = rng.integers(0, 256, (50, 1, 8))
    zero = rng.integers(0, 256, (50, 1))
    weights = rng.integers(0, 256, (50, 1, 8), dtype=np.uint8)
    config = DotConfig("int8", lanes=8, accumulator="int32", out="int32", zero_points="a")
    got = integer_dot(
        config, (unsigned ^ 0x80).astype(np.uint8), weights, inputs={"zero_a": zero - 128}
    )
    want = ((unsigned - zero[..., None]) * weights.astype(np.int8).astype(int)).sum(axis=(1, 2))
    assert got.result.tolist() == want.tolist()


@pytest.mark.contract("I18")
def test_stages_lead_to_the_result():
    config = DotConfig("int8", 4, "int32", out="int32", zero_points="ab", scales="u4")
    a, b, c, inputs = drawn(config, np.random.default_rng(3), 20, 2)
    c >>= 6
    trace = integer_dot(config, a, b, c, inputs=inputs, stages=True)
    stages = trace.stages
    assert (stages["product"].sum(axis=2) == stages["integer_sum"]).all()
    assert (stages["addend"].sum(axis=1) + c == trace.result).all()
    assert (stages["accumulator"][:, -1] == trace.result).all()
    assert not integer_dot(config, a, b, c, inputs=inputs).stages


def test_each_zero_point_has_the_range_of_its_own_format():
    config = DotConfig("int8xint4", 4, "int32", out="int32", zero_points="ab")
    codes = np.zeros((1, 1, 4), np.uint8)
    for zero_a, zero_b in ((-128, -8), (127, 7)):
        inputs = {"zero_a": zero_a, "zero_b": zero_b}
        result = integer_dot(config, codes, codes, inputs=inputs).result
        assert result == 4 * zero_a * zero_b
    with pytest.raises(ValueError, match=r"^zero_b must be from -8 to 7, not 8$"):
        integer_dot(config, codes, codes, inputs={"zero_a": 0, "zero_b": 8})


SHIFT = DotConfig("int8", 4, "int32", out="int8_full:shift")
SCALED = DotConfig("int8", 4, "int32", out="float16:scale")
CODES = np.zeros((2, 1, 4), np.uint8)
ARRAY = quantize(np.zeros(4, np.float32), "int8", block_size=4)
GOOD = {"shift": 0, "zero_out": 0}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: DotConfig("int8", out="int32"),
            ValueError,
            "accumulator must be int32 for int32 results, not aligned:13",
        ),
        (
            lambda: DotConfig("int8,int4", accumulator="int32", out="int32"),
            ValueError,
            "formats must be one pair for int32 results, not int8 x int8, int4 x int4",
        ),
        (
            lambda: DotConfig("e4m3", accumulator="int32", out="int8_full:shift"),
            ValueError,
            "accumulator int32 takes integer formats only, not e4m3 x e4m3",
        ),
        (
            lambda: DotConfig("int8", accumulator="int32", out="int32", scales="e8m0"),
            ValueError,
            "scales of int32 results must be one of none, u2, u3, u4, u5, u6, u7, u8, not 'e8m0'",
        ),
        (
            lambda: DotConfig("int8", accumulator="int32", scales="u4"),
            ValueError,
            "scales of float32 results must be one of e8m0, e4m3, not 'u4'",
        ),
        (
            lambda: DotConfig("int8", zero_points="a"),
            ValueError,
            (
                "zero_points of float32 results must be none, not 'a'; float32:scale results, of "
                "int32, may have them"
            ),
        ),
        (
            lambda: DotConfig("int8", accumulator="int32", out="int32", zero_points="ba"),
            ValueError,
            "zero_points must be one of none, a, b, ab, not 'ba'",
        ),
        (
            lambda: integer_dot(SHIFT, CODES, CODES, inputs={"shift": 0}),
            ValueError,
            "inputs must be shift, zero_out, not shift",
        ),
        (
            lambda: integer_dot(SHIFT, CODES, CODES, inputs=GOOD | {"shift": 32}),
            ValueError,
            "shift must be from 0 to 31, not 32",
        ),
        (
            lambda: integer_dot(SHIFT, CODES, CODES, 2**31, inputs=GOOD),
            ValueError,
            "c must be from -2147483648 to 2147483647, not 2147483648",
        ),
        (
            lambda: integer_dot(SHIFT, CODES, CODES, [0, 0, 0], inputs=GOOD),
            ValueError,
            "c must broadcast to (2,), not (3,)",
        ),
        (
            lambda: integer_dot(SHIFT, CODES, CODES[:, :, :2], inputs=GOOD),
            ValueError,
            "b must be (n, blocks, 4), not (2, 1, 2)",
        ),
        (
            lambda: integer_dot(DotConfig(), CODES, CODES),
            ValueError,
            "out must be that of an INT32 sum, not float32",
        ),
        (
            lambda: integer_dot(SCALED, CODES, CODES),
            ValueError,
            "inputs must be result_scale, not nothing",
        ),
        (
            lambda: integer_dot(SCALED, CODES, CODES, inputs={"result_scale": 0.1}),
            ValueError,
            (
                "result_scale of dtype float64 must hold float32 values, not 0.1: "
                "astype(np.float32) rounds them"
            ),
        ),
        (
            lambda: DotConfig("int8", accumulator="int32", out="int8_full:scale"),
            ValueError,
            (
                "out must be one of float32, bfloat16, float16, int32, FORMAT:multiply[:BITS], "
                "FORMAT:shift, FLOAT:scale (FORMAT int8_full, int8_symmetric, uint8, int4_full, "
                "int4_symmetric), not 'int8_full:scale'"
            ),
        ),
        (
            lambda: SHIFT.dot(ARRAY, ARRAY),
            ValueError,
            "out must be a float to multiply MXArrays, not int8_full:shift",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("scale_a", 0, 15),
        ("scale_b", 0, 15),
        ("zero_a", -128, 127),
        ("zero_b", -128, 127),
        ("multiplier", 0, 2**31 - 1),
        ("shift", 0, 62),
        ("zero_out", 0, 255),
    ],
)
def test_ends_of_inputs(name, low, high):
    config = DotConfig("int8", 4, "int32", out="uint8:multiply", scales="u4", zero_points="ab")
    given = dict.fromkeys(("scale_a", "scale_b", *config.side_inputs), 0)
    for value in (low, high):
        integer_dot(config, CODES, CODES, inputs=given | {name: value})
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"^{name} must be from {low} to {high}, not {value}$"):
            integer_dot(config, CODES, CODES, inputs=given | {name: value})


def test_a_unit_without_c_takes_none():
    config = DotConfig("int8", 4, "int32", out="int32", load_c=False)
    with pytest.raises(ValueError, match=r"^c must be 0: this unit has no c input$"):
        integer_dot(config, CODES, CODES, 1)
    assert not integer_dot(config, CODES, CODES).result.any()


def test_names():
    config = DotConfig("int8", 8, "int32", out="uint8:multiply", scales="u4", zero_points="ab")
    text = f"int8 int32 x8 stages {config.stages} uint8:multiply scales u4 zero-points ab"
    assert str(config) == text
    assert DotConfig(**config.arguments) == config
    assert config.side_inputs == {
        "zero_a": 8,
        "zero_b": 8,
        "multiplier": 31,
        "shift": 6,
        "zero_out": 8,
    }
