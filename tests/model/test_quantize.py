"""Quantisation equals the oracle: formats, scale rules, roundings, policies, block sizes."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compare import generator, repeat_command
from mxdot.model import FORMATS, quantize, unscaled
from quantize_cases import POLICIES, ROUNDINGS, RULES, edge_blocks, random_blocks, with_nonfinite
from rational import formats as rational_formats


def check(blocks, fmt, rule, rounding, policy, words=None):
    """Float32 blocks (n, k) give the oracle's scales and codes."""
    x = quantize(
        blocks,
        fmt,
        block_size=blocks.shape[1],
        scale_rule=rule,
        rounding=rounding,
        nonfinite=policy,
        rng=words,
    )
    assert (x.codes.shape, x.codes.dtype) == (blocks.shape, FORMATS[fmt].dtype)
    assert (x.scales.shape, x.scales.dtype) == ((len(blocks), 1), np.uint8)
    rows = [None] * len(blocks) if words is None else words.tolist()
    for i, (bits, row) in enumerate(zip(blocks.view(np.uint32).tolist(), rows, strict=True)):
        want = rational_formats.quantize_block(bits, fmt, rule, rounding, policy, row)
        got = int(x.scales[i, 0]), x.codes[i].tolist()
        assert got == want, (
            f"\nformat {fmt} rule {rule} rounding {rounding} policy {policy}"
            f"\nvalues {' '.join(f'{b:08x}' for b in bits)}"
            f"\nwords  {row}"
            f"\ngot    scale {got[0]:02x} codes {' '.join(f'{code:02x}' for code in got[1])}"
            f"\nwant   scale {want[0]:02x} codes {bytes(want[1]).hex(' ')}"
            f"\nrepeat {repeat_command()}"
        )


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.contract("Q1")
def test_random_blocks(fmt, rule, rounding):
    rng = generator("quantize", fmt, rule, rounding)
    for k, n in ((1, 60), (16, 12), (32, 8), (48, 4), (128, 2)):
        for policy in POLICIES:
            blocks = with_nonfinite(rng, random_blocks(rng, n, k))
            words = rng.integers(0, 2**32, blocks.shape, dtype=np.uint32)
            check(blocks, fmt, rule, rounding, policy, words if rounding == "stochastic" else None)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.contract("Q2", "Q3", "Q4", "Q5", "Q13")
def test_boundaries_of_amax(fmt, rule):
    blocks = edge_blocks(generator("amax", fmt, rule), fmt)
    for rounding in ("nearest_even", "toward_zero"):
        check(blocks, fmt, rule, rounding, "poison")


@given(
    bits=st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4),
    fmt=st.sampled_from(sorted(FORMATS)),
    rule=st.sampled_from(RULES),
    policy=st.sampled_from(POLICIES),
)
@pytest.mark.contract("Q2")
def test_any_float32(bits, fmt, rule, policy):
    blocks = np.array([bits], np.uint32).view(np.float32)
    check(blocks, fmt, rule, "nearest_even", policy)


# Elements alone ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dtype"), [("fp16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_unscaled_elements_are_the_casts_of_numpy(name, dtype):
    x = np.random.default_rng(4).standard_normal((3, 50)).astype(np.float32)
    got = unscaled(x, name, block_size=8, pad=True)
    assert (got.codes.shape, got.padding) == ((3, 56), 6)
    assert (got.scales == 127).all()
    np.testing.assert_array_equal(got.codes[:, :50], x.astype(dtype).view(np.uint16))
    np.testing.assert_array_equal(got.dequantize()[:, :50], x.astype(dtype).astype(np.float32))


def test_unscaled_keeps_what_the_format_has():
    x = np.array([np.nan, np.inf, -np.inf, 1e6], np.float32)
    assert unscaled(x, "fp16", block_size=4).codes.tolist() == [0x7E00, 0x7C00, 0xFC00, 0x7BFF]
    with pytest.raises(ValueError, match="values must hold no NaN: format e2m1 has none"):
        unscaled(x, "e2m1", block_size=4)
    with pytest.raises(ValueError, match="block_size must be from 1 to 65536, not 0"):
        unscaled(x, "fp16", block_size=0)


def test_stochastic_by_generator_is_by_words():
    x = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float32)
    words = np.random.default_rng(7).integers(0, 2**32, x.shape, dtype=np.uint32)
    by_generator = quantize(x, "e4m3", rounding="stochastic", rng=np.random.default_rng(7))
    by_words = quantize(x, "e4m3", rounding="stochastic", rng=words)
    np.testing.assert_array_equal(by_generator.codes, by_words.codes)
