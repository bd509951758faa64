"""The evaluation reproduces known properties of accumulators."""

import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest

from mxdot.compare.accuracy import Accuracy, evaluate
from mxdot.compare.accuracy.bounds import terms_of
from mxdot.compare.accuracy.evaluation import Operands, measure, prepare, run
from mxdot.compare.accuracy.metrics import exact_sums
from mxdot.model import E4M3, E5M2, INT8, MXArray, accumulator, dot, quantize
from mxdot.util.data.sets import DATA_SETS, data_set


@pytest.mark.parametrize("pair", ["e4m3", "e5m2", "e2m1", "int8"])
@pytest.mark.parametrize("data", DATA_SETS)
def test_exact_has_no_error_in_a_block(pair, data):
    (got,) = evaluate("exact", pair, data, (32,), count=64)
    assert got.sqnr_accumulator_db == math.inf
    assert got.exact_fraction == 1
    assert (got.max_relative, got.mean_relative, got.ulp_max, got.ulp_mean, got.bias) == (0,) * 5
    assert got.bound_ok
    assert got.bound <= 2**-23
    # float32 holds the product to 150 dB; all that is left is the format's error.
    assert got.sqnr_total_db == pytest.approx(got.sqnr_format_db, abs=0.01)


def test_exact_rounds_once_per_block():
    for got in evaluate("exact", "e4m3", "normal", (256, 4096), count=64):
        blocks = got.length // 32
        assert got.max_relative > 0
        assert got.observed is not None
        assert got.bound is not None
        assert got.observed <= got.bound <= (blocks + 1) * 2**-24
        assert got.sqnr_accumulator_db > 120


# A bit more of F halves the grid, which is 6.02 dB. With larger F it also leaves fewer terms with
# digits below the grid (products have 6, 4 and 12 digits behind the unit), which gains more.
@pytest.mark.parametrize("pair", ["e4m3", "e5m2", "int8"])
@pytest.mark.parametrize("data", ["normal", "real"])
def test_six_db_per_bit(pair, data):
    bits = np.arange(2, 8)
    sqnr = [evaluate(f"aligned:{f}", pair, data, (1024,))[0].sqnr_accumulator_db for f in bits]
    assert 4.8 < np.polyfit(bits, sqnr, 1)[0] < 7
    assert (np.diff(sqnr) > 3).all()
    assert (np.diff(sqnr) < 9).all()


def test_every_bit_helps_until_float32_is_the_limit():
    sqnr = [
        evaluate(f"aligned:{f}", "e4m3", "normal", (1024,))[0].sqnr_accumulator_db
        for f in range(8, 26)
    ]
    floor = evaluate("exact", "e4m3", "normal", (1024,))[0].sqnr_accumulator_db
    assert (np.diff(sqnr[:10]) > 5).all()
    assert sqnr[-1] == pytest.approx(floor, abs=1)


def test_format_dominates_from_some_bit_on():
    totals = [evaluate(f"aligned:{f}", "e4m3", "normal", (1024,))[0] for f in (2, 4, 8, 12, 40)]
    assert totals[0].sqnr_total_db < totals[0].sqnr_format_db - 3
    for got in totals[2:]:
        assert got.sqnr_total_db == pytest.approx(got.sqnr_format_db, abs=0.1)
    assert totals[-1].sqnr_accumulator_db > 130


def test_more_bits_than_the_products_have_lose_nothing():
    # E4M3's products reach from 2^17 down to 2^-18; 64 bits below the largest hold them all.
    (got,) = evaluate("aligned:64", "e4m3", "normal", (32,))
    assert got.ulp_max <= 1  # D is truncated to float32
    (kulisch,) = evaluate("fixed:660:-320", "e4m3", "normal", (512,), count=16)
    assert kulisch.exact_fraction == 1
    assert kulisch.sqnr_accumulator_db == math.inf


def test_truncation_biases_sums_of_one_sign():
    hopper = {d: evaluate("hopper", "e4m3", d, (4096,))[0] for d in ("normal", "log-normal")}
    assert hopper["log-normal"].bias < -0.03
    assert hopper["log-normal"].bias_total < -0.03
    assert abs(hopper["normal"].bias) < 0.003
    (promoted,) = evaluate("hopper-promoted", "e4m3", "log-normal", (4096,))
    assert promoted.sqnr_accumulator_db > hopper["log-normal"].sqnr_accumulator_db + 20


def test_int32_is_exact_integer_arithmetic():
    exact, integer = (
        evaluate(r, "int8", "normal", (512,), count=32)[0] for r in ("exact", "int32")
    )
    assert replace(integer, accumulator="exact") == exact


def test_saturation_is_counted_and_not_held_against_the_bound():
    (got,) = evaluate("fixed:14:-6", "e4m3", "log-normal", (4096,))
    assert got.saturated == got.count
    assert got.bound_ok
    assert (got.observed, got.bound, got.bound_ratio) == (0, 0, 0)
    assert got.sqnr_accumulator_db < 10
    (wide,) = evaluate("fixed:40:-6", "e4m3", "log-normal", (4096,))
    assert wide.saturated == 0
    assert wide.sqnr_accumulator_db > 40


def test_overflow_is_counted():
    x = np.full((3, 32), 2.0**66, np.float32)
    x[0] = 1
    a = quantize(x, "e4m3")
    exact = exact_sums(terms_of(a, a).values.reshape(3, -1))
    got = measure(accumulator("float32"), Operands(a, a, exact, exact.high))
    assert got["overflow"] == 2
    assert got["bound_ok"]
    assert got["exact_fraction"] == 1  # infinity is the correctly rounded product
    assert got["max_relative"] == 0
    assert math.isfinite(got["max_relative_total"])


@pytest.mark.parametrize(
    "rule",
    [
        "exact",
        "aligned:9",
        "fused:9",
        "float32",
        "fixed:40:-12",
        "hopper",
        "hopper-promoted",
        "ada",
    ],
)
@pytest.mark.parametrize("lanes", [16, 32, 48, 256])
def test_stretches_change_no_bit(rule, lanes, monkeypatch):
    from mxdot.compare.accuracy import evaluation as module

    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 6, 1536)).astype(np.float32)
    a, b = (quantize(v, "e4m3", block_size=lanes) for v in (x, y))
    want = dot(a, b, rule)
    for chunk in (1, 6 * 300, 2**20):
        monkeypatch.setattr(module, "CHUNK", chunk)
        got, _ = run(accumulator(rule), a, b)
        np.testing.assert_array_equal(got, want)


def test_padding_of_lengths_that_lanes_do_not_divide():
    (got,) = evaluate("exact", "e4m3", "normal", (20,), lanes=32, count=8)
    assert got.length == 20
    assert got.exact_fraction == 1
    assert got.sqnr_total_db > 20


def test_references_are_kept_for_the_next_accumulator():
    evaluate("exact", "e4m3", "uniform", (64,), count=4, seed=77)
    before = prepare.cache_info().hits
    evaluate("hopper", "e4m3", "uniform", (64,), count=4, seed=77)
    assert prepare.cache_info().hits == before + 1


def test_references_are_not_kept_for_a_changed_file(tmp_path):
    path = tmp_path / "changing.npz"
    seen = []
    for value in (1.0, 1.1):
        rows = np.full((2, 32), value, np.float32)
        np.savez(path, u=rows, v=rows)
        os.utime(path, ns=(0, round(value * 1e9)))
        seen += evaluate("exact", "e4m3", str(path), (32,), count=2)
    assert [round(s.sqnr_format_db) if s.sqnr_format_db < 99 else 99 for s in seen] == [99, 27]


def test_same_seed_same_result():
    once = evaluate("hopper", (E5M2, E4M3), "student-t", (64, 96), count=16, seed=3)
    prepare.cache_clear()
    assert evaluate("hopper", "e5m2xe4m3", "student-t", (64, 96), count=16, seed=3) == once
    assert evaluate("hopper", "e5m2xe4m3", "student-t", (64,), count=16, seed=4) != once[:1]
    assert [o.formats for o in once] == ["e5m2xe4m3"] * 2


def test_plain_json_types_and_back():
    block, chain = evaluate("exact", "e4m3", "normal", (32, 1024), count=16)
    assert block.to_dict()["sqnr_accumulator_db"] is None
    for got in (block, chain):
        text = json.dumps(got.to_dict(), allow_nan=False)
        assert Accuracy.from_dict(json.loads(text)) == got
    with pytest.raises(TypeError):
        Accuracy.from_dict({"length": 3})
    with pytest.raises(TypeError):
        Accuracy.from_dict(chain.to_dict() | {"other": 1})


def test_scale_rule_reaches_the_quantiser():
    floor, ceil = (
        evaluate("exact", "e4m3", "uniform", (512,), scale_rule=r)[0] for r in ("floor", "ceil")
    )
    assert ceil.sqnr_format_db > floor.sqnr_format_db + 1  # floor saturates


def test_formats_in_order():
    operands = prepare((E4M3, INT8), data_set("normal"), 32, 32, 0, 2, "floor")
    assert (operands.a.format, operands.b.format) == (E4M3, INT8)
    assert isinstance(operands.a, MXArray)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "fast"}, "accumulator must be one of"),
        ({"rule": "int32"}, "accumulator int32 takes integer formats only"),
        ({"pair": "e4m3,e5m2"}, "pair must be one pair of formats, not 'e4m3,e5m2'"),
        ({"pair": "e9m9"}, "formats must be one of"),
        ({"data": "gauss"}, "data must be one of"),
        ({"lengths": (32, 0)}, "length must be from 1 to 16777216, not 0"),
        ({"lanes": 0}, "lanes must be from 1 to 65536, not 0"),
        ({"count": 0}, "count must be from 1 to 1048576, not 0"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"scale_rule": "up"}, "scale_rule must be one of"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(**({"rule": "exact", "pair": "e4m3"} | arguments))
