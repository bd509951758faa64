"""The a priori bounds hold on random and adversarial operands, and are not idle."""

import numpy as np
import pytest

from cases import random_cases
from mxdot.compare.accuracy.bounds import bound, terms_of
from mxdot.compare.accuracy.evaluation import Operands, evaluate, measure, one_pair
from mxdot.compare.accuracy.metrics import exact_sums
from mxdot.model import MXArray, accumulator

FINITE = ("finite", "near one", "wide", "tiny", "largest", "sparse", "cancelling", "one large")
SCALES = ("unit", "moderate", "low end", "high end", "bottom", "top", "any")
PAIRS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "int8", "e5m2xe4m3", "int8xe5m2")
SHAPES = ((1, 32), (6, 32), (9, 4), (3, 5), (3, 48), (2, 128))  # blocks, elements of a block
RULES = (
    *("exact", "float32", "hopper", "hopper-promoted", "ada", "blackwell"),
    *("aligned:0", "aligned:6", "aligned:13", "aligned:25", "aligned:64"),
    *("fused:0", "fused:6", "fused:13", "fused:25", "fused:64"),
    *("fixed:24:0", "fixed:48:-20", "fixed:16:-4:wrap", "fixed:660:-320"),
)


def operands(pair, blocks, k, n=40, seed=0, scales=SCALES):
    rng = np.random.default_rng([seed, blocks, k])
    case = random_cases(
        rng, one_pair(pair), n, blocks, k, operands=FINITE, scales=scales, running=("zero",)
    )
    sums = exact_sums(terms_of(case.a, case.b).values.reshape(n, -1))
    return Operands(case.a, case.b, sums, sums.high)


@pytest.mark.parametrize("pair", PAIRS)
def test_bounds_hold(pair):
    rules = (*RULES, "int32") if pair == "int8" else RULES
    for blocks, k in SHAPES:
        given = operands(pair, blocks, k)
        for rule in rules:
            got = measure(accumulator(rule), given)
            assert got["bound_ok"], (rule, blocks, k, got)
            assert got["bound_ratio"] <= 1


@pytest.mark.parametrize("rule", RULES)
def test_bounds_are_reached(rule):
    # On random codes some error comes within a factor of four of what is allowed.
    given = operands("e5m2", 2, 16, 200, scales=("unit", "moderate"))
    assert 0.25 < measure(accumulator(rule), given)["bound_ratio"] <= 1


# A bound has to allow the worst case at every step: on long random data errors stay well below it.
@pytest.mark.parametrize("data", ["normal", "log-normal", "cancellation"])
@pytest.mark.parametrize("rule", ["aligned:10", "fused:13", "hopper-promoted", "fixed:40:-12"])
def test_bounds_are_not_vacuous(rule, data):
    short, long = evaluate(rule, "e4m3", data, (32, 4096), count=32)
    for got, least in ((short, 0.01), (long, 1e-4)):
        assert got.bound_ratio is not None
        assert least < got.bound_ratio <= 1


@pytest.mark.parametrize("rule", [r for r in RULES if r not in ("fixed:660:-320",)])
def test_too_small_a_bound_is_caught(rule):
    given = operands("e5m2", 2, 16, 200, scales=("unit", "moderate"))
    got = measure(accumulator(rule), given, lambda rule, terms: bound(rule, terms) / 4)
    assert got["bound_ok"] is False
    assert got["bound_ratio"] > 1


def test_bound_of_another_accumulator_is_caught():
    (got,) = evaluate(
        "aligned:8",
        "e4m3",
        lengths=(64,),
        count=32,
        error_bound=lambda rule, terms: bound(accumulator("aligned:12"), terms),
    )
    assert got.bound_ok is False


def one_product(codes_a, codes_b, scale, fmt="e4m3"):
    size = len(codes_a)
    scales = np.array([[scale]], np.uint8)
    one = np.array([[127]], np.uint8)
    a = MXArray(np.array([codes_a], np.uint8), scales, fmt, size)
    b = MXArray(np.array([codes_b], np.uint8), one, fmt, size)
    terms = terms_of(a, b)
    sums = exact_sums(terms.values.reshape(1, -1))
    return terms, Operands(a, b, sums, sums.high)


def test_aligned_by_hand():
    # 1 x 1 beside 9/8 x 9/8 x 2^-12: the second has digits from 2^-18 up, the grid is 2^-10.
    one, small = 0x38, 0x01
    terms, _ = one_product([one, small, 0, 0], [one, 0x39, 0, 0], 127)
    assert terms.values[0, 0, 1] == 2**-9 * 9 / 8
    rounding = 2.0**-24 * (1 + 2**-9 * 9 / 8)
    lost = 2.0**-10  # less than the term itself
    assert bound(accumulator("aligned:10"), terms)[0] == pytest.approx(lost + rounding, rel=1e-3)
    # No digit below the grid 2^-15: nothing is lost.
    assert bound(accumulator("aligned:15"), terms)[0] == pytest.approx(rounding, rel=1e-3)


def test_fixed_by_hand():
    terms, _ = one_product([0x38, 0x39, 0, 0], [0x38, 0x39, 0, 0], 127)  # 1 + 81/64
    rounding = 2.0**-24 * (1 + 81 / 64)
    assert bound(accumulator("fixed:32:-6"), terms)[0] == pytest.approx(rounding, rel=1e-3)
    assert bound(accumulator("fixed:32:-5"), terms)[0] == pytest.approx(2**-5, rel=1e-3)


@pytest.mark.parametrize(
    ("rule", "claim", "name"), [("fixed:16:-6", 1.0, "saturated"), ("exact", np.inf, "overflow")]
)
def test_saturation_or_overflow_without_need_is_caught(rule, claim, name, monkeypatch):
    from mxdot.compare.accuracy import evaluation as module

    _, given = one_product([0x38, 0, 0, 0], [0x38, 0, 0, 0], 127)
    assert measure(accumulator(rule), given)["bound_ok"]
    claims = np.array([claim], np.float32), np.array([name == "saturated"])
    monkeypatch.setattr(module, "run", lambda *_: claims)
    got = measure(accumulator(rule), given)
    assert got[name] == 1
    assert got["bound_ok"] is False


def test_saturation_and_overflow_that_had_to_be():
    _, given = one_product([0x7E, 0, 0, 0], [0x7E, 0, 0, 0], 127)  # 448^2
    got = measure(accumulator("fixed:16:-6"), given)
    assert (got["saturated"], got["bound_ok"], got["observed"]) == (1, True, 0)
    _, given = one_product([0x7E, 0, 0, 0], [0x7E, 0, 0, 0], 254)
    got = measure(accumulator("exact"), given)
    assert (got["overflow"], got["bound_ok"]) == (1, True)
