"""Refusals of schemes and their quantisation, with the whole message."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

from mxdot.model import E2M1, E5M2, MXArray
from mxdot.model.schemes import (
    CHANNEL,
    E1M0,
    E4M3,
    E8M0,
    FLOAT32,
    INT4_FULL,
    INT8_FULL,
    SCHEMES,
    TENSOR,
    UINT8,
    IntegerFormat,
    Level,
    ScaledArray,
    Scheme,
    UnsignedFormat,
    block,
    quantize,
    sign_magnitude,
)

FLOAT = Level(TENSOR, FLOAT32)
MX = Level(block(32), E8M0, "floor")
ONE = np.ones((1, 1), np.float32)


NO_ZERO_POINT = "zero_point must be False for"
NOT_NESTED = "levels of s must nest: no"
CHANNELS = Level(CHANNEL, FLOAT32)


@pytest.mark.parametrize(
    ("message", "arguments"),
    {
        f"{NO_ZERO_POINT} elements e4m3: only two's-complement and unsigned integers have one": (
            (E4M3,),
            (FLOAT,),
            True,
        ),
        f"{NO_ZERO_POINT} elements sm4: only two's-complement and unsigned integers have one": (
            (sign_magnitude(3),),
            (FLOAT,),
            True,
        ),
        f"{NO_ZERO_POINT} s: only one level of scales chosen by amax has one, not e8m0 per block "
        "32, floor": ((INT8_FULL,), (MX,), True),
        "unsigned elements of s must have a zero point": ((UINT8,), (FLOAT,), False),
        f"{NOT_NESTED} block 16 is made of whole groups of channel": (
            (E4M3,),
            (Level(block(16), FLOAT32), CHANNELS),
            False,
        ),
        f"{NOT_NESTED} block 24 is made of whole groups of block 16": (
            (E4M3,),
            (Level(block(24), FLOAT32), Level(block(16), E4M3)),
            False,
        ),
        "significands of s must have at most 53 bits together, not 54": (
            (E2M1,),
            (FLOAT, CHANNELS, Level(block(16), E4M3)),
            False,
        ),
        "elements of s must be one format: a code book has one level of scales and no zero point": (
            (E2M1, INT4_FULL),
            (FLOAT, Level(block(16), E4M3)),
            False,
        ),
        "elements of s must have equally many bits: e2m1 has 4, e5m2 has 8": (
            (E2M1, E5M2),
            (MX,),
            False,
        ),
    }.items(),
)
@pytest.mark.contract("S24", "T15")
def test_combinations(message, arguments):
    elements, levels, zero_point = arguments
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Scheme("s", elements, levels, "a test", zero_point)


def test_significands_of_53_bits_are_taken():
    Scheme("s", (E4M3,), (FLOAT, CHANNELS, MX), "a test")


@pytest.mark.parametrize(
    "wrong", [("e4m3",), (), INT4_FULL, [INT4_FULL], "e4m3", None], ids=lambda v: type(v).__name__
)
def test_elements_and_levels_are_tuples(wrong):
    message = f"elements of s must be a tuple of element formats, not {wrong!r}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        Scheme("s", wrong, (FLOAT,), "a test")
    message = f"levels of s must be a tuple of one Level or more, not {wrong!r}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        Scheme("s", (E4M3,), wrong, "a test")


@pytest.mark.contract("S1", "S2")
def test_levels():
    for fmt, rule, message in (
        (
            FLOAT32,
            "floor",
            "rule of float32 scales must be one of amax, amax256, four_over_six, not 'floor'",
        ),
        (
            E1M0,
            "amax",
            "rule of e1m0 scales must be one of floor, ceil, even, twice, even1, not 'amax'",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            Level(TENSOR, fmt, rule)
    with pytest.raises(TypeError, match=r"^granularity must be a Granularity, not 32$"):
        Level(32, FLOAT32)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^format must be a format of scales, not 'e8m0'$"):
        Level(TENSOR, "e8m0")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^columns must be at least 1, not 0$"):
        block(0)


def test_formats():
    for arguments, message in (
        (("i", 33, -1, 1), "bits of i must be from 1 to 32, not 33"),
        (("i", 4, -9, 7), "lowest of i must be from -8 to 0, not -9"),
        (("i", 4, -8, 8), "highest of i must be from 1 to 7, not 8"),
        (("i", 4, -8, 7, 0, True), "lowest of i must be from -7 to 0, not -8"),
        (("i", 4, -8, 7, 127), "fraction_bits of i must be from 0 to 126, not 127"),
        (
            ("i", 4, -6, 7, 0, False, True),
            "lowest of i must be at most -7, as it is symmetric, not -6",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            IntegerFormat(*arguments)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"^bits of an integer scale must be from 1 to 16, not 17$"
    ):
        UnsignedFormat(17)


def test_random_words():
    words = (
        r"^rng must be a numpy Generator or uint32 words of shape \(2, 32\) for stochastic "
        r"rounding, not int64 \(2, 32\)$"
    )
    x, wrong = np.ones((2, 32), np.float32), np.ones((2, 32), np.int64)
    with pytest.raises(ValueError, match=words):
        quantize(x, "mx9", rounding="stochastic", rng=wrong)  # type: ignore[arg-type]


def test_a_generator_draws_whole_words():
    x = np.random.default_rng(1).standard_normal((2, 32)).astype(np.float32)
    words = np.frombuffer(np.random.default_rng(5).bytes(4 * x.size), np.uint32).reshape(x.shape)
    drawn, given = (
        quantize(x, "mx9", rounding="stochastic", rng=rng)
        for rng in (np.random.default_rng(5), words)
    )
    np.testing.assert_array_equal(drawn.codes, given.codes)


def test_names_have_no_case_and_no_spaces_around():
    assert quantize(np.zeros((4, 32), np.float32), " NVFP4 ").scheme.name == "nvfp4"


WRONG_TYPES = {
    "scheme must be a Scheme, not 'nvfp4'": ("nvfp4", {"scheme": "nvfp4"}),
    "codes of nvfp4 must have dtype uint8, not int64": (
        "nvfp4",
        {"codes": np.zeros((4, 32), np.int64)},
    ),
    "scales of int8_tensor must be a tuple, not ndarray": ("int8_tensor", {"scales": ONE}),
    "scales[0] of int8_tensor must have dtype float32, not float64": (
        "int8_tensor",
        {"scales": (ONE.astype(np.float64),)},
    ),
    "zero_points of int8_affine must have dtype int32, not int64": (
        "int8_affine",
        {"zero_points": np.zeros((1, 1), np.int64)},
    ),
}
WRONG_VALUES = {
    "codes of nvfp4 must hold at least one value, not have shape (0, 32)": (
        "nvfp4",
        {"codes": np.zeros((0, 32), np.uint8)},
    ),
    "codes of nvfp4 must stand for numbers of e2m1, not be 0x10": (
        "nvfp4",
        {"codes": np.full((4, 32), 16, np.uint8)},
    ),
    "axis must be from -2 to 1, not 2": ("nvfp4", {"axis": 2}),
    "scales of nvfp4 must be one array for each level, 2, not 1": ("nvfp4", {"scales": (ONE,)}),
    "scales[0] of int8_tensor must have shape (1, 1), not (1,)": (
        "int8_tensor",
        {"scales": (ONE[0],)},
    ),
    "zero_points of int8_affine must be an array, not None": ("int8_affine", {"zero_points": None}),
    "selectors of mixed4 must have shape (4, 1), not (1, 4)": (
        "mixed4",
        {"selectors": np.zeros((1, 4), np.uint8)},
    ),
    "selectors of int8_tensor must be None, not ndarray": (
        "int8_tensor",
        {"selectors": np.zeros(1, np.uint8)},
    ),
}


@pytest.mark.parametrize("message", [*WRONG_TYPES, *WRONG_VALUES])
def test_parts_of_arrays(message):
    error = TypeError if message in WRONG_TYPES else ValueError
    name, arguments = (WRONG_TYPES | WRONG_VALUES)[message]
    array = quantize(np.ones((4, 32), np.float32), name)
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        replace(array, **arguments)


def test_parts_are_read_only_copies():
    codes, scale = np.zeros((4, 32), np.uint8), ONE.copy()
    array = ScaledArray(SCHEMES["int8_tensor"], codes, (scale,))
    codes[:], scale[:] = 1, 0
    assert (array.codes == 0).all()
    assert (array.scales[0] == 1).all()
    quantized = quantize(np.ones((4, 32), np.float32), "int8_tensor")
    mx = MXArray(codes, np.zeros((4, 1), np.uint8), "e4m3")
    for made in (array, quantized, pickle.loads(pickle.dumps(array)), mx):
        with pytest.raises(ValueError, match="read-only"):
            made.scales[0][0] = 2
    same = pickle.loads(pickle.dumps(mx))
    assert (same.format, same.block_size, same.scheme) == (mx.format, 32, mx.scheme)
    with pytest.raises(ValueError, match="read-only"):
        same.codes[0, 0] = 2
