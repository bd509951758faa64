"""RISC-V's bulk normalisation by hand, and its text."""

import numpy as np
import pytest

from mxdot.model import BulkNormalized, DotConfig, MXArray, accumulator, dot, element_format


def product(fmt, a, b, text, c=0.0):
    """Bits of the product of codes, under scales of 1."""
    fmt, scales = element_format(fmt), np.full(1, 127, np.uint8)
    a, b = (MXArray(np.array(x, fmt.dtype), scales, fmt, len(x)) for x in (a, b))
    return int(dot(a, b, text, np.float32(c)).view(np.uint32))


def bits(x):
    return int(np.float32(x).view(np.uint32))


@pytest.mark.contract("A19")
def test_where_the_manual_contradicts_itself():
    assert product("e4m3", [0x0D, 0x60], [0x11, 0x58], "rvbna:2") == 0x4400000F
    zeros = [0] * 3
    assert product("bf16", [0x3905, *zeros], [0x0622, *zeros], "rvbna:4") == 0x002A1500


@pytest.mark.contract("A16", "A17")
def test_every_rounding_is_to_odd():
    one, half = 0x3F80, 0x3F00  # bfloat16
    # 2^-25 is one unit of 23 + 2 bits below 1; what is smaller becomes one.
    assert product("bf16", [one, 0x2B80], [one, half], "rvbna:2:2") == bits(1 + 2**-23)
    assert product("bf16", [one, 0], [one, 0], "rvbna:2:2") == bits(1)
    # c is 2^24: adding 1 sets the last bit, 2 is exact, and -1 leaves the odd number below.
    assert product("bf16", [one, 0], [one, 0], "rvbna:2", 2.0**24) == bits(2**24) + 1
    assert product("bf16", [one, one], [one, one], "rvbna:2", 2.0**24) == bits(2**24 + 2)
    assert product("bf16", [0xBF80, 0], [one, 0], "rvbna:2", 2.0**24) == bits(2**24) - 1
    assert product("bf16", [one, 0xBF80], [one, one], "rvbna:2", -0.0) == 0
    # Results of 2^128 and more are infinite, smaller ones the largest finite number.
    largest = 0x7F7F
    assert product("bf16", [largest, 0], [0x4000, 0], "rvbna:2") == bits(np.inf)
    top = float(np.finfo(np.float32).max)
    assert product("bf16", [0x2000, 0], [0xA000, 0], "rvbna:2", top) == bits(top)


@pytest.mark.contract("A18")
def test_text():
    assert accumulator("rvbna:8") == accumulator("rvbna:8:3") == BulkNormalized(8)
    assert str(accumulator("rvbna:8:3")) == "rvbna:8"
    assert str(accumulator("RVBNA:8:0")) == "rvbna:8:0"
    assert accumulator("rvbna:32").alignment_bits == 23 + 5
    for text, message in (
        ("rvbna:1", "N of rvbna must be from 2 to 1024, not 1"),
        ("rvbna:12", "N of rvbna must be a power of two, not 12"),
        ("rvbna:8:42", "G of rvbna must be from 0 to 41, not 42"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            accumulator(text)
    with pytest.raises(ValueError, match="lanes must be at most 8 with rvbna:8, not 16"):
        DotConfig("e4m3", 16, "rvbna:8")
