"""Dense packing of FP4 and FP6 codes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from mxdot.model import E2M1, E2M3, E3M2, FORMATS, pack, unpack
from mxdot.model.packing import pack_rows, unpack_rows


def codes(*values):
    return np.array(values, np.uint8)


@pytest.mark.contract("F8")
def test_fp4_element_0_in_the_low_nibble():
    pair = E2M1.encode(np.array([0.5, 1.0]))
    assert pack(pair, E2M1).tolist() == [0x21]
    assert E2M1.decode(unpack(codes(0x21), "e2m1")).tolist() == [0.5, 1.0]


@pytest.mark.parametrize("fmt", [E3M2, E2M3])
@pytest.mark.contract("F8")
def test_fp6_element_0_in_the_lowest_bits(fmt):
    # 0x3F is elements 000001.. by hand: e0 | e1 << 6 | e2 << 12 | e3 << 18, little-endian bytes.
    assert pack(codes(0x3F, 0, 0, 0), fmt).tolist() == [0x3F, 0x00, 0x00]
    assert pack(codes(0, 0x3F, 0, 0), fmt).tolist() == [0xC0, 0x0F, 0x00]
    assert pack(codes(0, 0, 0x3F, 0), fmt).tolist() == [0x00, 0xF0, 0x03]
    assert pack(codes(0, 0, 0, 0x3F), fmt).tolist() == [0x00, 0x00, 0xFC]
    assert pack(codes(0x01, 0x02, 0x03, 0x04), fmt).tolist() == [0x81, 0x30, 0x10]
    assert unpack(codes(0x81, 0x30, 0x10), fmt).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "int8"])
def test_bytes_pack_to_themselves(name):
    everything = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(pack(everything, name), everything)
    np.testing.assert_array_equal(unpack(everything, name), everything)


@given(data=st.data(), name=st.sampled_from(sorted(FORMATS)))
def test_round_trip(data, name):
    fmt = FORMATS[name]
    bits = fmt.bits
    groups = data.draw(npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    shape = (*groups[:-1], 8 * groups[-1])
    x = data.draw(npst.arrays(fmt.dtype, shape, elements=st.integers(0, 2**bits - 1)))
    packed = pack(x, name)
    assert packed.dtype == np.uint8
    assert packed.shape == (*shape[:-1], shape[-1] * bits // 8)
    unpacked = unpack(packed, name)
    assert unpacked.dtype == fmt.dtype
    np.testing.assert_array_equal(unpacked, x)


@given(data=st.binary(max_size=30), name=st.sampled_from(["e3m2", "e2m1"]))
def test_every_byte_pattern_round_trips(data, name):
    packed = np.frombuffer(data[: len(data) // 3 * 3], np.uint8)
    np.testing.assert_array_equal(pack(unpack(packed, name), name), packed)


def test_bits_follow_each_other():
    """The packed bytes as one little-endian number hold element i at bit i x width."""
    rng = np.random.default_rng(1)
    for fmt in (E2M1, E3M2, E2M3):
        x = rng.integers(0, 2**fmt.bits, 24, dtype=np.uint8)
        number = int.from_bytes(pack(x, fmt).tobytes(), "little")
        assert [(number >> (fmt.bits * i)) % 2**fmt.bits for i in range(24)] == x.tolist()


@pytest.mark.parametrize(("bits", "dtype"), [(3, np.uint8), (8, np.uint8), (9, np.int64)])
def test_rows_of_codes_as_wide_as_needed(bits, dtype):
    x = (np.arange(30).reshape(2, 15) % 2**bits).astype(dtype)
    back = unpack_rows(pack_rows(x, bits), bits, 15)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, x)


def test_refusals():
    with pytest.raises(
        ValueError,
        match=r"^codes of format e3m2 must have a last axis that is a multiple of 4 long to pack, "
        r"not shape \(2, 6\)$",
    ):
        pack(np.zeros((2, 6), np.uint8), "e3m2")
    with pytest.raises(ValueError, match=r"multiple of 2 long to pack, not shape \(\)$"):
        pack(np.uint8(1), "e2m1")
    with pytest.raises(
        ValueError,
        match=r"^packed e2m3 must have a last axis that is a multiple of 3 bytes long, "
        r"not shape \(4,\)$",
    ):
        unpack(np.zeros(4, np.uint8), "e2m3")
    with pytest.raises(ValueError, match=r"^codes of format e2m1 must be from 0 to 15, not 16$"):
        pack(codes(16, 0), "e2m1")
    with pytest.raises(TypeError, match=r"^packed must have dtype uint8, not int64$"):
        unpack(np.zeros(2, np.int64), "e2m1")
    with pytest.raises(TypeError, match=r"^codes must have dtype uint8, not float32$"):
        pack(np.zeros(2, np.float32), "e2m1")
    with pytest.raises(
        ValueError, match=r"^fmt must be one of e4m3, .*, not 'fp4'; a scheme of schemes"
    ):
        pack(codes(1, 0), "fp4")
