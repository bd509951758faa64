"""Speed of the golden model in element products per second, on one core.

`make bench` measures, in processor time, so that other work on the machine matters little;
otherwise each case runs once, small, to show that it runs. docs/performance.md has the numbers.
"""

import time

import numpy as np
import pytest

from mxdot.model import MXArray, dot, matmul, quantize

pytestmark = pytest.mark.benchmark(timer=time.process_time)

TARGET = 20e6  # element products a second, for aligned:13 and exact on E4M3


@pytest.fixture
def blocks(benchmark):
    """Blocks of 32 elements, each a dot product of its own."""
    return 100 if benchmark.disabled else 100_000


def operands(fmt, blocks):
    """Quantised normal values."""
    x = np.random.default_rng(1).standard_normal((2, blocks, 32)).astype(np.float32)
    return [quantize(half, fmt) for half in x]


def measure(benchmark, function, products):
    """Run `function`, and note element products per second beside the times."""
    benchmark.pedantic(function, rounds=5, warmup_rounds=1)
    if benchmark.disabled:
        return None
    rate = products / benchmark.stats["min"]
    benchmark.extra_info["element_products_per_second"] = round(rate)
    print(f"\n{benchmark.name}: {rate / 1e6:.1f} million element products/s")
    return rate


@pytest.mark.parametrize("accumulator", ["aligned:13", "exact"])
def test_required_speed(benchmark, blocks, accumulator):
    a, b = operands("e4m3", blocks)
    rate = measure(benchmark, lambda: dot(a, b, accumulator), a.codes.size)
    assert rate is None or rate >= TARGET


@pytest.mark.parametrize(
    ("fmt", "accumulator"),
    [
        ("e4m3", "fused:25"),
        ("e4m3", "hopper"),
        ("e4m3", "hopper-promoted"),
        ("e4m3", "ada"),
        ("e4m3", "blackwell"),
        ("e4m3", "float32"),
        ("e4m3", "fixed:48:-20"),
        ("e4m3", "fixed:640:-286"),
        ("e5m2", "exact"),
        ("e5m2", "aligned:13"),
        ("e2m1", "blackwell"),
        ("int8", "int32"),
        # elements and running values of 16 bits, grouped sums, machines
        *((fmt, rule) for fmt in ("fp16", "bf16", "tf32") for rule in ("aligned:13", "exact")),
        ("fp16", "float32"),
        ("fp16", "fixed:96:-60"),
        ("fp16", "volta"),
        ("bf16", "ampere-bf16"),
        ("tf32", "hopper-tf32"),
        ("bf16", "cdna1-bf16"),
        ("fp16", "cdna2-fp16"),
        ("fp16", "cdna3-fp16"),
        ("e4m3fnuz", "cdna3-fp8"),
        ("e2m1", "blackwell-mxf4nvf4"),
        ("e4m3", "float16"),
        ("e4m3", "bfloat16"),
        ("e4m3", "aligned:13:float16"),
        ("e4m3", "fused:25:bfloat16"),
        ("e4m3", "ada-float16"),
        ("e4m3", "hopper-mma-float16"),
    ],
)
def test_other_accumulators(benchmark, blocks, fmt, accumulator):
    a, b = operands(fmt, blocks)
    measure(benchmark, lambda: dot(a, b, accumulator), a.codes.size)


def test_with_flags(benchmark, blocks):
    a, b = operands("e4m3", blocks)
    run = lambda: dot(a, b, "aligned:13", trace=True, stages=False)  # noqa: E731
    measure(benchmark, run, a.codes.size)


def test_matmul(benchmark, blocks):
    rows = blocks // 400 + 1  # 251 x 251 dot products of 32 blocks
    x = np.random.default_rng(1).standard_normal((2, rows, 1024)).astype(np.float32)
    a, b = (quantize(half, "e4m3") for half in x)
    measure(benchmark, lambda: matmul(a, b, "hopper"), rows * rows * 1024)


@pytest.mark.parametrize("length", [4096, 16384])
@pytest.mark.parametrize("accumulator", ["aligned:13", "exact"])
def test_long(benchmark, blocks, accumulator, length):
    """Few long dot products: the blocks of each come one after the other."""
    a, b = (
        MXArray(x.codes.reshape(-1, length), x.scales.reshape(-1, length // 32), x.format)
        for x in operands("e4m3", -(-blocks * 32 // length) * length // 32)
    )
    measure(benchmark, lambda: dot(a, b, accumulator), a.codes.size)


def test_quantize(benchmark, blocks):
    x = np.random.default_rng(1).standard_normal((blocks, 32)).astype(np.float32)
    measure(benchmark, lambda: quantize(x, "e4m3", scale_rule="ceil"), x.size)


def test_raw_codes(benchmark, blocks):
    """Uniform codes, NaN left out, and random scales: wider exponents than quantised data."""
    rng = np.random.default_rng(1)
    a, b = (
        MXArray(
            rng.integers(0, 0x7F, (blocks, 32), dtype=np.uint8),
            rng.integers(100, 155, (blocks, 1), dtype=np.uint8),
            "e4m3",
        )
        for _ in range(2)
    )
    measure(benchmark, lambda: dot(a, b, "aligned:13"), a.codes.size)
