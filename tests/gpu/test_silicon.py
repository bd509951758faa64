"""The tensor cores as an executor: what it refuses, its kernels, and on an H200 its bits."""

import re

import numpy as np
import pytest
import torch

from interpreter import DEVICE, for_kernels
from mxdot.cli import main
from mxdot.gpu import MXTensor, matmul
from mxdot.gpu.accumulators import run as run_rules
from mxdot.gpu.hardware import agreement, silicon
from mxdot.gpu.hardware.agreement import CLASSES, PAIRS
from mxdot.gpu.hardware.black_boxes import UNITS, cuda_unit
from mxdot.gpu.ops.matmul import Product
from mxdot.gpu.tensors.formats import code_dtype
from mxdot.model import BF16, E4M3, E4M3FNUZ, E5M2, FP16, INT8, TF32, ElementFormat, unscaled
from mxdot.model.accumulators import Fused
from mxdot.model.accumulators import accumulator as find_rule

RULES = tuple(silicon.FORMATS)
SIZE = 2048 if DEVICE == "cuda" else 24


def product(
    accumulator="hopper", formats=(E4M3, E5M2), block_size=32, scale_a=127, scale_b=127, k=64
) -> Product:
    scales = torch.zeros((4, k // block_size), dtype=torch.uint8)
    rule, (a, b) = find_rule(accumulator), formats
    x, y = (torch.zeros((4, k), dtype=code_dtype(fmt)) for fmt in formats)
    return Product(x, y, scales + scale_a, scales + scale_b, a, b, block_size, rule, None)


def pairs_of(rule: str) -> list[tuple[ElementFormat, ElementFormat]]:
    """The pairs of formats that the unit takes, of those that are compared."""
    return [pair for pair in PAIRS if set(pair) <= set(silicon.FORMATS[rule])]


def on_hopper(monkeypatch):
    """Everything but the device is looked at."""
    monkeypatch.setattr(Product, "device", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))


@pytest.mark.parametrize("rule", RULES)
def test_takes(monkeypatch, rule):
    on_hopper(monkeypatch)
    for formats in pairs_of(rule):
        assert silicon.refusal(product(rule, formats)) is None
        assert silicon.refusal(product(rule, formats, block_size=64)) is None


def test_takes_the_scales_in_reach(monkeypatch):
    on_hopper(monkeypatch)
    low, high = silicon.scale_limits(E4M3, E5M2)
    assert (low, high) == (-126 + 6 + 14, 127 - 8 - 15 - 7)
    for s in (low, high):
        assert silicon.refusal(product("hopper-mx", scale_a=127 + s)) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"accumulator": "ada"}, "accumulator must be one of hopper, hopper-promoted, hopper-mx, "),
        ({"accumulator": Fused(13)}, "accumulator must be one of hopper, "),
        ({"formats": (E4M3, INT8)}, "formats of hopper must be e4m3 or e5m2, not e4m3xint8"),
        (
            {"formats": (E4M3FNUZ, BF16)},
            "formats of hopper must be e4m3 or e5m2, not e4m3fnuzxbf16",
        ),
        (
            {"accumulator": "hopper-fp16"},
            "formats of hopper-fp16 must be fp16 or e5m2, not e4m3xe5m2",
        ),
        (
            {"accumulator": "hopper-bf16", "formats": (BF16, FP16)},
            "formats of hopper-bf16 must be bf16, not bf16xfp16",
        ),
        ({"block_size": 16}, "block_size must be a multiple of 32, not 16"),
        ({"scale_a": 128}, "hopper has no block scales: all must be 2^0 (code 127)"),
        ({"accumulator": "hopper-mx", "scale_a": 255}, "scales must hold no NaN (code 255)"),
        (
            {"accumulator": "hopper-mx", "scale_b": 20},
            "the exponents of both scales must add to -106 to 97, not -107",
        ),
        (
            {"accumulator": "hopper-mx", "scale_b": 225},
            "the exponents of both scales must add to -106 to 97, not 98",
        ),
    ],
)
def test_refuses(monkeypatch, changed, message):
    on_hopper(monkeypatch)
    assert (silicon.refusal(product(**changed)) or "").startswith(message)


def test_refuses_more_rows_than_programs(monkeypatch):
    monkeypatch.setattr(Product, "shape", (1, 128 * 65535 + 1))
    assert silicon.refusal(product()) == "b must have at most 8388480 rows, not 8388481"


def test_refuses_other_machines(monkeypatch):
    assert silicon.refusal(product()) == "tensors must be on a CUDA device, not cpu"
    on_hopper(monkeypatch)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))
    assert silicon.refusal(product()) == "the GPU must have compute capability 9.0, not 8.9"


def test_matmul_says_why_not():
    a = MXTensor(
        torch.zeros((4, 64), dtype=torch.uint8), torch.zeros((4, 2), dtype=torch.uint8), "e4m3"
    )
    with pytest.raises(ValueError, match=r"^executor silicon cannot take this: "):
        matmul(a, a, "exact", executor="silicon")


# The kernels, on numbers whose sums are exact in any order --------------------------------------


def integers(rng: torch.Generator, rows: int, k: int, fmt: ElementFormat) -> torch.Tensor:
    return fmt.encode(torch.randint(-4, 5, (rows, k), generator=rng)).to(DEVICE)


# Triton's interpreter multiplies no bfloat16.
@pytest.mark.parametrize("rule", [x for x in RULES if DEVICE == "cuda" or x != "hopper-bf16"])
@pytest.mark.parametrize(("m", "n", "k"), [(3, 5, 32), (129, 70, 96), (40, 130, 288), (0, 4, 32)])
@pytest.mark.parametrize("with_c", [False, True])
class TestKernels:
    pytestmark = for_kernels

    def test_every_row_column_and_scale(self, rule, m, n, k, with_c):
        rng = torch.Generator().manual_seed(m + k)
        formats = pairs_of(rule)[-1]
        a, b = integers(rng, m, k, formats[0]), integers(rng, n, k, formats[1])
        span = 3 if rule == "hopper-mx" else 1
        scale_a, scale_b = (
            torch.randint(127, 127 + span, (rows, k // 32), generator=rng).byte().to(DEVICE)
            for rows in (m, n)
        )
        c = torch.randint(-99, 99, (m, n), generator=rng).float().to(DEVICE) if with_c else None
        request = Product(a, b, scale_a, scale_b, *formats, 32, find_rule(rule), c)
        assert torch.equal(silicon.run(request), run_rules(request))


# Agreement, with the rules in the place of the silicon where there is none -----------------------


def fake_silicon(monkeypatch, change=lambda bits: bits):
    """The rules, with the NaN of the tensor cores, and `change` done to the bits."""

    def run(request):
        result = run_rules(request)
        nan = torch.tensor(0x7FFFFFFF, dtype=torch.int32)
        bits = torch.where(result.isnan(), nan, result.view(torch.int32))
        return change(bits).view(torch.float32)

    monkeypatch.setattr(silicon, "refusal", lambda request: None)
    monkeypatch.setattr(silicon, "run", run)


def rng() -> torch.Generator:
    return torch.Generator(DEVICE).manual_seed(1)


@pytest.mark.parametrize("operands", CLASSES)
def test_comparison_of_equals(monkeypatch, operands):
    fake_silicon(monkeypatch)
    for rule in ("hopper-mx", "hopper-fp16", "hopper-bf16", "hopper-tf32"):
        for pair in pairs_of(rule):
            drawn = agreement.draw(rng(), operands, pair, (20, 24, 64), True, rule == "hopper-mx")
            assert agreement.compare(rule, drawn, "torch") == (480, 0, 0)


def test_comparison_sees_a_bit(monkeypatch):
    column = (torch.arange(24, device=DEVICE) == 3).int()
    fake_silicon(monkeypatch, lambda bits: bits ^ column)
    drawn = agreement.draw(rng(), "wide", PAIRS[1], (20, 24, 64), True, False)
    assert agreement.compare("hopper", drawn, "torch") == (480, 20, 16)


def test_comparison_sees_another_nan(monkeypatch):
    other = torch.tensor(0x7FC00000, dtype=torch.int32)
    fake_silicon(monkeypatch, lambda bits: torch.where(bits == 0x7FFFFFFF, other, bits))
    drawn = agreement.draw(rng(), "special", PAIRS[3], (20, 24, 64), True, False)
    tried, differing, _ = agreement.compare("hopper", drawn, "torch")
    assert 0 < differing < tried


@pytest.mark.parametrize("fmt", [FP16, BF16, TF32], ids=str)
def test_tiny_products_lie_about_the_smallest(fmt):
    x = agreement.draw(rng(), "tiny", (fmt, fmt), (64, 48, 128), False, False).a.codes.cpu().numpy()
    products = np.abs(fmt.values[x[:32]] * fmt.values[x[32:]])
    smallest = max(2.0**-149, float(fmt.smallest**2))
    assert products.max() > 2.0**8 * smallest
    if fmt != FP16:
        assert 0 < products[products > 0].min() < 2.0**-8 * smallest


@pytest.mark.parametrize("operands", CLASSES)
def test_operands_are_of_their_class(operands):
    drawn = agreement.draw(rng(), operands, (E4M3, E5M2), (64, 48, 128), True, operands == "wide")
    a, b, c = drawn.a.codes.cpu().numpy(), drawn.b.codes.cpu().numpy(), drawn.c
    assert c is not None
    assert c.shape == (64, 48)
    assert (drawn.a.scales.unique().numel() > 40) == (operands == "wide")
    x, y = E4M3.values[a], E5M2.values[b]
    special = ~np.isfinite(np.concatenate([x, y])).all(axis=1)
    assert (0.1 < special.mean() < 0.7) if operands == "special" else not special.any()
    if operands == "subnormal":
        assert (np.abs(x) < 2.0**-6).mean() > 0.9
    if operands == "sparse":
        assert 0.7 < (x == 0).mean() < 0.95
    if operands == "wide":
        assert len(np.unique(a)) == 254
        assert len(np.unique(b)) == 248
    if operands == "cancelling":
        products = x[:1] * y
        assert (products[:, :64] == -products[:, 64:]).mean() > 0.9
    kinds = [bool(flags.any()) for flags in (c.isnan(), c.isinf(), c == 0, c.abs() < 2.0**-126)]
    assert kinds[2]
    assert kinds[3]


# On an H200 -------------------------------------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.triton
@pytest.mark.parametrize("operands", CLASSES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.contract("M5")
def test_silicon_is_the_model(rule, operands):
    """16 million dot products each; `python -m mxdot.gpu.hardware.agreement` compares billions."""
    for pair in pairs_of(rule):
        drawn = agreement.draw(rng(), operands, pair, (SIZE, SIZE, 128), True, rule == "hopper-mx")
        assert agreement.compare(rule, drawn) == (SIZE**2, 0, 0)


@pytest.mark.cuda
@pytest.mark.triton
@pytest.mark.parametrize("rule", RULES)
def test_matmul_runs_on_silicon(rule):
    pair = pairs_of(rule)[-1]
    drawn = agreement.draw(rng(), "normal", pair, (70, 90, 64), True, rule == "hopper-mx")
    result = matmul(drawn.a, drawn.b, rule, drawn.c, executor="silicon")
    want = matmul(drawn.a, drawn.b, rule, drawn.c, executor="torch")
    assert torch.equal(result.view(torch.int32), want.view(torch.int32))


@pytest.mark.cuda
@pytest.mark.triton
@pytest.mark.parametrize("rule", ["hopper-bf16", "hopper-tf32"])
@pytest.mark.contract("M24", "M25")
def test_the_least_exponent(rule):
    """2^e less a product 2^-d below it, all d: it counts down to 25 digits below 2^-133."""
    ((fmt, _),) = pairs_of(rule)
    for exponent in (-149, -140, -133, -132, -120):
        down = exponent - np.arange(64)
        a = np.stack([np.full(64, exponent // 2), down // 2], 1)
        b = np.stack([exponent - a[:, 0], down - a[:, 1]], 1)
        values = [np.pad(np.ldexp(1.0, x), ((0, 0), (0, 30))) for x in (a, b)]
        values[0][:, 1] *= -1
        x, y = (MXTensor.from_model(unscaled(v, fmt), DEVICE) for v in values)
        result = matmul(x, y, rule, executor="silicon").diagonal()
        want = matmul(x, y, rule, executor="torch").diagonal()
        assert torch.equal(result.view(torch.int32), want.view(torch.int32))
        less = (result.double() < 2.0**exponent).cpu().numpy()
        assert less.tolist() == (down >= max(exponent, -133) - 25).tolist()


FITS = {
    "cuda:fp8": "hopper",
    "cuda:fp8-promoted": "hopper-promoted",
    "cuda:fp8-cublas": "hopper",
    "cuda:fp8-cublas-slow": "hopper-promoted",
    "cuda:fp16": "hopper-fp16",
    "cuda:fp16-small": "hopper-fp16",
    "cuda:fp16-cublas": "hopper-fp16",
    "cuda:int8": "int32",
}


@pytest.mark.cuda
@pytest.mark.triton
@pytest.mark.parametrize("name", FITS)
def test_the_probe_names_the_unit(name, capsys):
    assert main(["probe", "--unit", name]) == 0
    assert f"\nfits: {FITS[name]} in blocks of 32 (0 of " in capsys.readouterr().out


@pytest.mark.cuda
@pytest.mark.triton
@pytest.mark.parametrize("fmt", ["fp16", "bf16", "tf32"])
def test_the_probe_names_the_unit_by_its_own_elements(fmt, capsys):
    assert main(["probe", "--unit", f"cuda:{fmt}", "--format", fmt]) == 0
    (fits,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("fits: "))
    assert f"hopper-{fmt}" in fits


# The units of the probe without a GPU -------------------------------------------------------------


def test_units_need_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"^unit cuda:fp8 needs a CUDA GPU, and PyTorch sees none"):
        cuda_unit("cuda:fp8")


def test_units_are_named(capsys):
    with pytest.raises(ValueError, match=re.escape("unit must be one of cuda:fp8, ")):
        cuda_unit("cuda:fp4")
    with pytest.raises(
        ValueError, match=r"^formats of cuda:int8 must be one pair of int8, not 'e4m3'$"
    ):
        cuda_unit("cuda:int8", "e4m3")
    assert main(["probe", "--unit", "cuda:list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(UNITS)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, None])
class TestPairs:
    pytestmark = for_kernels

    def test_rows_with_rows(self, small, dtype):
        from mxdot.gpu.kernels import tensor_core

        rng = torch.Generator().manual_seed(3)
        a, b = (torch.randint(-4, 5, (70, 96), generator=rng).to(DEVICE) for _ in "ab")
        c = torch.randint(-9, 9, (70,), generator=rng).to(DEVICE)
        rows = tensor_core.SMALL_ROWS if small else tensor_core.WARPGROUP_ROWS
        x, y = (values.to(dtype or torch.float8_e4m3fn) for values in (a, b))
        start = c.int() if dtype == torch.int8 else c.float()
        result, names = tensor_core.pairs(x, y, start, rows)
        assert torch.equal(result.long(), (a * b).sum(dim=1) + c)
        assert bool(names) == (DEVICE == "cuda")
