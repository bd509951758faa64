"""The Triton kernels of products equal the model in every bit."""

import numpy as np
import pytest
import torch

from cases import Cases, random_cases
from compare import generator
from gpu_products import PAIRS, check_cases, takes
from interpreter import DEVICE, for_kernels
from mxdot import gpu
from mxdot.model import MXArray

pytestmark = for_kernels
ACCUMULATORS = [
    "exact",
    *("aligned:0", "aligned:13", "aligned:24", "aligned:50", "aligned:64"),
    *("fused:0", "fused:23", "fused:51", "fused:64"),
    *("hopper", "hopper-promoted", "ada", "blackwell"),
    *("float32", "int32"),
    *("rvbna:4", "rvbna:32:0", "rvbna:8:41"),
    # registers in int64, in limbs, at the seam, and at both ends of W and L
    *("fixed:48:-20", "fixed:48:-20:wrap", "fixed:61:-40", "fixed:61:-30:wrap", "fixed:2:1023"),
    *("fixed:62:-30", "fixed:64:-20:wrap", "fixed:96:-20", "fixed:640:-320", "fixed:640:-300:wrap"),
    *("fixed:2:-1024", "fixed:1024:-1024:wrap", "fixed:1024:1023"),
]
WIDEST = [("e4m3", "e4m3"), ("e5m2", "e5m2"), ("int8", "int8")]
OTHERS = [("fp16", "fp16"), ("fp16", "e5m2"), ("fp16", "e4m3fnuz"), ("e5m2fnuz", "e5m2fnuz")]
SPLIT = [("bf16", "bf16"), ("tf32", "tf32"), ("bf16", "e2m1"), ("fp16", "tf32"), ("e5m2", "bf16")]


def check(cases, accumulator):
    check_cases(cases, accumulator, DEVICE, "triton")


@pytest.mark.slow_except(7)
@pytest.mark.parametrize("accumulator", ACCUMULATORS)
def test_random_products(accumulator):
    rng = generator("kernels", accumulator)
    for pair in PAIRS if accumulator in ("exact", "aligned:13") else WIDEST:
        if takes(accumulator, *pair):
            check(random_cases(rng, pair, 16, 2, 32), accumulator)


@pytest.mark.parametrize(
    "accumulator",
    [
        "exact",
        "aligned:64",
        "rvbna:16",
        "fused:25",
        "hopper-fp16",
        "float32",
        "fixed:61:-40",
        "fixed:640:-320",
    ],
)
def test_other_elements(accumulator):
    rng = generator("kernels", accumulator, "other")
    by_term = not accumulator.startswith(("exact", "fixed"))
    for pair in OTHERS if by_term else OTHERS[1:]:
        check(random_cases(rng, pair, 12, 2, 32), accumulator)


@pytest.mark.slow_except(7)
@pytest.mark.parametrize(
    "accumulator", ["aligned:13", "aligned:64", "rvbna:2", "rvbna:32:30", "fused:25", "hopper-bf16"]
)
@pytest.mark.parametrize("pair", SPLIT, ids="x".join)
def test_products_beyond_float32(pair, accumulator):
    """Significands and exponents apart: subnormal elements, infinities and NaN, every exponent."""
    rng = generator("kernels", accumulator, pair)
    check(random_cases(rng, pair, 16, 2, 32), accumulator)


@pytest.mark.parametrize("block_size", [16, 256])
def test_exact_sums_of_many_digits(block_size):
    """Five digits against two, and against five: 73 bits in blocks of 256."""
    for pair in (("fp16", "e4m3fnuz"), ("e5m2fnuz", "e5m2fnuz")):
        check(random_cases(generator("digits", pair), pair, 8, 1, block_size), "exact")


@pytest.mark.parametrize(
    ("pair", "accumulator", "message"),
    [
        (
            ("tf32", "e4m3"),
            "fixed:48:-20",
            "products of tf32 x e4m3 leave float32: kernels take them aligned, not fixed:48:-20",
        ),
        (("fp16", "fp16"), "exact", "block sums must fit 78 bits, not 85"),
    ],
)
def test_wider_products_are_left_to_pytorch(pair, accumulator, message):
    with pytest.raises(ValueError, match=f"^executor triton cannot take this: {message}$"):
        check(random_cases(generator("wider"), pair, 2, 1, 32), accumulator)


@pytest.mark.slow_except(5)
@pytest.mark.parametrize("accumulator", ["exact", "aligned:13", "hopper-promoted", "fixed:48:-20"])
@pytest.mark.parametrize("block_size", [1, 4, 16, 33, 64, 128])
def test_block_sizes(block_size, accumulator):
    rng = generator("kernels", accumulator, block_size)
    for pair in (("e4m3", "e4m3"), ("e5m2", "e5m2")):
        check(random_cases(rng, pair, 9, 3, block_size), accumulator)


@pytest.mark.parametrize("block_size", [1, 2, 3, 5, 7, 31, 48, 128])
def test_pairs_of_a_tree(block_size):
    check(
        random_cases(generator("tree", block_size), ("e4m3", "e5m2"), 9, 2, block_size), "float32"
    )


@pytest.mark.parametrize("accumulator", ["exact", "aligned:13", "fixed:40:-12", "fixed:100:-12"])
def test_more_rows_than_a_tile(accumulator):
    check(random_cases(generator("tiles"), ("e4m3", "e4m3"), 67, 1, 16), accumulator)


@pytest.mark.parametrize("accumulator", ["fused:0", "fused:25", "hopper-promoted", "hopper-fp16"])
def test_products_below_float32(accumulator):
    """Scales at which products lie around float32's last digits: a zero c takes no part there."""
    cases = random_cases(generator("below", accumulator), ("e4m3", "e5m2"), 24, 2, 32)
    scales = [
        generator("below scales").integers(20, 70, x.scales.shape).astype(np.uint8)
        for x in (cases.a, cases.b)
    ]
    a, b = (
        MXArray(x.codes, s, x.format, 32) for x, s in zip((cases.a, cases.b), scales, strict=True)
    )
    c = np.where(np.arange(24) % 2 == 0, np.float32(0), np.float32(3 * 2.0**-149))
    check(Cases(a, b, c), accumulator)


@pytest.mark.parametrize("accumulator", ["exact", "int32"])
def test_a_result_below_every_float32_is_a_positive_zero(accumulator):
    one = np.full((1, 32), 0x40, np.uint8)  # INT8: 1
    minus = np.full((1, 32), 0xC0, np.uint8)
    scales = np.zeros((1, 1), np.uint8)
    a, b = (
        gpu.MXTensor.from_model(MXArray(codes, scales, "int8"), DEVICE) for codes in (one, minus)
    )
    result = gpu.matmul(a, b, accumulator, executor="triton")
    assert result.view(torch.int32).item() == 0
