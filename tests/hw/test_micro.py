"""Micro-exponents in a unit: the same bits as products of the schemes that have them."""

import re

import numpy as np
import pytest

from mxdot.model import DotConfig, MXArray, dot, schemes
from mxdot.model.formats import IntegerFormat

RULES = (
    "exact",
    "aligned:6",
    "aligned:13",
    "fused:13",
    "fused:25",
    "fixed:48:-20",
    "fixed:24:-10:wrap",
    "fixed:200:-100",
    "float32",
    "int32",
    "hopper",
    "hopper-promoted",
    "blackwell",
)


LANES = {"mx9": "int8", "mx6": "int5", "mx4": "int3"}


def as_integers(x: schemes.ScaledArray) -> tuple[MXArray, np.ndarray]:
    """Blocks of integers and micro-exponents: sign and magnitude as two's complement."""
    outer, micro = x.scales
    (element,) = x.scheme.elements
    assert isinstance(element, IntegerFormat)
    codes = (element.integers[x.codes] & (2**element.bits - 1)).astype(np.uint8)
    return MXArray(codes, outer, LANES[x.scheme.name], 16), micro


@pytest.mark.parametrize("scheme", LANES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.contract("U2")
def test_micro_exponent_schemes_are_integers_with_micro_exponents(scheme, rule):
    rng = np.random.default_rng(1)
    scale = 2.0 ** rng.integers(-6, 7, (2, 60, 64))
    x, y = (rng.standard_normal((2, 60, 64)) * scale).astype(np.float32)
    a, b = schemes.quantize(x, scheme), schemes.quantize(y, scheme)
    want = np.diagonal(schemes.matmul(a, b, rule, lanes=16))
    (p, micro_p), (q, micro_q) = as_integers(a), as_integers(b)
    assert 0.1 < micro_p.mean() < 0.9
    got = DotConfig(LANES[scheme], 16, rule, micro=True).dot(p, q, micro=(micro_p, micro_q))
    assert got.result.view(np.uint32).tolist() == want.astype(np.float32).view(np.uint32).tolist()
    plain = dot(p, q, rule)
    assert (got.result != plain).any()


@pytest.mark.parametrize("rule", RULES)
def test_micro_exponents_of_nothing_change_nothing(rule):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 256, (2, 50, 32), dtype=np.uint8)
    scales = rng.integers(120, 135, (2, 50, 2), dtype=np.uint8)
    a, b = (MXArray(codes[i], scales[i], "int8", 16) for i in range(2))
    none = np.zeros((50, 16), np.uint8)
    got = dot(a, b, rule, micro=(none, none))
    assert got.view(np.uint32).tolist() == dot(a, b, rule).view(np.uint32).tolist()


@pytest.mark.parametrize("rule", ["exact", "fused:25", "float32"])
@pytest.mark.contract("T13", "U1")
def test_all_set_is_a_scale_of_a_quarter(rule):
    """True if no digit is cut that the quarter moves, and no exponent of c takes part."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 256, (2, 50, 16), dtype=np.uint8)
    one = np.full((50, 1), 127, np.uint8)
    a, b = (MXArray(codes[i], one, "int8", 16) for i in range(2))
    ones = np.ones((50, 8), np.uint8)
    got = dot(a, b, rule, micro=(ones, ones))
    assert (got * 4 == dot(a, b, rule)).all()


@pytest.mark.contract("T3", "T17", "U1")
def test_stages_tell_the_shifted_products():
    codes = np.array([[0x40, 0xC0, 0x00, 0x40]], np.uint8)  # 1, -1, 0, 1
    a = MXArray(codes, np.full((1, 1), 127, np.uint8), "int8", 4)
    trace = dot(a, a, "aligned:13", trace=True, micro=([[1, 0]], [[1, 1]]))
    assert trace.result.tolist() == [1 / 4 + 1 / 4 + 1 / 2]
    assert trace.stages["product_exponent"].tolist() == [[[-14, -14, -13, -13]]]
    assert trace.stages["unit_exponent"][0, 0, [0, 1, 3]].tolist() == [-2, -2, -1]
    assert trace.stages["largest_exponent"].tolist() == [[-1]]


A = MXArray(np.zeros((1, 8), np.uint8), np.full((1, 2), 127, np.uint8), "int8", 4)
BITS = np.zeros((1, 4), np.uint8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dot(A, A, "exact", micro=(BITS, BITS[:, :2])),
            "micro of b must be 0 or 1 of shape (1, 4), not uint8 (1, 2)",
        ),
        (
            lambda: dot(A, A, "exact", micro=(BITS + np.uint8(2), BITS)),
            "micro of a must be 0 or 1 of shape (1, 4), not uint8 (1, 4)",
        ),
        (
            lambda: DotConfig("int8", 4, "exact").dot(A, A, micro=(BITS, BITS)),
            "micro must be None: this unit has none",
        ),
        (
            lambda: DotConfig("int8", 4, "exact", micro=True).dot(A, A),
            "micro must be those of a and b",
        ),
        (
            lambda: DotConfig("int8", 4, "int32", out="int32", micro=True),
            "micro must be False for int32 results, not True",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()
