"""Quantisation and its inverse equal the model in every code and scale, on every device."""

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import philox
from compare import generator
from devices import BYTES, assert_same_blocks, bits, on_devices, tensor
from format_codes import boundaries
from mxdot import gpu, model
from mxdot.gpu import chunks
from mxdot.gpu.ops.quantize import seeded_words
from mxdot.gpu.tensors.formats import code_dtype
from mxdot.model import E8M0, FORMATS, MXArray
from quantize_cases import POLICIES, ROUNDINGS, RULES, edge_blocks, random_blocks, with_nonfinite

every_format = pytest.mark.parametrize("fmt", FORMATS)
every_byte = pytest.mark.parametrize("fmt", BYTES)
every_rule = pytest.mark.parametrize("rule", RULES)
every_rounding = pytest.mark.parametrize("rounding", ROUNDINGS)


def check(x, device, fmt, rng=None, **options):
    """An array quantised on `device` gives the model's blocks and the model's values."""
    want = model.quantize(x, fmt, rng=rng, **options)
    words = None if rng is None else tensor(rng, device)
    result = gpu.quantize(tensor(x, device), fmt, rng=words, **options)
    assert result.codes.device.type == result.scales.device.type == device
    assert_same_blocks(result, want)
    if device == "cuda":  # what was chosen may be a kernel: plain PyTorch is there too
        plain = gpu.quantize(tensor(x, device), fmt, rng=words, executor="torch", **options)
        assert_same_blocks(plain, want)
    np.testing.assert_array_equal(bits(result.dequantize().cpu().numpy()), bits(want.dequantize()))


@on_devices
@every_rounding
@every_rule
@every_format
def test_random_blocks(fmt, rule, rounding, device):
    rng = generator("gpu quantize", fmt, rule, rounding)
    for k, n in ((1, 600), (16, 120), (32, 80), (48, 40), (128, 20)):
        for policy in POLICIES:
            blocks = with_nonfinite(rng, random_blocks(rng, n, k))
            words = rng.integers(0, 2**32, blocks.shape, dtype=np.uint32)
            options = {"block_size": k, "scale_rule": rule, "nonfinite": policy}
            check(blocks, device, fmt, words, rounding=rounding, **options)


@on_devices
@every_rule
@every_format
def test_boundaries_of_amax(fmt, rule, device):
    blocks = edge_blocks(generator("gpu amax", fmt, rule), fmt)
    for rounding in ("nearest_even", "toward_zero"):
        check(blocks, device, fmt, block_size=4, scale_rule=rule, rounding=rounding)


@on_devices
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@every_format
def test_every_16_bit_float(fmt, dtype, device):
    """Alone, and beside a value that sets the scale."""
    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    beside = np.stack([every, np.full_like(every, 1.5), np.full_like(every, 3.0e-5)], axis=1)
    for policy in POLICIES:
        for rule in RULES:
            check(every, device, fmt, block_size=1, scale_rule=rule, nonfinite=policy)
        for rounding in ("nearest_even", "toward_zero"):
            check(beside, device, fmt, block_size=3, rounding=rounding, nonfinite=policy)


@on_devices
@every_byte
def test_every_code_under_every_scale(fmt, device):
    codes = np.tile(np.arange(1 << FORMATS[fmt].bits, dtype=np.uint8), (256, 1))
    scales = np.arange(256, dtype=np.uint8)[:, None]
    want = MXArray(codes, scales, fmt, codes.shape[1])
    result = gpu.MXTensor.from_model(want, device)
    np.testing.assert_array_equal(bits(result.dequantize().cpu().numpy()), bits(want.dequantize()))
    assert_same_blocks(result, want)


@on_devices
@pytest.mark.parametrize("fmt", [name for name in FORMATS if name not in BYTES])
def test_longer_codes_under_some_scales(fmt, device):
    """Every code; values that float32 rounds or has not at both ends of scales, and NaN."""
    codes = np.arange(1 << FORMATS[fmt].bits, dtype=FORMATS[fmt].dtype)
    for scale in (0, 1, 100, 126, 127, 128, 140, 254, 255):
        scales = np.full((len(codes) // 2**15, 1), scale, np.uint8)
        want = MXArray(codes.reshape(-1, 2**15), scales, fmt, 2**15)
        result = gpu.MXTensor.from_model(want, device).dequantize()
        np.testing.assert_array_equal(bits(result.cpu().numpy()), bits(want.dequantize()))


@on_devices
@every_byte
def test_every_value_comes_back(fmt, device):
    """A finite value that has a code, beside the largest: quantisation and back changes no bit."""
    f = FORMATS[fmt]
    values = f.values[np.isfinite(f.values) & (np.abs(f.values) <= f.largest_finite)]
    for exponent in range(E8M0.exponent_range[0], E8M0.exponent_range[1] - f.emax):
        x = np.ldexp(np.append(values, f.largest_finite), exponent).astype(np.float32)
        back = gpu.quantize(tensor(x, device), fmt, block_size=len(x)).dequantize()
        np.testing.assert_array_equal(back.cpu().numpy().view(np.uint32), x.view(np.uint32))


@on_devices
@every_rounding
@every_format
def test_encode_at_every_boundary(fmt, rounding, device):
    """Values, ties and their neighbours, zeros, infinities and NaN."""
    f = FORMATS[fmt]
    x = torch.tensor(np.append(boundaries(fmt), [0.0, np.inf, -np.inf]))
    if f.nan_code is not None:
        x = torch.cat([x, x.new_tensor([np.nan, -np.nan])])
    words = generator("gpu encode", fmt).integers(0, 2**32, len(x), dtype=np.uint32)
    words = words if rounding == "stochastic" else None
    want = f.encode(x.numpy(), rounding, words)
    moved = None if words is None else tensor(words, device)
    result = f.encode(x.to(device), rounding, moved)
    assert result.dtype == code_dtype(f)
    np.testing.assert_array_equal(result.cpu().numpy(), want)


@on_devices
@every_format
def test_decode_gives_every_value(fmt, device):
    f = FORMATS[fmt]
    result = f.exact(torch.arange(1 << f.bits, device=device).to(code_dtype(f)))
    np.testing.assert_array_equal(bits(result.double().cpu().numpy()), bits(f.values))


@on_devices
@every_format
def test_stochastic_words_at_their_ends(fmt, device):
    """Every value between two codes in 16 parts, with words that just do and do not carry."""
    f = FORMATS[fmt]
    grid = np.arange(16 * 40 + 1) * (f.smallest / 16)
    x = np.append(grid, f.largest_finite).astype(np.float32)
    fraction = (np.arange(len(x)) % 16).astype(np.uint64) << np.uint64(28)
    carries = np.uint64(2**32) - fraction
    for step in (np.uint64(0), np.uint64(1)):
        words = np.minimum(carries - step, np.uint64(2**32 - 1)).astype(np.uint32)
        check(x, device, fmt, words, block_size=len(x), rounding="stochastic")


@given(
    patterns=st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4),
    words=st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4),
    fmt=st.sampled_from(sorted(FORMATS)),
    rule=st.sampled_from(RULES),
    rounding=st.sampled_from(ROUNDINGS),
    policy=st.sampled_from(POLICIES),
)
def test_any_float32(patterns, words, fmt, rule, rounding, policy):
    x = np.array(patterns, np.uint32).view(np.float32)
    rng = np.array(words, np.uint32)
    options = {"scale_rule": rule, "rounding": rounding, "nonfinite": policy}
    check(x, "cpu", fmt, rng, block_size=4, **options)


# Shapes -----------------------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_every_axis(axis, device):
    x = generator("gpu axis").standard_normal((6, 12, 18)).astype(np.float32)
    check(x, device, "e4m3", block_size=6, axis=axis)
    check(x, device, "e2m1", block_size=5, axis=axis, pad=True)


@on_devices
@pytest.mark.parametrize("shape", [(0,), (0, 32), (32, 0), (3, 0, 64)])
def test_empty(shape, device):
    check(np.zeros(shape, np.float32), device, "e4m3")
    check(np.zeros(shape, np.float32), device, "e4m3", axis=0, pad=True)


@on_devices
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_zeros_are_appended_under_autocast_too(axis, device):
    x = torch.randn(6, 40, dtype=torch.bfloat16, device=device)
    want = gpu.quantize(x, "e4m3", axis=axis, pad=True)
    with torch.autocast(device, torch.float16):
        made = gpu.quantize(x, "e4m3", axis=axis, pad=True)
    assert torch.equal(made.codes, want.codes)
    assert torch.equal(made.scales, want.scales)


@on_devices
def test_strides(device):
    x = generator("gpu strides").standard_normal((64, 96)).astype(np.float32)
    views = {
        "transposed": (tensor(x, device).T, x.T),
        "every other": (tensor(x, device)[::2, ::3], x[::2, ::3]),
        "expanded": (tensor(x[:1], device).expand(8, 96), np.broadcast_to(x[:1], (8, 96))),
    }
    for name, (result, want) in views.items():
        q = gpu.quantize(result, "e4m3", block_size=16)
        assert q.codes.is_contiguous(), name
        assert_same_blocks(q, model.quantize(want, "e4m3", block_size=16))


@on_devices
def test_float64_that_is_float32(device):
    check(np.linspace(-3, 3, 64, dtype=np.float32).astype(np.float64), device, "e4m3")


@on_devices
def test_more_than_one_chunk(device, monkeypatch):
    monkeypatch.setitem(chunks.CHUNK, device, 100)
    x = generator("gpu chunks").standard_normal((37, 64)).astype(np.float32)
    words = generator("gpu words").integers(0, 2**32, x.shape, dtype=np.uint32)
    for axis, k in ((0, 37), (1, 16), (1, 64)):
        check(x, device, "e3m2", words, block_size=k, axis=axis, rounding="stochastic")


@pytest.mark.cuda
def test_more_than_2_31_elements():
    row = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    rows = 2**31 // len(row) + 1
    result = gpu.quantize(row.expand(rows, -1), "e4m3")
    want = gpu.quantize(row, "e4m3")
    assert bool((result.codes == want.codes).all())
    assert bool((result.scales == want.scales).all())


# A torch.Generator ------------------------------------------------------------------------------


@on_devices
def test_a_seed_repeats_and_another_does_not(device):
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(5)).to(device)

    def codes(seed):
        rng = torch.Generator(device).manual_seed(seed)
        return gpu.quantize(x, "e2m1", rounding="stochastic", rng=rng).codes

    assert torch.equal(codes(1), codes(1))
    assert not torch.equal(codes(1), codes(2))


@on_devices
def test_stochastic_rounding_is_right_on_average(device):
    x = torch.full((1, 2**16), 1.3, device=device)
    x[0, 0] = 6.0  # sets the scale to 1; 1.3 lies between 1 and 1.5
    rng = torch.Generator(device).manual_seed(1)
    y = gpu.quantize(x, "e2m1", block_size=2**16, rounding="stochastic", rng=rng).dequantize()
    assert set(y.unique().tolist()) == {1.0, 1.5, 6.0}
    assert abs(y[0, 1:].mean().item() - 1.3) < 5 * 0.25 / 2**8


def test_a_gradient_stops_here():
    x = torch.ones(32, requires_grad=True)
    assert not gpu.quantize(x, "e4m3").dequantize().requires_grad


def test_words_of_a_seed_are_those_of_philox():
    """Known answers of Random123 (kat_vectors), and an independent NumPy."""
    for counter, key, want in (
        ([0] * 4, [0] * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ):
        assert tuple(map(int, philox.philox(counter, key))) == want
    for seed, offset in ((0, 0), (2**63 - 1, 2**62 + 3), (5, 2**32 - 1)):
        pair = torch.tensor([seed, offset])
        made = seeded_words(pair, torch.Size((3, 7)))
        assert np.array_equal(made.numpy(), philox.words(seed, offset, (3, 7)))
    x = torch.randn(4, 64)
    codes = [
        gpu.quantize(x, "e2m1", rounding="stochastic", rng=rng).codes
        for rng in (pair, seeded_words(pair, x.shape))
    ]
    assert torch.equal(*codes)
