"""The machines and the running values of 16 bits in Triton kernels: the model's bits."""

from dataclasses import replace

import numpy as np
import pytest

from amd_facts import FACTS, cases_of
from cases import Cases, random_cases
from compare import FULL, generator
from devices import tensor
from gpu_products import NARROW, check_cases
from interpreter import DEVICE, for_kernels
from mxdot.gpu import MXTensor, matmul
from mxdot.model import MACHINES, MXArray, accumulator, format_pairs

pytestmark = for_kernels
ROWS = 40 if FULL else 8
RULES = [*NARROW, "fused:25:bfloat16", "fused:60:float16", "aligned:40:bfloat16"]
NEAR = ("zero", "normal", "cancel", "beside")


def check(cases, accumulator):
    check_cases(cases, accumulator, DEVICE, "triton")


def check_near(text, pair):
    """Without scales, beside a c that is near: most results are in the range of a float16."""
    rng = generator("kernels near", text, pair)
    check(random_cases(rng, pair, ROWS, 2, 16, scales=["unit"], running=NEAR), text)


@pytest.mark.parametrize("text", MACHINES)
def test_every_machine(text):
    """Its own operands: subnormal ones, NaN and infinities, cancellation, every kind of c."""
    pairs = [pair for operands in MACHINES[text].operands for pair in format_pairs(operands)]
    for pair in pairs if FULL else pairs[:1]:
        check(random_cases(generator("kernels", text, pair), pair, ROWS, 2, 32), text)
    check_near(text, pairs[-1])


@pytest.mark.parametrize("pair", ["e4m3", "e5m2xe4m3", "fp16", "bf16xe2m1", "int8"])
@pytest.mark.parametrize("text", RULES)
def test_running_values_of_16_bits(text, pair):
    """A tree takes no products that leave float32."""
    if pair == "bf16xe2m1" and accumulator(text).alignment_bits is None:
        pair = "e5m2fnuzxe3m2"
    (pair,) = format_pairs(pair)
    check(random_cases(generator("kernels", text, pair), pair, ROWS, 2, 32), text)
    check_near(text, pair)


@pytest.mark.parametrize("text", ["hopper-float16", "fused:13:float16"])
def test_a_subnormal_c_has_the_exponent_of_the_smallest_normal_number(text):
    """2^-14, and so products of 2^-28 are below a grid of 2^-27; with a zero c they are not."""
    codes, scales = np.full((2, 32), 0x38, np.uint8), np.full((2, 1), 127 - 14, np.uint8)
    x = MXArray(codes, scales, "e4m3", 32)
    c = np.array([[2.0**-24], [0]], np.float32)
    operand = MXTensor.from_model(x, DEVICE)
    result = matmul(operand, operand, text, tensor(c, DEVICE), executor="triton")
    assert result.tolist() == [[2.0**-24] * 2, [2.0**-23] * 2]
    check(Cases(x, x, c[:, 0]), text)


@pytest.mark.parametrize("block", [4, 7, 33, 34, 64])
def test_permuted_steps_of_blocks(block):
    """Steps of one size, and a last one of fewer elements; partial sums of several blocks."""
    for text in ("hopper-mma", "hopper-mma-float16"):
        rng = generator("kernels permuted", text, block)
        check(random_cases(rng, ("e5m2", "e4m3"), ROWS, 5, block), text)


@pytest.mark.parametrize(("block", "blocks"), [(4, 17), (7, 10), (32, 5), (48, 3), (128, 2)])
def test_groups_of_blocks(block, blocks):
    """Groups of one alignment in several blocks and in one; fewer of them at the end."""
    rng = generator("kernels groups", block)
    check(random_cases(rng, ("e2m1", "e2m1"), 2 * ROWS, blocks, block), "blackwell-mxf4nvf4")


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        (0, -35, 1 - 2.0**-24),
        (0, -36, 1),  # below the last of 35 bits
        (-149, -162, 0),  # a zero c does not count as 2^-126
    ],
)
def test_one_group_less_another(first, second, want):
    """2^first - 2^second, RZ."""
    codes = np.zeros((2, 1, 32), np.uint8)
    codes[0, 0, [0, 16]], codes[1, 0, [0, 16]] = (2, 10), 2  # 1 and -1 by 1
    exponents = np.array([[first, second]])
    scales = [exponents // 2, exponents - exponents // 2]
    a, b = (
        MXTensor.from_model(MXArray(x, (y + 127).astype(np.uint8), "e2m1", 16), DEVICE)
        for x, y in zip(codes, scales, strict=True)
    )
    assert matmul(a, b, "blackwell-mxf4nvf4", executor="triton").item() == want


@pytest.mark.parametrize("text", ["hopper-mma", "hopper-mma-float16"])
def test_wide_elements_in_permuted_steps(text):
    """Codes of 16 and 32 bits, which PyTorch does not index as they are on a GPU."""
    for pair in (("fp16", "fp16"), ("bf16", "tf32")):
        check(random_cases(generator("kernels permuted", text, pair), pair, ROWS, 2, 32), text)


@pytest.mark.parametrize(("name", "facts"), FACTS.values(), ids=FACTS)
def test_the_ends_of_the_rules_of_amd(name, facts):
    """Literal numbers; then each row of a by each row of b, with blocks that zeros fill up."""
    size = MACHINES[name].terms
    cases = cases_of(name, facts, size)
    a, b = (MXTensor.from_model(x, DEVICE) for x in (cases.a, cases.b))
    result = matmul(a, b, name, tensor(cases.c[:, None], DEVICE), executor="triton")
    np.testing.assert_array_equal(result.diagonal().cpu(), [fact[3] for fact in facts])
    check(cases_of(name, facts, size + 1), name)


@pytest.mark.parametrize("text", ["cdna1-fp16", "cdna2-fp16", "cdna3-xf32", "cdna3-fp8"])
@pytest.mark.parametrize("block", [1, 6, 33])
def test_blocks_that_are_no_whole_steps(text, block):
    """Codes of one, two and four bytes."""
    (pair,) = format_pairs(MACHINES[text].operands[0])
    check(random_cases(generator("kernels steps", text, block), pair, ROWS, 2, block), text)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("cdna1-fp16", ("bf16", "tf32")),
        ("cdna2-bf16", ("tf32", "e4m3")),
        ("cdna3-fp8", ("bf16", "e5m2")),
        ("cdna3-xf32", ("int8", "e2m1")),
    ],
)
def test_other_elements_by_the_rules_of_amd(text, pair):
    check(random_cases(generator("kernels others", text), pair, ROWS, 2, 16), text)


@pytest.mark.parametrize(
    ("text", "changed", "message"),
    [
        ("cdna1-fp16", {"terms": 32}, "steps of cdna1-fp16 must have at most 16 terms, not 32"),
        ("cdna3-fp8", {"fraction_bits": 74}, "block sums must fit 78 bits, not 79"),
    ],
)
def test_what_no_kernel_of_amds_rules_takes(text, changed, message):
    x = MXTensor.from_model(random_cases(generator("left"), ("fp16", "fp16"), 2, 1, 32).a, DEVICE)
    with pytest.raises(ValueError, match=f"^executor triton cannot take this: {message}$"):
        matmul(x, x, replace(MACHINES[text], **changed), executor="triton")


@pytest.mark.parametrize(
    ("text", "fmt", "block", "message"),
    [
        (
            "hopper-mma",
            "e4m3",
            48,
            "steps of blocks of 48 elements except the last must be of one size, not of 16 and 8",
        ),
        (
            "blackwell-mxf4nvf4",
            "e2m1",
            20,
            "blocks must be whole groups of 16 elements, not 20 elements",
        ),
    ],
)
def test_unequal_parts_of_blocks_are_left_to_pytorch(text, fmt, block, message):
    with pytest.raises(ValueError, match=f"^executor triton cannot take this: {message}$"):
        check(random_cases(generator("left"), (fmt, fmt), 2, 1, block), text)
