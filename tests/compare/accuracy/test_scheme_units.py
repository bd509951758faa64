"""Accuracy of units of a scheme's operands: results and references by other ways."""

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mxdot.compare.accuracy.scheme_units import evaluate_unit, is_known
from mxdot.model import DotConfig, schemes
from mxdot.model.requantize import FixedRescale, ShiftRescale, requantize
from mxdot.util.data.sets import data_set

COUNT, SEED = 24, 3


def operands(data, length, lanes=32):
    source = data_set(data)
    return source.draw(np.random.default_rng([SEED, source.stream, length]), COUNT, length, lanes)


def decibels(results, reference):
    error = results - reference
    return 10 * math.log10(float((reference**2).sum() / (error**2).sum()))


def measured(config, data, length):
    (accuracy,) = evaluate_unit(config, data, [length], seed=SEED, count=COUNT)
    return accuracy


def check(accuracy, results, exact, original):
    """Errors of results (float64) beside exact sums (Fractions) and the original products."""
    nearest = np.array([np.float32(float(s)) for s in exact], np.float64)
    high = np.array([float(s) for s in exact])
    own = decibels(results, nearest) if (results != nearest).any() else math.inf
    assert accuracy.sqnr_accumulator_db == pytest.approx(own)
    assert accuracy.sqnr_total_db == pytest.approx(decibels(results, original))
    assert accuracy.sqnr_format_db == pytest.approx(decibels(high, original))
    assert accuracy.exact_fraction == np.mean(results == nearest)
    assert accuracy.bound is accuracy.observed is accuracy.bound_ok is None


def integers_of(a, b, length):
    """Exact integer sums, and both rows' scales multiplied: in Python integers and Fractions."""
    sums, scales = [], []
    for row in range(COUNT):
        sides = []
        for side in (a, b):
            q = side.scheme.elements[0].values[side.codes[row]].astype(int).tolist()
            z = 0 if side.zero_points is None else int(side.zero_points[row, 0])
            inner = [1] * length
            if len(side.scales) > 1:
                inner = np.repeat(side.scales[1][row], length // side.scales[1].shape[1]).tolist()
            sides.append([(x - z) * s for x, s in zip(q, inner, strict=True)])
        sums.append(sum(x * y for x, y in zip(*sides, strict=True)))
        scales.append(Fraction(float(a.scales[0][row, 0])) * Fraction(float(b.scales[0][row, 0])))
    return sums, scales


ROWS = {"int8": schemes.INT8_SYMMETRIC, "int4": schemes.INT4_SYMMETRIC, "zero": schemes.INT8_FULL}


def rows_of(kind, x, scales=None):
    """x quantised by rows, written down here again."""
    levels = [schemes.Level(schemes.CHANNEL, schemes.FLOAT32)]
    if scales:
        levels.append(schemes.Level(schemes.block(32), schemes.UnsignedFormat(scales)))
    scheme = schemes.Scheme("rows", (ROWS[kind],), tuple(levels), "a test", kind == "zero")
    return schemes.quantize(x, scheme)


UNITS = {
    "plain": ({}, "int8", "int8", None),
    "int4 weights": ({"formats": "int8xint4"}, "int8", "int4", None),
    "zero point": ({"zero_points": "a"}, "zero", "int8", None),
    "both zero points": ({"zero_points": "ab"}, "zero", "zero", None),
    "scales": ({"scales": "u4"}, "int8", "int8", 4),
}


@pytest.mark.parametrize("out", ["int32", "int8_full:shift", "int8_full:multiply", "uint8:shift"])
@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("data", ["normal", "outliers"])
def test_integer_results(name, out, data):
    changes, left, right, scales = UNITS[name]
    base: dict[str, Any] = {"formats": "int8", "accumulator": "int32", "out": out}
    config = DotConfig(**(base | changes))
    x, y = operands(data, 96)
    a, b = rows_of(left, x, scales), rows_of(right, y, scales)
    sums, factors = integers_of(a, b, 96)
    exact = [s * f for s, f in zip(sums, factors, strict=True)]
    if out == "int32":
        results = [
            float(np.float32(np.float32(float(f)) * np.float32(s)))
            for s, f in zip(sums, factors, strict=True)
        ]
    else:
        fmt, _, how = out.partition(":")
        zero = 128 if fmt == "uint8" else 0
        if how == "shift":
            shift = next(n for n in range(32) if max(map(abs, sums)) / 2**n <= 127)
            codes = requantize(sums, ShiftRescale(shift), fmt, zero_point=zero)
            steps = [float(f) * 2.0**shift for f in factors]
        else:
            step = float(max(map(abs, exact))) / 127
            rescale = FixedRescale.of([float(f) / step for f in factors])
            codes = requantize(sums, rescale, fmt, zero_point=zero)
            steps = [step] * COUNT
        low, high = (codes - zero).min(), (codes - zero).max()
        assert max(-low, high) > 63  # nothing is clipped, and the finest scale is taken
        results = [float(np.float32(int(c - zero) * s)) for c, s in zip(codes, steps, strict=True)]
    original = np.einsum("ij,ij->i", x.astype(float), y.astype(float))
    accuracy = measured(config, data, 96)
    check(accuracy, np.array(results), exact, original)
    assert (accuracy.accumulator, accuracy.lanes, accuracy.scale_rule) == ("int32", 32, "amax")


def test_sums_beyond_int32_saturate(tmp_path):
    """Full INT8 with scales of 8 bits: 2^30 for a term."""
    file = tmp_path / "ones.npz"
    np.savez(file, a=np.ones((4, 64), np.float32), b=np.ones((4, 64), np.float32))
    config = DotConfig("int8", 4, "int32", out="int32", scales="u8")
    accuracy = measured(config, str(file), 64)
    assert accuracy.saturated == COUNT
    lost = 2**31 / (64 * (127 * 255) ** 2)
    assert accuracy.sqnr_accumulator_db == pytest.approx(-20 * math.log10(1 - lost), rel=1e-3)
    narrow = DotConfig("int8", 4, "int32", out="int32", scales="u2")
    assert measured(narrow, str(file), 64).saturated == 0


@pytest.mark.parametrize("rule", ["exact", "aligned:6", "hopper", "fixed:24:-10"])
@pytest.mark.parametrize("fmt", ["int8", "e4m3", "int8xint4"])
def test_micro_exponents(fmt, rule):
    """Beside the products of schemes that the model has for them."""
    config = DotConfig(fmt, 16, rule, micro=True)
    x, y = operands("normal", 64, 16)
    sides = []
    for value, element in zip((x, y), config.formats[0], strict=True):
        levels = schemes.SCHEMES["mx9"].levels
        scheme = schemes.Scheme("micro", (element,), levels, "a test")
        sides.append(schemes.quantize(value, scheme))
    a, b = sides
    results = np.diagonal(schemes.matmul(a, b, rule, lanes=16)).astype(np.float64)
    values = [side.dequantize().astype(float).tolist() for side in sides]
    exact = [
        sum(Fraction(p) * Fraction(q) for p, q in zip(*rows, strict=True))
        for rows in zip(*values, strict=True)
    ]
    original = np.einsum("ij,ij->i", x.astype(float), y.astype(float))
    check(measured(config, "normal", 64), results, exact, original)


@pytest.mark.parametrize("rule", ["exact", "aligned:6", "hopper"])
@pytest.mark.parametrize("fmt", ["e2m1", "e4m3"])
def test_e4m3_scales(fmt, rule):
    """Beside the products of schemes that are NVFP4 with a scale for each row."""
    config = DotConfig(fmt, 16, rule, scales="e4m3")
    x, y = operands("normal", 64, 16)
    levels = schemes.Level(schemes.CHANNEL, schemes.FLOAT32), schemes.SCHEMES["nvfp4"].levels[1]
    scheme = schemes.Scheme("rows", config.formats[0][:1], levels, "a test")
    a, b = schemes.quantize(x, scheme), schemes.quantize(y, scheme)
    results = np.diagonal(schemes.matmul(a, b, rule, lanes=16)).astype(np.float64)
    factors, outer = [], []
    for side in (a, b):
        elements = side.scheme.elements[0].values[side.codes]
        scales = schemes.E4M3.values[side.spread(side.scales[1], 1)]
        factors.append([[*map(Fraction, row)] for row in (elements * scales).tolist()])
        outer.append([*map(Fraction, side.scales[0][:, 0].astype(float).tolist())])
    exact = [
        s * t * sum(p * q for p, q in zip(*rows, strict=True))
        for s, t, *rows in zip(*outer, *factors, strict=True)
    ]
    original = np.einsum("ij,ij->i", x.astype(float), y.astype(float))
    check(measured(config, "normal", 64), results, exact, original)


def test_scales_of_parts_of_a_beat():
    """A block of 16 within 64 lanes gives the results of products cut at 16."""
    whole = measured(DotConfig("e2m1", 64, "fused:13", scale_block=16), "normal", 128)
    x, y = operands("normal", 128, 64)
    levels = (schemes.Level(schemes.block(16), schemes.E8M0, "floor"),)
    scheme = schemes.Scheme("blocks", DotConfig("e2m1").formats[0][:1], levels, "a test")
    a, b = schemes.quantize(x, scheme), schemes.quantize(y, scheme)
    results = np.diagonal(schemes.matmul(a, b, "fused:13", lanes=16)).astype(np.float64)
    original = np.einsum("ij,ij->i", x.astype(float), y.astype(float))
    assert whole.sqnr_total_db == pytest.approx(decibels(results, original))


def test_a_length_that_blocks_do_not_divide():
    """Zeros are added."""
    for config in (
        DotConfig("int8", accumulator="int32", out="int32", zero_points="ab"),
        DotConfig("int8", 16, "exact", micro=True),
    ):
        accuracy = measured(config, "normal", 50)
        assert accuracy.sqnr_format_db > 35
        assert accuracy.sqnr_accumulator_db > 120


def test_what_is_known():
    integers: dict[str, Any] = {"formats": "int8", "accumulator": "int32", "out": "int32"}
    both = DotConfig(**integers, zero_points="a", scales="u4")
    assert not is_known(both)
    assert not is_known(DotConfig("e4m3"))
    assert is_known(DotConfig(**integers, zero_points="a"))
    assert is_known(DotConfig(**integers, scales="u4"))
    assert is_known(DotConfig("e4m3", micro=True))
    assert is_known(DotConfig("e2m1", 16, scales="e4m3"))
    assert is_known(DotConfig("e2m1", 32, "hopper", scale_block=16))
    message = f"a unit must have micro-exponents, .* not be {re.escape(str(both))}"
    with pytest.raises(ValueError, match=f"^{message}$"):
        evaluate_unit(both)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"count": 0}, "count must be from 1 to 1048576, not 0"),
        ({"lengths": [0]}, "length must be from 1 to 16777216, not 0"),
        ({"data": "abnormal"}, "data must be one of normal, "),
    ]
    for options, message in refused:
        with pytest.raises(ValueError, match=f"^{message}"):
            evaluate_unit(DotConfig("e4m3", micro=True), **options)
