"""Each status flag by directed cases, set and not set."""

import numpy as np
import pytest

from mxdot.model import FORMATS, MXArray, dot

LARGEST = float(np.finfo(np.float32).max)
INF, NAN = float("inf"), float("nan")


def flags(accumulator, blocks, c=0.0, fmt="e5m2"):
    """Flags of one dot product; blocks: (a values, b values, s) of equal length."""
    k = len(blocks[0][0])
    a, b = (FORMATS[fmt].encode(np.array([block[i] for block in blocks])) for i in (0, 1))
    halves = [(s // 2 + 127, s - s // 2 + 127) for _, _, s in blocks]
    scale_a, scale_b = np.array(halves, np.uint8).T
    got = dot(
        MXArray(a.reshape(-1), scale_a, fmt, k),
        MXArray(b.reshape(-1), scale_b, fmt, k),
        accumulator,
        np.float32(c),
        trace=True,
        stages=False,
    )
    return {name for name, flag in vars(got.flags).items() if flag}


def one(x, y=1.0, s=0):
    """A block of one product x y 2^s and a zero."""
    return ([x, 0.0], [y, 1.0], s)


FLOATING = ("exact", "aligned:13", "fused:25", "float32", "hopper", "blackwell", "hopper-promoted")
ALL = (*FLOATING, "fixed:48:-20", "fixed:90:-40")


@pytest.mark.parametrize("accumulator", ALL)
def test_nothing(accumulator):
    assert flags(accumulator, [one(1.5)]) == set()
    assert flags(accumulator, [one(0.0)]) == set()
    assert flags(accumulator, [one(1.0), one(-1.0)]) == set()
    assert flags(accumulator, [one(INF)]) == set()  # an Inf that comes in is no overflow
    assert flags(accumulator, [one(1.0)], c=-INF) == set()


@pytest.mark.parametrize("accumulator", ALL)
@pytest.mark.contract("G2")
def test_invalid(accumulator):
    assert flags(accumulator, [one(NAN)]) == {"invalid"}
    assert flags(accumulator, [one(INF, 0.0)]) == {"invalid"}
    assert flags(accumulator, [([INF, INF], [1.0, -1.0], 0)]) == {"invalid"}
    assert flags(accumulator, [one(INF), one(-INF)]) == {"invalid"}
    assert flags(accumulator, [one(INF)], c=-INF) == {"invalid"}
    assert flags(accumulator, [one(1.0)], c=NAN) == {"invalid"}
    assert flags(accumulator, [one(1.0, s=256)]) == {"invalid"}  # scale code 0xFF


@pytest.mark.parametrize("accumulator", FLOATING)
@pytest.mark.contract("P5", "G3")
def test_overflow(accumulator):
    high = [one(1.0, s=127)]
    assert flags(accumulator, high) == set()
    assert flags(accumulator, [one(2.0, s=127)]) == {"overflow", "inexact"}
    assert flags(accumulator, [one(-2.0, s=127)]) == {"overflow", "inexact"}
    assert flags(accumulator, high, c=2.0**127) == {"overflow", "inexact"}
    # Sticky, also where a later block makes a NaN of the infinity.
    assert flags(accumulator, [one(2.0, s=127), one(-INF)]) >= {"overflow", "inexact"}
    assert "overflow" in flags(accumulator, [one(2.0, s=127), one(1.0)])


@pytest.mark.contract("G3")
def test_overflow_by_rounding():
    half_ulp = one(1.0, s=103)
    assert flags("exact", [half_ulp], c=LARGEST) == {"overflow", "inexact"}
    assert flags("exact", [one(0.875, s=103)], c=LARGEST) == {"inexact"}
    assert flags("blackwell", [half_ulp], c=LARGEST) == {"inexact"}  # RZ does not reach 2^128
    assert flags("blackwell", [one(2.0, s=103)], c=LARGEST) == {"overflow", "inexact"}


@pytest.mark.contract("G3")
def test_overflow_of_a_register():
    """A register may hold more than float32 does."""
    assert flags("fixed:640:-286", [one(2.0, s=127)]) == {"overflow", "inexact"}
    assert flags("fixed:640:-286", [one(2.0, s=127), one(-2.0, s=127)]) == set()
    assert flags("fixed:48:200", [one(1.0, s=200)]) == {"overflow", "inexact"}
    assert flags("fixed:48:1023", [one(1.0)]) == {"inexact"}


@pytest.mark.parametrize("accumulator", ["exact", "fused:25", "float32", "fixed:640:-286"])
@pytest.mark.contract("G4")
def test_underflow(accumulator):
    assert flags(accumulator, [one(1.0, s=-149)]) == set()  # subnormal and exact
    assert flags(accumulator, [one(1.5, s=-149)]) == {"underflow", "inexact"}
    assert flags(accumulator, [one(1.0, s=-151)]) == {"underflow", "inexact"}  # to zero
    assert flags(accumulator, [one(1.0, s=-127)], c=2.0**-149) == set()
    assert flags(accumulator, [([1.0, 1.0], [1.0, 2.0**-16], -126)]) == set()
    rounded = [([1.0, 0.25], [1.0, 2.0**-16], -126), one(1.0, s=-150)]
    assert flags(accumulator, rounded) == {"inexact"}  # normal: no underflow


@pytest.mark.contract("G4")
def test_underflow_to_the_smallest_normal():
    """Tininess is that of the rounded result: RNE up to 2^-126 is inexact alone."""
    c = 2.0**-126 - 2.0**-149
    assert flags("exact", [one(0.5, s=-149)], c=c) == {"inexact"}
    assert flags("exact", [one(0.375, s=-149)], c=c) == {"underflow", "inexact"}


def test_hopper_truncates_a_subnormal_c():
    """Bits off the grid are no underflow: the sum on the grid is zero, and rounds exactly."""
    assert flags("hopper", [one(0.0)], c=2.0**-139) == set()
    assert flags("hopper", [one(0.0)], c=2.0**-140) == {"inexact"}


@pytest.mark.contract("G5")
def test_inexact():
    aligned = [([1.0, 2.0**-14], [1.0, 1.0], 0)]
    assert flags("aligned:14", aligned) == set()
    assert flags("aligned:13", aligned) == {"inexact"}
    assert flags("fused:14", aligned) == set()
    assert flags("fused:13", aligned) == {"inexact"}
    assert flags("exact", aligned) == set()
    # The lost bit counts although the sum does not show it.
    cancelled = [([2.0**-14, -1.0, 1.0], [1.0, 1.0, 1.0], 0)]
    assert flags("aligned:13", cancelled) == {"inexact"}
    assert flags("exact", [one(2.0**-16, 2.0**-8)], c=1.0) == {"inexact"}
    assert flags("exact", [one(2.0**-16, 2.0**-7)], c=1.0) == set()
    tree = [([1.0, 2.0**-16, -1.0], [1.0, 2.0**-8, 1.0], 0)]
    assert flags("exact", tree) == set()
    assert flags("float32", tree) == {"inexact"}
    # The result of `hopper` has 13 fraction bits.
    thirteen = [one(2.0**-13)]
    assert flags("hopper", thirteen, c=1.0) == set()
    assert flags("hopper", thirteen, c=2.0) == {"inexact"}


@pytest.mark.contract("A15", "G1")
def test_sticky_inexact_before_a_nan():
    blocks = [([1.0, 2.0**-14], [1.0, 1.0], 0), one(NAN)]
    assert flags("aligned:13", blocks) == {"inexact", "invalid"}
    assert flags("aligned:13", blocks[::-1]) == {"invalid"}  # no arithmetic after a NaN
    assert flags("aligned:13", blocks[:1], c=NAN) == {"invalid"}


@pytest.mark.parametrize("accumulator", ["fixed:8:0", "fixed:60:-52"])
@pytest.mark.parametrize("wrap", ["", ":wrap"])
@pytest.mark.contract("G6")
def test_saturated(accumulator, wrap):
    """Register values from -128 to just below 128, in float64 and in Python integers."""

    def saturates(blocks, c=0.0):
        return "saturated" in flags(accumulator + wrap, blocks, c)

    assert not saturates([one(64.0), one(56.0)])
    assert saturates([one(64.0), one(64.0)])
    assert not saturates([one(-64.0), one(-64.0)])
    assert saturates([one(-64.0), one(-80.0)])
    assert saturates([one(0.0)], c=128.0)
    assert not saturates([one(0.0)], c=-128.0)
    assert saturates([one(64.0), one(64.0), one(-64.0)])  # sticky
    assert not saturates([one(64.0), one(INF)])


@pytest.mark.parametrize("overflow", ["", ":wrap"])
@pytest.mark.parametrize("width", [30, 54])
@pytest.mark.contract("G6")
def test_one_digit_beyond_either_end_of_a_register(width, overflow):
    """The largest value, one more, the least value, one less; in float64 and in integers."""
    top = 2.0 ** (width - 21)
    x = [[32, -(2.0**-10)], [32, 0], [0, 0], [0, -(2.0**-10)]]
    y = [[32, 2.0**-10], [32, 0], [0, 0], [0, 2.0**-10]]
    codes = (FORMATS["e5m2"].encode(np.array(side)) for side in (x, y))
    a, b = (MXArray(side, np.full((4, 1), 127, np.uint8), "e5m2", 2) for side in codes)
    c = np.array([top - 1024, top - 1024, -top, -top], np.float32)
    made = dot(a, b, f"fixed:{width}:-20{overflow}", c, trace=True)
    assert made.flags.saturated.tolist() == [False, True, False, True]
    most, least = 2 ** (width - 1) - 1, -(2 ** (width - 1))
    want = [most, least, least, most] if overflow else [most, most, least, least]
    assert made.stages["accumulator"][:, -1].tolist() == want


@pytest.mark.contract("G5")
def test_a_register_is_inexact_below_its_last_bit():
    assert flags("fixed:8:0", [one(64.0), one(64.0)]) == {"saturated"}
    assert flags("fixed:8:0", [one(0.5)]) == {"inexact"}
    assert flags("fixed:8:0", [one(0.0)], c=1.5) == {"inexact"}
    assert flags("fixed:60:-20", [one(2.0**-10, 2.0**-11)]) == {"inexact"}
    assert flags("fixed:60:-20", [one(2.0**-10, 2.0**-10)]) == set()
