"""Deliberately wrong models: the comparison with the oracle must catch each of them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cases import random_cases
from compare import difference, generator
from mxdot.model import rounding, specials
from mxdot.model.accumulators import fixed, fused
from mxdot.model.products import Products
from mxdot.model.trace import Recorder


def rne_for_rz(patch):
    patch.setattr(rounding, "toward_zero", lambda x, fraction_bits=23: rounding.nearest_even(x))


def zero_product_in_the_largest_exponent(patch):
    def units(products):
        formats = products.a.format, products.b.format
        return products.exponents + sum(fmt.mantissa_bits for fmt in formats)

    patch.setattr(Products, "unit_exponents", property(units))


def dropped_sticky_bit(patch):
    patch.setattr(rounding, "to_odd", lambda total, error: total)


def floor_for_truncation(patch):
    """The two's-complement error: a right shift without the correction of negative terms."""
    patch.setattr(np, "trunc", np.floor)


def special_c_forgotten(patch):
    patch.setattr(specials, "special_class", lambda c: np.zeros(c.shape, np.uint8))
    patch.setattr(fixed, "special_class", lambda c: np.zeros(c.shape, np.uint8))


def opposite_infinities_cancel(patch):
    def value(classes):
        result = specials_value(classes)
        both = specials.POSITIVE_INF | specials.NEGATIVE_INF
        return np.where(classes == both, np.float32(0), result)

    specials_value = specials.special_value
    patch.setattr(specials, "special_value", value)


def subnormal_c_by_its_own_exponent(patch):
    def largest(rule, c, step):
        running = SimpleNamespace(emin=fused.FLOAT32.lsb)
        wrong: Any = SimpleNamespace(running=running, least_exponent=None)
        return right(wrong, c, step)

    right = fused._largest_exponent
    patch.setattr(fused, "_largest_exponent", largest)


def zero_c_as_the_least_normal(patch):
    def largest(rule, c, step):
        return np.maximum(right(rule, c, step), fused.FLOAT32.emin)

    right = fused._largest_exponent
    patch.setattr(fused, "_largest_exponent", largest)


def underflow_flag_lost(patch):
    def rounded(self, exact, result, *others):
        before = self.underflow.copy()
        recorded(self, exact, result, *others)
        self.underflow[:] = before

    recorded = Recorder.rounded
    patch.setattr(Recorder, "rounded", rounded)


WRONG = [
    (rne_for_rz, "aligned:25", "e5m2"),  # in D, of more than 24 bits
    (rne_for_rz, "fused:25", "e4m3"),
    (rne_for_rz, "hopper", "e4m3"),
    (zero_product_in_the_largest_exponent, "aligned:13", "e4m3"),
    (zero_product_in_the_largest_exponent, "fused:13", "e5m2"),
    (zero_product_in_the_largest_exponent, "blackwell", "e4m3"),
    (dropped_sticky_bit, "exact", "e5m2"),
    (dropped_sticky_bit, "fused:64", "e4m3"),
    (floor_for_truncation, "aligned:13", "e4m3"),
    (floor_for_truncation, "hopper", "e4m3"),
    (floor_for_truncation, "fixed:48:-20", "e4m3"),
    (special_c_forgotten, "exact", "e4m3"),
    (special_c_forgotten, "fixed:48:-20", "e4m3"),
    (opposite_infinities_cancel, "float32", "e5m2"),
    (subnormal_c_by_its_own_exponent, "hopper", "e4m3"),
    (zero_c_as_the_least_normal, "fused:25", "e4m3"),
    (zero_c_as_the_least_normal, "hopper-promoted", "e5m2"),
    (underflow_flag_lost, "exact", "e4m3"),
]


def cases_for(fmt, n=12_000):
    return random_cases(generator("wrong models", fmt), (fmt, fmt), n, 2, 8)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # wrong arithmetic may overflow
@pytest.mark.parametrize(
    ("wrong", "accumulator", "fmt"), WRONG, ids=[f"{w.__name__}-{a}" for w, a, _ in WRONG]
)
def test_a_wrong_model_is_caught(wrong, accumulator, fmt, monkeypatch):
    """Compares part by part and stops at the first difference: the oracle is slow."""
    cases = cases_for(fmt)
    parts = (cases[first : first + 500] for first in range(0, len(cases), 500))
    with monkeypatch.context() as patch:
        wrong(patch)
        caught = any(difference(part, accumulator) is not None for part in parts)
    assert caught


def test_the_report(monkeypatch):
    cases = cases_for("e4m3", 2000)
    assert difference(cases, "hopper") is None
    with monkeypatch.context() as patch:
        rne_for_rz(patch)
        report = difference(cases, "hopper")
    assert report is not None
    for part in ("seed ", "accumulator hopper", "formats     e4m3 x e4m3", "c           0x",
                 "block 0  a ", "block 1  a ", "scale ", "model       0x", "oracle      0x",
                 "flags: ", "MXDOT_SEED=", "test_wrong_models.py::test_the_report"):  # fmt: skip
        assert part in report
