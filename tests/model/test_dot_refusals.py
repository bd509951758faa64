"""Refusals of `dot` and `matmul`, with the whole message."""

import numpy as np
import pytest

from mxdot.model import MXArray, dot, matmul, quantize
from mxdot.model.formats import IntegerFormat


def mx(*shape, fmt="e4m3", k=32, axis=-1):
    scales = list(shape)
    scales[axis] //= k
    return MXArray(np.zeros(shape, np.uint8), np.full(scales, 127, np.uint8), fmt, k, axis)


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (TypeError, "a must be an MXArray, not ndarray", (np.zeros(32), mx(32), "exact")),
        (TypeError, "b must be an MXArray, not list", (mx(32), [1.0], "exact")),
        (
            ValueError,
            "a and b must have equal shapes, not (2, 32) and (3, 32)",
            (mx(2, 32), mx(3, 32), "exact"),
        ),
        (
            ValueError,
            "block_size of a and b must be equal, not 32 and 16",
            (mx(32), mx(32, k=16), "exact"),
        ),
        (
            ValueError,
            "axis of a must be the last axis, not 0",
            (mx(32, 32, axis=0), mx(32, 32), "exact"),
        ),
        (
            ValueError,
            "axis of b must be the last axis, not -2",
            (mx(32, 32), mx(32, 32, axis=-2), "exact"),
        ),
        (
            ValueError,
            "accumulator int32 takes integer formats only, not int8 x e4m3",
            (mx(32, fmt="int8"), mx(32), "int32"),
        ),
        (
            TypeError,
            "accumulator must be an Accumulator or its text, not None",
            (mx(32), mx(32), None),
        ),
        (
            TypeError,
            "c must be float32, float16, bfloat16 or float64, not int64",
            (mx(2, 32), mx(2, 32), "exact", [1, 2]),
        ),
        (
            ValueError,
            "c of dtype float64 must hold float32 values, not 0.1: astype(np.float32) rounds them",
            (mx(2, 32), mx(2, 32), "exact", [1.0, 0.1]),
        ),
        (
            ValueError,
            "c must broadcast to shape (2,), not (3,)",
            (mx(2, 32), mx(2, 32), "exact", np.zeros(3, np.float32)),
        ),
    ],
)
def test_dot(error, message, arguments):
    with pytest.raises(error) as refusal:
        dot(*arguments)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (2, 32) and (2, 64)",
            (mx(2, 32), mx(2, 64), "exact"),
        ),
        (
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (32,) and (2, 32)",
            (mx(32), mx(2, 32), "exact"),
        ),
        (
            ValueError,
            "c must broadcast to shape (2, 3), not (2, 2)",
            (mx(2, 32), mx(3, 32), "exact", np.zeros((2, 2), np.float32)),
        ),
        (
            TypeError,
            "b must be a ScaledArray, not NoneType: quantize makes one of floats",
            (mx(2, 32), None, "exact"),
        ),
    ],
)
def test_matmul(error, message, arguments):
    with pytest.raises(error) as refusal:
        matmul(*arguments)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (TypeError, "micro must be two arrays, of a and of b, not (1, 2, 3)", {"micro": (1, 2, 3)}),
        (TypeError, "micro must be two arrays, of a and of b, not 5", {"micro": 5}),
        (TypeError, "trace must be True or False, not 'no'", {"trace": "no"}),
        (TypeError, "stages must be True or False, not 1", {"stages": 1}),
    ],
)
def test_options_of_dot(error, message, options):
    with pytest.raises(error) as refusal:
        dot(mx(32), mx(32), "exact", **options)
    assert str(refusal.value) == message


def test_micro_exponents_of_odd_blocks():
    x, micro = quantize(np.ones(9, np.float32), "int8", block_size=3), np.zeros(4, np.int64)
    with pytest.raises(ValueError, match="block_size must be even for micro-exponents, not 3"):
        dot(x, x, "exact", micro=(micro, micro))


@pytest.mark.parametrize("rows", [2, 40])
@pytest.mark.contract("A8")
def test_integers_whose_sums_may_leave_int32(rows):
    wide = IntegerFormat("i16", 16, -32768, 32767, 14, symmetric=True)
    x = quantize(np.full((rows, 32), 1.99, np.float32), wide)
    for multiply in (dot, matmul):
        with pytest.raises(ValueError, match=r"^K of an INT32 sum of \w+ x \w+ must be at most 1,"):
            multiply(x, x, "int32")


def test_the_last_axis_by_its_positive_number():
    assert dot(mx(2, 32, axis=1), mx(2, 32), "exact").tolist() == [0, 0]
