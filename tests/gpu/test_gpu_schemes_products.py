"""Products of every scheme on tensors have the bits of the model's, on every device."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compare import generator
from devices import on_devices, tensor
from mxdot.gpu import chunks, schemes
from mxdot.gpu.schemes import ScaledTensor, integer_sums, matmul, quantize
from mxdot.model import schemes as model
from mxdot.model.schemes import (
    E4M3,
    FLOAT16,
    FLOAT32,
    INT8_FULL,
    SCHEMES,
    TENSOR,
    IntegerFormat,
    Level,
    ScaledArray,
    Scheme,
    UnsignedFormat,
    block,
)
from scheme_cases import PAIRS, RULES, random_array, random_c, shrunk, size

KINDS = ("one", "ends", "any", "nan")


def check(a, b, text, c, device, lanes=128):
    """Arrays of the model, or floats for a, on `device`."""
    want = model.matmul(a, b, text, c, lanes=lanes)
    on_device = (
        tensor(a, device) if isinstance(a, np.ndarray) else ScaledTensor.from_model(a, device)
    )
    got = matmul(
        on_device, ScaledTensor.from_model(b, device), text, tensor(c, device), lanes=lanes
    )
    assert (got.dtype, got.device.type) == (torch.float32, device)
    left = a.dtype if isinstance(a, np.ndarray) else a.scheme
    np.testing.assert_array_equal(
        got.cpu().numpy().view(np.uint32), want.view(np.uint32), f"{left} x {b.scheme}, {text}"
    )


def is_integer(scheme):
    return all(isinstance(e, IntegerFormat) or e.is_integer for e in scheme.elements)


@on_devices
@pytest.mark.parametrize("names", [*((name, name) for name in SCHEMES), *PAIRS], ids="x".join)
def test_every_scheme_and_accumulator(names, device):
    rng = generator("gpu products", names)
    pair = [shrunk(SCHEMES[name]) for name in names]
    rows, columns = size(*pair)
    integer = all(map(is_integer, pair))
    for i, text in enumerate([*RULES, *RULES[:3], *(["int32"] * 4 if integer else [])]):
        kind = KINDS[i % 4]
        a, b = (random_array(rng, scheme, rows, columns, kind) for scheme in pair)
        c = random_c(rng, (rows, rows), kind)
        check(a, b, text, c, device, int(rng.choice([4, 6, 128])))


@on_devices
@pytest.mark.parametrize("text", ["exact", "aligned:13", "fused:25", "int32", "hopper-promoted"])
@pytest.mark.parametrize("names", [("int8_channel", "int4_g128"), ("nvfp4", "nvfp4")], ids="x".join)
def test_what_quantisation_makes(names, text, device, monkeypatch):
    """Real lengths, several tiles of the result, several regions."""
    if text == "int32" and "nvfp4" in names:
        text = "fused:13"
    monkeypatch.setitem(chunks.CHUNK, device, 2000)
    rng = generator("gpu quantised", names, text)
    x, w = (rng.standard_normal((n, 512)).astype(np.float32) for n in (20, 30))
    a, b = model.quantize(x, names[0]), model.quantize(w, names[1])
    check(a, b, text, np.zeros((20, 30), np.float32), device)
    got = matmul(quantize(tensor(x, device), names[0]), quantize(tensor(w, device), names[1]), text)
    np.testing.assert_array_equal(got.cpu().numpy(), model.matmul(a, b, text))


@on_devices
def test_three_levels_and_wide_scales(device):
    """Two inner levels, and significands of blocks that need the exact product of two float64."""
    rng = generator("gpu levels")
    outer = Level(TENSOR, FLOAT32)
    e8m0 = SCHEMES["mxfp4"].levels[0]
    wide = [
        Scheme("wide", (INT8_FULL,), (outer, Level(block(8), UnsignedFormat(16))), "a test"),
        Scheme("half", (INT8_FULL,), (outer, Level(block(4), FLOAT16)), "a test"),
        Scheme(
            "e5m2",
            SCHEMES["mxfp8_e5m2"].elements,
            (outer, Level(block(8), UnsignedFormat(16))),
            "a test",
        ),
        Scheme(
            "three",
            SCHEMES["nvfp4"].elements,
            (outer, Level(block(8), E4M3), Level(block(4), UnsignedFormat(2))),
            "a test",
        ),
        Scheme(
            "e8m0 twice",
            (INT8_FULL,),
            (replace(e8m0, granularity=block(8)), replace(e8m0, granularity=block(4))),
            "a test",
        ),
    ]
    for left in wide:
        for right in wide:
            for text in (
                "exact",
                "aligned:13",
                "fused:25",
                "float32",
                "fixed:60:-30",
                "fixed:200:-99",
            ):
                a, b = (random_array(rng, s, 3, 16, "one") for s in (left, right))
                check(a, b, text, random_c(rng, (3, 3), "one"), device)


@on_devices
@pytest.mark.parametrize("text", ["exact", "float32", "aligned:40", "fixed:64:0"])
def test_a_block_and_its_scale_may_need_more_than_53_bits(text, device):
    """(2^23 + 1)(2^15 + 1)^2 is odd and has 54 bits; the block before takes the leading ones."""
    levels = (Level(TENSOR, FLOAT32), Level(block(1024), UnsignedFormat(16)))
    scheme = Scheme("wide", (INT8_FULL,), levels, "a test")
    a, b = np.zeros((2, 1, 2048), np.int8)
    a[0, :518] = [-128] * 516 + [-127, -1]  # -(2^23 + 2^9 + 1), times 2^30
    b[0, :518] = [127] * 516 + [8, 9]
    a[0, 1024:1536] = b[0, 1024:1536] = -128
    a[0, 1536] = b[0, 1536] = 1
    scales = np.array([[2**15, 2**15 + 1]], np.uint16)
    one = np.ones((1, 1), np.float32)
    x, y = (
        ScaledTensor.from_model(
            ScaledArray(scheme, v.view(np.uint8), (one, scales), None, None, -1), device
        )
        for v in (a, b)
    )
    assert matmul(x, y, text, lanes=1024).item() == 2**23 + 2**16 + 1


@settings(max_examples=60)
@given(
    names=st.tuples(*[st.sampled_from(sorted(SCHEMES))] * 2),
    text=st.sampled_from(RULES),
    kind=st.sampled_from(KINDS),
    number=st.integers(0, 2**32 - 1),
    lanes=st.integers(1, 40),
)
def test_any_pair_of_schemes(names, text, kind, number, lanes):
    rng = np.random.default_rng(number)
    pair = [shrunk(SCHEMES[name]) for name in names]
    rows, columns = size(*pair)
    a, b = (random_array(rng, scheme, rows, columns, kind) for scheme in pair)
    check(a, b, text, random_c(rng, (rows, rows), kind), "cpu", lanes)


# Weight-only ------------------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["int4_g32", "int4_affine_g128", "int8_channel", "nvfp4", "mx9"])
def test_weight_only(name, dtype, device):
    rng = generator("gpu weight-only", name, np.dtype(dtype).name)
    scheme = shrunk(SCHEMES[name])
    for kind in KINDS:
        low, high = (-24, 12) if dtype == np.float16 else (-140, 127)
        spread = rng.integers(low, high, (5, 32)) if kind == "ends" else 0
        with np.errstate(over="ignore", under="ignore"):
            x = np.ldexp(rng.standard_normal((5, 32)), spread).astype(dtype)
        if kind == "nan":
            x[rng.random(x.shape) < 0.05] = np.inf
            x[2, 7] = np.nan
        b = random_array(rng, scheme, 6, 32, kind)
        for text in ("exact", "fused:25", "fused:3", "hopper-fp16", "hopper-promoted", "ada"):
            check(x, b, text, random_c(rng, (5, 6), kind), device, int(rng.choice([4, 6, 128])))


@on_devices
def test_an_exact_weight_only_product_rounds_once(device):
    """Terms from 2^-296 to 2^254: the largest cancel, and the least decides a tie."""
    scheme = Scheme("one", (INT8_FULL,), (Level(block(1), FLOAT32),), "a test")
    codes = np.ones((1, 5), np.uint8)
    for least, want in ((2.0**-148, 1 + 2.0**-23), (-(2.0**-148), 1.0)):
        scales = np.array([[2.0**127, 2.0**127, 1, 2.0**-24, 2.0**-148]], np.float32)
        x = np.array([[2.0**127, -(2.0**127), 1, 1, least]], np.float32)
        b = ScaledArray(scheme, codes, (scales,), None, None, -1)
        check(x, b, "exact", np.zeros((1, 1), np.float32), device)
        assert matmul(tensor(x, device), ScaledTensor.from_model(b, device), "exact").item() == want


# INT32 ------------------------------------------------------------------------------------------


def assert_same_sums(a, b, device, **options):
    want = model.integer_sums(a, b, **options)
    got = integer_sums(*(ScaledTensor.from_model(x, device) for x in (a, b)), **options)
    assert got.unit == want.unit
    for name in ("sums", "scales", "overflowed"):
        mine, its = getattr(got, name).cpu().numpy(), getattr(want, name)
        assert mine.dtype == its.dtype
        np.testing.assert_array_equal(mine, its, name)
    rescaled = got.rescale().cpu().numpy()
    np.testing.assert_array_equal(rescaled, want.rescale())
    c = random_c(generator("c of a row"), want.sums.shape[1:2], "one")
    rescaled = got.rescale(tensor(c, device)).cpu().numpy()
    np.testing.assert_array_equal(rescaled, want.rescale(c))
    return want


@on_devices
@pytest.mark.parametrize(
    "names",
    [
        ("int8_channel", "int8_tensor"),
        ("int8_affine", "uint8_affine"),
        ("int4_g32", "int8_channel"),
        ("int4_affine_g128", "int8_affine_channel"),
        ("vsquant4_u4", "int8_channel"),
        ("vsquant8_u6", "vsquant8_u6"),
    ],
    ids="x".join,
)
def test_integer_sums(names, device):
    rng = generator("gpu integer sums", names)
    for kind in ("one", "ends", "nan"):
        a, b = (random_array(rng, shrunk(SCHEMES[name]), 4, 32, kind) for name in names)
        assert_same_sums(a, b, device)
        a, b = (random_array(rng, SCHEMES[name], 4, 4096, kind) for name in names)
        assert_same_sums(a, b, device, overflow="wrap")


@on_devices
def test_sums_that_leave_int32(device):
    """Modulo 2^32 and flagged: at the last length that fits, and one term further."""
    rng = generator("gpu overflow")
    for length, overflows in ((33025, False), (33026, True)):
        codes = np.full((1, length), 0x7F, np.uint8)
        zero = np.full((1, 1), -128, np.int32)
        one = np.ones((1, 1), np.float32)
        x = ScaledArray(SCHEMES["int8_affine"], codes, (one,), zero, None, -1)
        assert assert_same_sums(x, x, device, overflow="wrap").overflowed.item() == overflows
    a, b = (random_array(rng, SCHEMES["vsquant8_u6"], 3, 4096, "ends") for _ in range(2))
    assert assert_same_sums(a, b, device, overflow="wrap").overflowed.any()


def wide_factors(largest):
    """Two arrays whose innermost scales, of 16 bits under others of 16, reach `largest`."""
    rng = generator("gpu wide factors", largest)
    inner = (Level(block(8), UnsignedFormat(16)), Level(block(4), UnsignedFormat(16)))
    scheme = Scheme("u16", (INT8_FULL,), (Level(TENSOR, FLOAT16), *inner), "a test")
    pair = []
    for most in largest:
        x = random_array(rng, scheme, 3, 40, "one")
        scales = (*x.scales[:2], np.minimum(x.scales[2], np.uint16(most)))
        pair.append(replace(x, scales=scales))
    return pair


@on_devices
@pytest.mark.parametrize("largest", [(16, 16), (512, 1), (1, 512)])
def test_products_of_factors_beyond_float64(largest, device):
    """Terms of up to 57 bits, the larger factor on either side."""
    left, right = wide_factors(largest)
    assert_same_sums(left, right, device, overflow="wrap")


def test_sums_beyond_64_bits_are_refused():
    pair = [ScaledTensor.from_model(x) for x in wide_factors((2**16 - 1, 2**16 - 1))]
    with pytest.raises(ValueError, match=r"^sums of a and b must fit 64 bits, not 40 terms of \["):
        integer_sums(*pair, overflow="wrap")


# torch.compile ----------------------------------------------------------------------------------


def test_a_compiled_function_calls_them_as_they_are():
    def layer(x, w):
        a, b = quantize(2 * x, "nvfp4"), quantize(w, "vsquant4_u4")
        sums = integer_sums(b, b).rescale()
        return matmul(a, b, "aligned:13") + 1, a.dequantize() - 1, 2 * sums

    rng = generator("gpu compiled")
    x, w = (tensor(rng.standard_normal((4, 64)).astype(np.float32), "cpu") for _ in range(2))
    compiled = torch.compile(layer, backend="aot_eager")
    for got, want in zip(compiled(x, w), layer(x, w), strict=True):
        assert torch.equal(got, want)


# Refusals ---------------------------------------------------------------------------------------

SMALL = torch.zeros(2, 128)


def with_parts(name, **entries):
    """SMALL in a scheme, every entry of some parts replaced."""
    x = quantize(SMALL, name)
    return replace(x, **{part: torch.full_like(getattr(x, part), e) for part, e in entries.items()})


BIG = torch.ones(1, 133145)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (
            ValueError,
            "overflow must be one of refuse, wrap, not 'clip'",
            lambda q: integer_sums(q, q, overflow="clip"),
        ),
        (
            TypeError,
            "a must be a ScaledTensor, not Tensor",
            lambda q: integer_sums(SMALL, q),  # type: ignore[arg-type]
        ),
        (
            TypeError,
            "b must be a ScaledTensor, not Tensor",
            lambda q: matmul(q, SMALL, "exact"),  # type: ignore[arg-type]
        ),
        (
            TypeError,
            "a must be a torch.Tensor, not ndarray",
            lambda q: matmul(SMALL.numpy(), q, "exact"),  # type: ignore[arg-type]
        ),
        (
            ValueError,
            "c must broadcast to shape (2, 2), not (3,)",
            lambda q: integer_sums(q, q).rescale(torch.zeros(3)),
        ),
        (
            TypeError,
            "c must be float32, float16, bfloat16 or float64, not int64",
            lambda q: integer_sums(q, q).rescale(torch.zeros(2, 2, dtype=torch.int64)),
        ),
        (
            ValueError,
            "lanes must be from 1 to 65536, not 0",
            lambda q: matmul(q, q, "exact", lanes=0),
        ),
        (
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (2, 128) and (2, 64)",
            lambda q: matmul(q, quantize(SMALL[:, :64], "int8_channel"), "exact"),
        ),
        (
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (128,) and (2, 128)",
            lambda q: matmul(SMALL[0], q, "exact"),
        ),
        (
            ValueError,
            "axis of a must be the last axis, not 0",
            lambda q: matmul(quantize(SMALL, "int8_channel", axis=0), q, "exact"),
        ),
        (
            ValueError,
            "c must broadcast to shape (2, 2), not (3,)",
            lambda q: matmul(q, q, "exact", torch.zeros(3)),
        ),
        (
            ValueError,
            "INT32 sums take integer elements, not e4m3 of fp8_e4m3_row",
            lambda q: matmul(quantize(SMALL, "fp8_e4m3_row"), q, "int32"),
        ),
        (
            ValueError,
            (
                "INT32 sums take float scales outermost and integer ones inside, not e8m0 per "
                "block 16, floor of mx9"
            ),
            lambda q: integer_sums(q, quantize(SMALL, "mx9")),
        ),
        (
            ValueError,
            (
                "K of an INT32 sum of int8_channel x int8_channel must be at most 133144, not "
                "133145: it could overflow"
            ),
            lambda q: matmul(quantize(BIG, "int8_channel"), quantize(BIG, "int8_channel"), "int32"),
        ),
        (
            ValueError,
            "accumulator of a weight-only product must be exact, fused:F or a preset, not int32",
            lambda q: matmul(SMALL, q, "int32"),
        ),
        (
            ValueError,
            "codes of int8_channel must stand for numbers of int8_symmetric, not be 0x80",
            lambda q: matmul(replace(q, codes=torch.full_like(q.codes, 128)), q, "exact"),
        ),
        (
            ValueError,
            "codes of int4_channel must stand for numbers of int4_symmetric, not be 0x10",
            lambda q: matmul(with_parts("int4_channel", codes=16), q, "exact"),
        ),
        (
            ValueError,
            "zero_points of int8_affine must be from -128 to 127, not 128",
            lambda q: integer_sums(with_parts("int8_affine", zero_points=128), q),
        ),
        (
            ValueError,
            "zero_points of uint8_affine must be from 0 to 255, not -1",
            lambda q: matmul(with_parts("uint8_affine", zero_points=-1), q, "exact"),
        ),
        (
            ValueError,
            "selectors of mixed4 must be from 0 to 1, not 2",
            lambda q: matmul(with_parts("mixed4", selectors=2), q, "exact"),
        ),
    ],
)
def test_refusals(error, message, call):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call(quantize(SMALL, "int8_channel"))


def test_every_name_is_public():
    assert all(hasattr(schemes, name) for name in schemes.__all__)
