"""The machines and the running values of 16 bits: the model equals the rational oracle.

`MXDOT_FULL=1` takes 100,000 dot products for each machine and pair of formats; `MXDOT_SEED=n` draws
others.
"""

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from amd_facts import FACTS, cases_of
from cases import cases_of_each_class, random_cases
from compare import FULL, check, generator
from mxdot.compare.accuracy import evaluate
from mxdot.model import (
    MACHINES,
    PRESETS,
    MXArray,
    accumulator,
    dot,
    format_pairs,
    matmul,
    quantize,
    schemes,
)
from mxdot.model.accumulators import Fused
from mxdot.model.accumulators.machine import STATUSES
from mxdot.model.trace import FLAG_NAMES
from rational.dot import MACHINES as OTHERS
from rational.formats import Number, Status, floor_log2, pow2, round_float32, value

SHAPES = ((1, 4), (2, 4), (1, 8), (3, 3), (1, 16), (5, 1), (1, 32), (2, 32), (1, 48), (1, 64))
SHARES = (30, 16, 16, 10, 10, 6, 5, 3, 2, 2)
EACH = 100_000 if FULL else 60
NARROW = [
    f"{rule}{result}"
    for rule in ("", "aligned:13:", "aligned:0:", "fused:13:", "fused:25:", "fused:7:")
    for result in ("float16", "bfloat16")
]
PAIRS = [("e4m3", "e4m3"), ("e5m2", "e5m2"), ("int8", "int8"), ("fp16", "fp16"), ("bf16", "e2m1")]


def pairs_of(name):
    """The operands of a machine, and formats that only the contract gives it."""
    own = [(a.name, b.name) for text in MACHINES[name].operands for a, b in format_pairs(text)]
    if MACHINES[name].sums_groups:
        return own
    return [*own, *(pair for pair in [("bf16", "bf16"), ("e5m2", "int8")] if pair not in own)]


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        *((name, pair) for name in OTHERS for pair in pairs_of(name)),
        *((text, pair) for text in NARROW for pair in PAIRS),
    ],
    ids=str,
)
@pytest.mark.contract("M10", "M11", "M12", "M13", "M15", "M16", "M17", "M18", "M19", "M20")
def test_model_equals_rational(text, pair):
    rng = generator("machines", text, pair)
    for (blocks, k), share in zip(SHAPES, SHARES, strict=True):
        check(random_cases(rng, pair, -(-EACH * share // sum(SHARES)), blocks, k), text)


@pytest.mark.parametrize("text", [*OTHERS, "float16", "aligned:13:bfloat16", "fused:25:float16"])
def test_every_class_alone(text):
    pair = pairs_of(text)[0] if text in MACHINES else ("e5m2", "e5m2")
    rng = generator("machines class", text)
    count = 200 if FULL else 10
    for cases in cases_of_each_class(rng, pair, count, 2, 8):
        check(cases, text)


@pytest.mark.contract("M10")
def test_every_machine_has_an_oracle_and_says_where_it_is_from():
    assert {*OTHERS, *PRESETS} == set(MACHINES)
    for name, machine in MACHINES.items():
        assert name == machine.name == str(machine)
        assert accumulator(name) is machine
        assert machine.source
        assert machine.status in STATUSES
        assert pairs_of(name)
    assert [name for name, machine in MACHINES.items() if machine.block_scales] == [
        *("hopper-mx", "blackwell", "blackwell-mxf4nvf4", "rtx50", "rtx50-mxf4nvf4")
    ]


def product_of(text, fmt, xs, ys, c=0.0):
    """The dot product of values that the format holds, at scales of 1."""
    (a_format, b_format), *_ = format_pairs(fmt)
    a, b = (
        MXArray(f.encode(np.array([v])), np.full((1, 1), 127, np.uint8), f, len(v))
        for f, v in ((a_format, xs), (b_format, ys))
    )
    return dot(a, b, text, np.float32(c))[0]


@pytest.mark.contract("M11", "M13", "M24", "M25")
def test_the_least_exponent_of_an_h100():
    """Measured there: 2^-149 as a sum of parts of 2^-158 is kept, of 2^-165 it is not."""
    one = 2 - 2.0**-7
    fine = [one * 2.0**-75, 7 * 2.0**-82], [one * 2.0**-76, 73 * 2.0**-83]
    coarse = [7 * 2.0**-79, 2.0**-79], [73 * 2.0**-79, 2.0**-79]
    assert product_of("hopper-bf16", "bf16", *fine) == 0
    assert product_of("hopper-fp16", "bf16", *fine) == 2.0**-149
    assert product_of("hopper-bf16", "bf16", *coarse) == 2.0**-149
    # Into a float16: half of the last place, and what tells it from a tie.
    for small, kept in ((2.0**-23, True), (2.0**-24, False)):
        result = product_of("hopper-fp16-float16", "fp16", [2.0**-12, 2.0**-23], [2.0**-13, small])
        assert result == (2.0**-24 if kept else 0)


@pytest.mark.parametrize(("name", "facts"), FACTS.values(), ids=FACTS)
@pytest.mark.contract("M15", "M16", "M17", "M18", "M20", "M27", "M28", "M29")
def test_the_ends_of_rules(name, facts):
    """Results and flags in literal numbers, of the model and of the oracle."""
    cases = cases_of(name, facts, MACHINES[name].terms)
    trace = dot(cases.a, cases.b, name, cases.c, trace=True)
    for i, (a, b, c, want, flags) in enumerate(facts):
        np.testing.assert_equal(float(trace.result[i]), want, err_msg=f"{a} x {b} + {c}")
        raised = {flag for flag in FLAG_NAMES if getattr(trace.flags, flag)[i]}
        assert raised == flags | ({"invalid"} if np.isnan(want) else set()), (a, b, c)
    check(cases, name)


@pytest.mark.contract("M14")
def test_places_are_permuted():
    def seen(place):
        xs = np.zeros(32)
        xs[[0, 4, place]] = 2.0**15, -(2.0**15), 2.0**-16
        return product_of("hopper-mma", "e5m2", xs, np.ones(32)) != 0

    assert [place for place in range(32) if place not in (0, 4) and not seen(place)] == [
        place for place in range(32) if place % 4 < 2 and place not in (0, 4)
    ]


@pytest.mark.contract("R4", "M12")
def test_c_of_a_float16_is_rounded():
    for text in ("float16", "aligned:13:float16", "fused:13:float16", "volta-float16"):
        assert product_of(text, "fp16", [0.0], [0.0], 1 + 2.0**-11) == 1
        assert product_of(text, "fp16", [0.0], [0.0], 1 + 3 * 2.0**-11) == 1 + 2.0**-9
        assert product_of(text, "fp16", [0.0], [0.0], 65520.0) == np.inf


@pytest.mark.contract("M17", "M18", "M19", "M20")
def test_floors_of_cdna3():
    # A negative c far below the products takes one from the last place; of FP8 it is left out.
    assert product_of("cdna3-fp16", "fp16", [1.0], [1.0], -(2.0**-60)) == np.float32(1 - 2.0**-24)
    assert product_of("cdna3-fp8", "e5m2fnuz", [1.0], [1.0], -(2.0**-60)) == 1
    assert product_of("cdna3-fp16", "bf16", [2.0**100], [2.0**100]) == np.inf
    both = product_of("cdna3-fp16", "bf16", [2.0**100, -(2.0**100)], [2.0**100, 2.0**100])
    assert np.isnan(both)


@pytest.mark.contract("M16")
def test_cdna2_has_no_subnormal_numbers():
    assert product_of("cdna2-fp16", "fp16", [2.0**-15], [1.0]) == 0
    assert product_of("cdna2-bf16", "bf16", [2.0**-70], [2.0**-60]) == 0
    assert product_of("cdna1-bf16", "bf16", [2.0**-70], [2.0**-60]) == 2.0**-130
    assert product_of("cdna2-fp16", "fp16", [0.0], [1.0], 2.0**-127) == 0


@pytest.mark.parametrize("pair", ["int8", "int4", "int3xe3m2", "e5m2xint8"])
def test_integers_are_never_subnormal(pair):
    """Products of matrices equal single products, which equal the oracle's."""
    (pair,) = format_pairs(pair)
    cases = random_cases(generator("integers", pair), pair, 60, 2, 20)
    for text in ("cdna2-fp16", "cdna2-bf16"):
        check(cases, text)
        got = np.diagonal(matmul(cases.a, cases.b, text, cases.c[:, None]))
        want = dot(cases.a, cases.b, text, cases.c)
        assert got.copy().view(np.uint32).tolist() == want.view(np.uint32).tolist()


def test_a_code_book_is_flushed_element_by_element():
    scheme = schemes.SCHEMES["mixed4"]
    size = 32
    ones = np.full((1, size), 1, scheme.code_dtype)  # 0.5, subnormal, as E2M1; an integer 1 as INT4
    for selector, results in ((0, (size * 0.5, 0.0)), (1, (size * 1.0, size * 1.0))):
        a = schemes.ScaledArray(
            *(scheme, ones, (np.full((1, 1), 127, np.uint8),)),
            selectors=np.full((1, 1), selector, np.uint8),
        )
        b = schemes.quantize(np.ones((1, size), np.float32), "mxfp8_e4m3")
        for text, result in zip(("cdna1-fp16", "cdna2-fp16"), results, strict=True):
            assert schemes.matmul(a, b, text).item() == result


@pytest.mark.contract("M23")
def test_what_a_machine_does_not_take():
    with pytest.raises(
        ValueError, match="accumulator blackwell-mxf4nvf4 takes e2m1 only, not e4m3 x e4m3"
    ):
        product_of("blackwell-mxf4nvf4", "e4m3", [1.0], [1.0])


@pytest.mark.parametrize("name", MACHINES)
def test_machines_that_align_terms_take_floats(name):
    x, weights = np.ones((1, 32), np.float32), schemes.quantize(np.ones((1, 32)), "mxfp8_e4m3")
    if isinstance(MACHINES[name], Fused):
        assert matmul(x, weights, name) == 32
        return
    with pytest.raises(ValueError, match=f"exact, fused:F or a preset, not {name}$"):
        matmul(x, weights, name)


@pytest.mark.parametrize("name", ["volta", "ada-float16", "cdna3-fp8"])
def test_the_losses_of_the_documentation(name):
    """docs/machines.csv is what the model loses, of one set of data at the shorter length."""
    with (Path(__file__).parents[2] / "docs" / "machines.csv").open(encoding="utf-8") as file:
        rows = {row["machine"]: row for row in csv.DictReader(file)}
    assert list(rows) == list(MACHINES)
    (measured,) = evaluate(name, MACHINES[name].operands[0], "normal", (1024,), count=16)
    assert f"{measured.sqnr_accumulator_db:.0f}" == rows[name]["normal 1024"]


def one_scale(array, level):
    """The exact scales of an array's level, as fractions."""
    stored = array.scheme.levels[level].format.exact(array.level_scales[level])
    return [[Fraction(float(x)) for x in row] for row in np.atleast_2d(stored)]


@pytest.mark.contract("M21", "M22", "M23")
def test_c_sets_the_last_digit_of_grouped_sums():
    """-2^-20 counts beside c of 2^15, whose last digit is 2^-20, and not beside 2^16."""
    x = np.zeros(64, np.float32)
    x[0] = 2.0**-10
    a, b = quantize(x, "e2m1"), quantize(-x, "e2m1")
    for exponent in (13, 14, 15, 16, 17):
        c = np.float32(2.0**exponent)
        want = np.nextafter(c, np.float32(0)) if exponent <= 15 else c
        assert dot(a, b, "blackwell-mxf4nvf4", c=c) == want


@pytest.mark.contract("M21", "M22", "M23")
def test_groups_under_e4m3_scales():
    """NVFP4 by `mxf4nvf4`: both scales' significands multiply the exact sums of 16."""
    rng = generator("mxf4nvf4")
    x, y = (rng.standard_normal((6, 96)).astype(np.float32) * 2.0 ** rng.integers(-9, 9, (6, 96))
            for _ in range(2))  # fmt: skip
    a, b = (schemes.quantize(v, "nvfp4") for v in (x, y))
    got = matmul(a, b, "blackwell-mxf4nvf4")
    (outer_a,), (outer_b,) = one_scale(a, 0), one_scale(b, 0)
    scales_a, scales_b = one_scale(a, 1), one_scale(b, 1)
    status = Status()
    for i in range(6):
        for j in range(6):
            partial: Number = Fraction(0)
            for start, stop in ((0, 4), (4, 6)):  # of 64 elements, and what is left
                groups = []
                for g in range(start, stop):
                    places = range(16 * g, 16 * g + 16)
                    total = sum(
                        value("e2m1", int(a.codes[i, k])) * value("e2m1", int(b.codes[j, k]))
                        for k in places
                    )
                    pair = scales_a[i][g], scales_b[j][g]
                    unit = sum(max(floor_log2(scale), -6) for scale in pair)
                    groups.append((total * pair[0] * pair[1], unit))
                assert isinstance(partial, Fraction)
                exponents = [unit for _, unit in groups]
                if partial:
                    exponents.append(max(floor_log2(abs(partial)), -126))
                grid = pow2(max(exponents) - 35)
                units = sum(int(term / grid) for term in (partial, *(t for t, _ in groups)))
                partial = round_float32(units * grid, "toward_zero", status)
            s = round_float32(outer_a[0] * outer_b[0], "nearest_even", status)
            assert isinstance(s, Fraction)
            assert isinstance(partial, Fraction)
            want = round_float32(s * partial, "nearest_even", status)
            assert isinstance(want, Fraction)
            assert got[i, j] == float(want)
    left, right = (schemes.quantize(v, "mxfp8_e4m3") for v in (x, y))
    with pytest.raises(ValueError, match="takes e2m1 only, not e4m3 x e4m3"):
        matmul(left, right, "blackwell-mxf4nvf4")


def group_product(a, scales_a, scales_b, c=0.0):
    """By `blackwell-mxf4nvf4`: codes of a times 1, in blocks of 32 under E8M0 scales."""
    b = np.full(len(a), 2, np.uint8)  # 1 in E2M1
    x, y = (
        MXArray(np.array(codes, np.uint8), np.array(scales, np.uint8), "e2m1", 32)
        for codes, scales in ((a, scales_a), (b, scales_b))
    )
    return dot(x, y, "blackwell-mxf4nvf4", np.float32(c))


@pytest.mark.contract("M22")
def test_groups_of_zeros_do_not_count():
    zeros, one = [0] * 32, [2] + [0] * 31
    assert group_product(zeros + one, [127, 107], [127, 107]) == 2.0**-40
    cancels = [2, 10] + [0] * 30  # 1 - 1
    assert group_product(cancels + one, [127, 107], [127, 107]) == 0


@pytest.mark.contract("M17", "M26")
def test_sums_are_cut_after_they_are_normalised():
    a, b = [2.0**-12 * (1 + 2.0**-7)], [2.0**-13]
    assert product_of("cdna3-fp16", "bf16", a, b, -1.0) == np.uint32(0xBF7FFFFF).view(np.float32)
    x = MXArray(np.array([0x3C, *[0] * 31], np.uint8), np.array([52], np.uint8), "e5m2", 32)
    y = MXArray(np.array([0x18, *[0] * 31], np.uint8), np.array([52], np.uint8), "e5m2", 32)
    assert dot(x, y, "blackwell") == 0  # 2^-159, of a grid of 2^-158


@pytest.mark.contract("M16", "M20")
def test_overflow_meets_c():
    big = [2.0**100], [2.0**100]
    for name in ("cdna3-fp16", "cdna2-bf16"):
        assert np.isnan(product_of(name, "bf16", *big, -np.inf))
        assert product_of(name, "bf16", *big, np.inf) == np.inf
    for sign in (1, -1):  # the least product that overflows
        least = [sign * 2.0**64], [2.0**64]
        assert product_of("cdna3-fp16", "bf16", *least, -sign * 2.0**127) == sign * np.inf
