"""Products of every scheme on tensors have the bits of the model's, on every device."""

from dataclasses import replace
from itertools import product

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
from mxdot.model import FORMATS
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
from mxdot.model.schemes.table import mx
from scheme_cases import PAIRS, RULES, random_array, random_c, shrunk, size
from scheme_checks import assert_same

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
@pytest.mark.parametrize("fmt", ["e5m2fnuz", "fp16", "bf16", "tf32"])
def test_elements_of_other_units(fmt, device):
    """Under scales of blocks, and under a float for a tensor."""
    rng = generator("gpu products of elements", fmt)
    by_block = mx(FORMATS[fmt], 4, "ceil")
    whole = Scheme(fmt, (FORMATS[fmt],), (Level(TENSOR, FLOAT32),), "a test")
    for scheme, text in product((by_block, whole), RULES):
        a, b = (random_array(rng, scheme, 5, 16, kind) for kind in ("one", "nan"))
        check(a, b, text, random_c(rng, (5, 5), "one"), device)
    x = rng.standard_normal((4, 32)).astype(np.float32)
    got = quantize(tensor(x, device), by_block)
    assert_same(got.to_model(), model.quantize(x, by_block))


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


# torch.compile ----------------------------------------------------------------------------------


def test_a_compiled_function_calls_them_as_they_are():
    def layer(x, w):
        a, b = quantize(2 * x, "nvfp4"), quantize(w, "vsquant4_u4")
        sums = integer_sums(b, b).rescale()
        return matmul(a, b, "aligned:13") + 1, a.dequantize() - 1, 2 * sums

    rng = generator("gpu compiled")
    x, w = (tensor(rng.standard_normal((4, 64)).astype(np.float32), "cpu") for _ in range(2))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for got, want in zip(compiled(x, w), layer(x, w), strict=True):
        assert torch.equal(got, want)


def test_every_name_is_public():
    assert all(hasattr(schemes, name) for name in schemes.__all__)
