"""Matrix products equal the model in every bit: every accumulator, on every device."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cases import random_cases
from compare import generator
from devices import on_devices, tensor
from gpu_products import PAIRS, check, check_cases, takes
from mxdot import gpu, model
from mxdot.gpu import MXTensor, chunks
from mxdot.model import FORMATS, MX_FORMATS, PRESETS, Fixed, MXArray, Preset
from mxdot.model.outputs import OUTPUTS, convert

ACCUMULATORS = [
    "exact",
    *("aligned:0", "aligned:13", "aligned:25", "aligned:50", "aligned:64"),
    *("fused:0", "fused:13", "fused:25", "fused:51", "fused:64"),
    *("rvbna:4", "rvbna:32:0", "rvbna:8:41"),
    "float32",
    "int32",
    *PRESETS,
    # registers in a float64, in limbs, at the seam, and at both ends of W and L
    *("fixed:16:-8", "fixed:16:-8:wrap", "fixed:48:-20", "fixed:48:-20:wrap", "fixed:51:-30"),
    *("fixed:52:-30:wrap", "fixed:32:0:wrap", "fixed:33:0", "fixed:64:-30", "fixed:64:-40:wrap"),
    *("fixed:96:-20", "fixed:640:-320", "fixed:640:-300:wrap", "fixed:1024:-512:wrap"),
    *("fixed:2:-1024", "fixed:2:1023", "fixed:1024:-1024", "fixed:1024:1023"),
]
# elements of other units than those of MX
OTHER_PAIRS = [
    *(("fp16", "fp16"), ("bf16", "bf16"), ("tf32", "bf16"), ("fp16", "int4")),
    *(("e4m3fnuz", "e5m2fnuz"), ("e5m2fnuz", "e5m2fnuz"), ("tf32", "e4m3fnuz")),
]
FNUZ_PAIRS = [("e4m3fnuz", "e4m3fnuz"), ("e4m3fnuz", "e5m2fnuz"), ("e5m2", "e5m2fnuz")]
SHAPES = [(32, 3), (1, 4), (4, 2), (33, 2), (48, 3), (128, 2)]  # block size, blocks


@on_devices
@pytest.mark.parametrize("accumulator", ACCUMULATORS)
@pytest.mark.contract("C1")
def test_random_products(accumulator, device):
    rng = generator("gpu matmul", accumulator)
    for pair, (k, blocks) in product(PAIRS, SHAPES[:2]):
        if takes(accumulator, *pair):
            check_cases(random_cases(rng, pair, 24, blocks, k), accumulator, device)


@on_devices
@pytest.mark.parametrize("accumulator", [name for name in ACCUMULATORS if name != "int32"])
@pytest.mark.contract("A13", "A14")
def test_random_products_of_other_elements(accumulator, device):
    rng = generator("gpu matmul", accumulator, "other")
    for pair in OTHER_PAIRS:
        check_cases(random_cases(rng, pair, 8, 2, 32), accumulator, device)
        check_cases(random_cases(rng, pair, 8, 2, 7), accumulator, device)


@on_devices
@pytest.mark.parametrize("shape", SHAPES[2:], ids=str)
def test_block_sizes(shape, device):
    k, blocks = shape
    rng = generator("gpu block sizes", shape)
    for pair, accumulator in product(PAIRS[:2], ACCUMULATORS):
        if takes(accumulator, *pair):
            check_cases(random_cases(rng, pair, 12, blocks, k), accumulator, device)


@on_devices
@pytest.mark.parametrize("pair", [*product(MX_FORMATS, repeat=2), *FNUZ_PAIRS], ids="x".join)
def test_every_pair_of_codes(pair, device):
    """All products, NaN and infinities among them, each alone, with and without a c."""
    rng = generator("gpu pairs", pair)
    a, b = (
        MXArray(np.arange(n, dtype=np.uint8)[:, None], np.full((n, 1), scale, np.uint8), fmt, 1)
        for fmt, scale in zip(pair, (120, 131), strict=True)
        for n in [1 << FORMATS[fmt].bits]
    )
    c = rng.choice(np.array([0, 1, -3.3, 2.0**-149, np.inf, np.nan], np.float32), (len(a.codes), 1))
    for accumulator in ("exact", "aligned:3", "float32", "hopper", "fixed:20:-9", "fixed:70:-40"):
        for start in (None, c):
            result, want = check(a, b, accumulator, start, device)
            np.testing.assert_array_equal(result, want)


@on_devices
@pytest.mark.contract("P3")
def test_every_pair_of_scales(device):
    """Both ends of E8M0 and of float32, the NaN scale included."""
    scales = np.arange(256, dtype=np.uint8)[:, None]
    codes = np.tile(np.array([[0x38, 0x01, 0x7E, 0xB9]], np.uint8), (256, 1))
    a, b = (MXArray(codes, scales, "e4m3", 4) for _ in range(2))
    for accumulator in ("exact", "aligned:5", "fused:2", "float32", "hopper", "fixed:640:-320"):
        result, want = check(a, b, accumulator, None, device)
        np.testing.assert_array_equal(result, want)


@on_devices
@pytest.mark.parametrize("fmt", ["e5m2", "int8", "fp16", "tf32"])
def test_the_largest_block(fmt, device):
    """65,536 elements of the largest magnitude, and one of the smallest: 80 bits in E5M2."""
    f = FORMATS[fmt]
    codes = np.full((2, 65536), f.largest_code, f.dtype)
    codes[:, -1] = 1
    codes[1, ::2] |= 1 << (f.bits - 1)
    a = MXArray(codes, np.full((2, 1), 127, np.uint8), f, 65536)
    for accumulator in ("exact", "aligned:64", "hopper", "fixed:1024:-512", "float32"):
        result, want = check(a, a, accumulator, None, device)
        np.testing.assert_array_equal(result, want)


# Blocks beyond float32 ----------------------------------------------------------------------------

LARGE, INF, ONE = 0x7F00, 0x7F80, 0x3F80  # BF16: 2^127, an infinity, 1
MINUS = 0x8000


@on_devices
@pytest.mark.parametrize("accumulator", ["exact", "aligned:13", "float32", "fused:13", "hopper-mx"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((LARGE, LARGE), (LARGE | MINUS, LARGE | MINUS)),  # overflows of both signs, one by one
        ((LARGE, LARGE | MINUS), (ONE, ONE)),  # in one block: the products cancel, or overflow
        ((LARGE | MINUS, LARGE | MINUS), (INF, ONE)),  # an infinite term behind an overflow
        ((INF, LARGE | MINUS), (ONE, LARGE | MINUS)),  # beside one
        ((LARGE, INF | MINUS), (LARGE, INF)),
    ],
)
@pytest.mark.contract("P4")
def test_overflow_and_infinities(first, second, accumulator, device):
    """A special term, or a running value that overflowed, decides; no later overflow counts."""
    codes = np.array([[*first, *second]], np.uint16)
    ones = np.array([[LARGE, LARGE, LARGE, LARGE]], np.uint16)
    scales = np.full((1, 2), 127, np.uint8)
    a, b = (MXArray(side, scales, "bf16", 2) for side in (codes, ones))
    for c in (None, *np.array([1, np.inf, -np.inf, np.nan], np.float32)):
        result, want = check(a, b, accumulator, c, device)
        np.testing.assert_array_equal(result, want)


@on_devices
@pytest.mark.parametrize("accumulator", ["exact", "fixed:1024:-600", "fixed:1024:-280:wrap"])
@pytest.mark.parametrize("fmt", ["bf16", "tf32"])
def test_terms_further_apart_than_two_float64(fmt, accumulator, device):
    """A second block takes all but the last term of the first away, which is left in a register."""
    f, rng = FORMATS[fmt], generator("gpu far apart", fmt)
    values = rng.choice([1.0, -1.0, 1.5, -1.25], (40, 8))
    values *= np.exp2(rng.choice([f.lsb + 1, -60, 0, 60, f.emax - 1], values.shape))
    first = f.encode(values)
    second = f.negated(first)
    second[:, -1] = 0
    codes = np.concatenate([first, second], axis=1)
    scales = np.full((40, 2), 127, np.uint8)
    a, b = (MXArray(x, scales, f, 8) for x in (codes, np.full(codes.shape, f.encode(1.0))))
    result, want = check(a, b, accumulator, None, device)
    np.testing.assert_array_equal(result, want)
    if accumulator != "exact":
        left = np.repeat(f.values[first[:, -1:]].astype(np.float32), 40, axis=1)
        np.testing.assert_array_equal(want, left.view(np.uint32))


floats = st.one_of(
    st.integers(0, 64).map(lambda f: f"aligned:{f}"),
    st.integers(0, 64).map(lambda f: f"fused:{f}"),
    st.sampled_from(["exact", "float32"]),
)
registers = st.builds(
    Fixed, st.integers(2, 1024), st.integers(-1024, 1023), st.sampled_from(["saturate", "wrap"])
)
machines = st.builds(
    lambda terms, f, r, nan, promote: Preset(
        name="machine",
        terms=2**terms,
        fraction_bits=f,
        result_bits=r,
        nan=nan,
        promote=None if promote is None else 2 ** (terms + promote),
        source="any",
    ),
    st.integers(0, 7),
    st.integers(0, 64),
    st.integers(0, 23),
    st.sampled_from([0x7FC00000, 0x7FFFFFFF, 0x7F800001]),
    st.none() | st.integers(0, 4),
)


@given(
    accumulator=st.one_of(floats, registers, machines),
    pair=st.tuples(*[st.sampled_from(sorted(FORMATS))] * 2),
    k=st.sampled_from([1, 2, 3, 7, 8, 16, 31, 32, 64, 100]),
    blocks=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_accumulator(accumulator, pair, k, blocks, seed):
    if blocks:
        cases = random_cases(np.random.default_rng(seed), pair, 6, blocks, k)
        check_cases(cases, accumulator)


# Shapes, running values, results ------------------------------------------------------------------


@pytest.fixture
def operands():
    rng = generator("gpu operands")
    a = model.quantize(rng.standard_normal((5, 96)).astype(np.float32), "e4m3")
    b = model.quantize(rng.standard_normal((7, 96)).astype(np.float32), "e5m2")
    return a, b


@on_devices
@pytest.mark.parametrize("shape", [(0, 3, 64), (3, 0, 64), (3, 4, 0), (0, 0, 0)])
def test_empty(shape, device):
    m, n, k = shape
    a, b = (model.quantize(np.ones((rows, k), np.float32), "e4m3") for rows in (m, n))
    c = np.full((m, n), -0.0, np.float32)
    for accumulator in ("exact", "hopper", "hopper-promoted", "fixed:640:-320"):
        for start in (None, c):
            result, want = check(a, b, accumulator, start, device)
            assert result.shape == want.shape == (m, n)
            np.testing.assert_array_equal(result, want)


@on_devices
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("accumulator", ["exact", "aligned:9", "hopper", "float32", "fixed:64:-30"])
def test_the_default_dtype_of_pytorch_changes_nothing(operands, accumulator, dtype, device):
    torch.set_default_dtype(dtype)
    try:
        a, b = operands
        result, want = check(a, b, accumulator, None, device)
        np.testing.assert_array_equal(result, want)
    finally:
        torch.set_default_dtype(torch.float32)


@on_devices
@pytest.mark.parametrize("chunk", [1, 500, 7 * 32])
def test_more_than_one_tile(operands, chunk, device, monkeypatch):
    monkeypatch.setitem(chunks.CHUNK, device, chunk)
    a, b = operands
    c = generator("gpu tiles").standard_normal((5, 7)).astype(np.float32)
    for accumulator in ("exact", "aligned:9", "hopper-promoted", "fixed:640:-320"):
        result, want = check(a, b, accumulator, c, device)
        np.testing.assert_array_equal(result, want)


@on_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 1), (1, 7), (5, 7)])
def test_running_values_broadcast(operands, shape, dtype, device):
    a, b = operands
    c = np.asarray(generator("gpu c").integers(-4, 5, shape), np.float32).astype(dtype)
    result, want = check(a, b, "hopper", c, device)
    np.testing.assert_array_equal(result, want)


@on_devices
def test_operands_with_strides(operands, device):
    a, b = (MXTensor.from_model(x, device) for x in operands)
    turned = MXTensor(a.codes.T.contiguous().T, a.scales.T.contiguous().T, a.format)
    assert not turned.codes.is_contiguous()
    c = torch.ones(7, 5, device=device).T
    want = gpu.matmul(a, b, "hopper", c.contiguous())
    assert torch.equal(gpu.matmul(turned, b, "hopper", c), want)


@on_devices
@pytest.mark.parametrize("accumulator", ["exact", "hopper"])
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_narrower_results(name, accumulator, device):
    """Overflow, subnormals, ties, NaN and infinities: the model's conversion of its float32."""
    cases = random_cases(generator("gpu out", name), ("e5m2", "e5m2"), 40, 2, 8)
    wide = model.matmul(cases.a, cases.b, accumulator, cases.c[:, None])
    want = convert(wide, OUTPUTS[name]).view(np.uint16)
    a, b = (MXTensor.from_model(x, device) for x in (cases.a, cases.b))
    c = tensor(cases.c[:, None], device)
    result = gpu.matmul(a, b, accumulator, c, out_dtype=getattr(torch, name))
    assert result.dtype == getattr(torch, name)
    np.testing.assert_array_equal(result.view(torch.int16).cpu().numpy().view(np.uint16), want)


@on_devices
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.contract("A7", "R1", "R3", "R5")
def test_every_rounding_to_16_bits(name, device):
    """c alone, through an empty product: every 16-bit pattern with the low bits of a tie or not."""
    high = np.arange(2**16, dtype=np.uint32) << 16
    low = np.array([0, 1, 0x1000, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    c = (high[:, None] | low).view(np.float32)
    none = MXArray(np.zeros((2**16, 0), np.uint8), np.zeros((2**16, 0), np.uint8), "e4m3")
    seven = MXArray(np.zeros((7, 0), np.uint8), np.zeros((7, 0), np.uint8), "e4m3")
    want = convert(model.matmul(none, seven, "exact", c), OUTPUTS[name]).view(np.uint16)
    a, b = (MXTensor.from_model(x, device) for x in (none, seven))
    result = gpu.matmul(a, b, "exact", tensor(c, device), out_dtype=getattr(torch, name))
    np.testing.assert_array_equal(result.view(torch.int16).cpu().numpy().view(np.uint16), want)


# The last of many bits ----------------------------------------------------------------------------


def e5m2_product(terms, device):
    """Operands of one dot product in E5M2: pairs of values, at a scale of 1."""
    sides = (np.array([side], np.float32) for side in zip(*terms, strict=True))
    blocks = [FORMATS["e5m2"].encode(side) for side in sides]
    scales = np.full((1, 1), 127, np.uint8)
    return [MXTensor.from_model(MXArray(x, scales, "e5m2", x.size), device) for x in blocks]


@on_devices
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("accumulator", ["exact", "fixed:640:-320", "fixed:70:-32"])
def test_the_last_of_63_bits_breaks_a_tie(accumulator, sign, device):
    large, half, least = (2.0**15, 2.0**15), (2.0**-9, 2.0**15), (2.0**-16, 2.0**-16)
    a, b = e5m2_product([large, half, least], device)
    a = MXTensor(a.codes ^ (0x80 if sign < 0 else 0), a.scales, "e5m2", 3)
    assert gpu.matmul(a, b, accumulator).item() == sign * (2.0**30 + 2.0**7)
    without = MXTensor(a.codes * torch.tensor([1, 1, 0], device=device).byte(), a.scales, "e5m2", 3)
    assert gpu.matmul(without, b, accumulator).item() == sign * 2.0**30  # to even


@on_devices
@pytest.mark.parametrize("accumulator", ["aligned:64", "fused:64"])
def test_the_last_of_63_bits_truncates(accumulator, device):
    large, least = (2.0**15, 2.0**15), (-(2.0**-16), 2.0**-16)
    a, b = e5m2_product([large, least], device)
    below = np.nextafter(np.float32(2.0**30), np.float32(0))
    assert gpu.matmul(a, b, accumulator).item() == below


@on_devices
def test_c_takes_the_leading_bits_away(device):
    a, b = e5m2_product([(2.0**15, 2.0**15), (2.0**-16, 2.0**-16)], device)
    c = torch.full((1, 1), -(2.0**30), device=device)
    for accumulator in ("exact", "fused:64", "fixed:640:-320", "fixed:70:-32"):
        assert gpu.matmul(a, b, accumulator, c).item() == 2.0**-32
