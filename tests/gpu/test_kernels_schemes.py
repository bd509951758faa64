"""The Triton kernel that quantises by schemes equals the model in every bit."""

import ml_dtypes
import numpy as np
import pytest
import torch

import philox
from compare import generator
from devices import bits, tensor
from interpreter import DEVICE, for_kernels
from mxdot.gpu import schemes
from mxdot.gpu.schemes.quantized_values import scheme_values
from mxdot.model import schemes as model
from mxdot.model.formats import FLOAT32, FORMATS
from mxdot.model.schemes import SCHEMES, TENSOR, Level, Limits, Scheme, block, scheme
from own_formats import ue5m3
from scheme_cases import assert_same

pytestmark = for_kernels
REFUSED = {
    "mixed8": "elements must be of one format, not the code book of mixed8",
    "msfp12": "elements must not be sign-magnitude integers, not sm4",
}
DEQUANTIZED = [
    "fp8_e4m3_tensor",
    "fp8_e4m3_row",
    "fp8_e4m3_128x128",
    "fp8_e4m3_b128",
    "int8_channel",
    "nvfp4",
    "nvfp4_16x16",
]
# The interpreter cuts bfloat16 off.
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if DEVICE == "cuda" else [])]
TAKEN = [
    name
    for name, row in SCHEMES.items()
    if len(row.elements) == 1 and not getattr(row.elements[0], "sign_magnitude", False)
]


def values(rng, shape=(128, 256)):
    """Groups of every kind: normal, wide, at ties, zero, subnormal, special, random bits."""
    x = rng.standard_normal(shape).astype(np.float32)
    x *= np.exp2(rng.integers(-12, 6, shape)).astype(np.float32)
    rows = x.reshape(-1, 64)
    rows[::5] *= np.exp2(rng.integers(-120, 110, (len(rows[::5]), 1))).astype(np.float32)
    rows[1::7] = np.round(rows[1::7] * 8) / 8
    rows[16:20], rows[24:28] = 0.0, -0.0
    rows[32:36] = rng.integers(0, 2**23, (4, 64), dtype=np.uint32).view(np.float32)
    rows[40:44] = rng.integers(0, 2**31, (4, 64), dtype=np.uint32).view(np.float32)
    rows[60, 4], rows[70, 2], rows[75, 3] = np.nan, np.inf, -np.inf
    return x


def check(x, row, **options):
    want = model.quantize(x, row, **options)
    result = schemes.quantize(tensor(x, DEVICE), row, executor="triton", **options)
    assert_same(result.to_model(), want)


@pytest.mark.parametrize("name", TAKEN)
def test_every_scheme(name):
    rng = generator("scheme kernel", name)
    x = values(rng)
    check(x, name)
    check(np.nan_to_num(x, posinf=1.0, neginf=-2.0), name)
    check(np.abs(x[:, :128]), name)
    if not name.endswith("128x128"):  # a tile that would reach over two matrices
        check(x.reshape(2, 64, 256)[..., ::2], name)


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("name", ["fp8_e4m3_row", "int8_channel", "nvfp4", "nvfp4_16x16"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_without_codes(name, dtype):
    x = values(generator("scheme values", name), (64, 512))
    whole = np.nan_to_num(x, posinf=1.0, neginf=-2.0)
    for case in (x, whole, x[16:32], x[32:48, :256], whole * np.float32(2.0**-100)):
        given = tensor(np.ascontiguousarray(case), DEVICE)
        results = [
            scheme_values(given, name, dtype, executor).float().cpu()
            for executor in ("torch", "triton")
        ]
        torch.testing.assert_close(*results, rtol=0, atol=0, equal_nan=True)
    of_rows = "scales must be of rows, of 256 values or more, or 8-bit floats in one float32"
    refused = (
        ("fp8_e4m3_128x128", given, f"{of_rows}, not those of fp8_e4m3_128x128 for rows of 512"),
        ("fp8_e4m3_row", given[:, :128].contiguous(), f"{of_rows}, .*_row for rows of 128"),
        ("nvfp4", given.T, "x must be contiguous"),
    )
    for of, x, message in refused:
        with pytest.raises(ValueError, match=message):
            scheme_values(x, of, dtype, "triton")


@pytest.mark.parametrize("name", ["fp8_e4m3_row", "int8_affine_channel", "nvfp4"])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_narrow_values_and_another_axis(name, dtype):
    x = values(generator("scheme kernel axis", name))
    with np.errstate(over="ignore", invalid="ignore"):
        x = x.astype(dtype)
    if DEVICE == "cpu":  # Triton's interpreter misreads bfloat16's subnormals
        x[np.abs(x.astype(np.float32)) < 2.0**-126] = 0
    for axis in (0, 1):
        check(np.ascontiguousarray(x), name, axis=axis)


@pytest.mark.parametrize("name", ["fp8_e4m3_row", "fp8_e5m2_row", "int8_channel", "int4_channel"])
def test_ties(name):
    """Every value half way between two elements, under scales with significands of 24 bits."""
    row = SCHEMES[name]
    grid = np.unique(row.elements[0].values[np.isfinite(row.elements[0].values)])
    ties = (grid[1:] + grid[:-1]) / 2
    rng = generator("scheme kernel ties", name)
    top = grid[-1]
    scales = rng.uniform(0.5, 2.0, 64).astype(np.float32)
    x = ties[None] * scales[:, None].astype(float)
    around = [np.nextafter(x.astype(np.float32), np.float32(side)) for side in (-np.inf, np.inf)]
    x = np.concatenate([x.astype(np.float32), *around], axis=1)
    x = np.concatenate([x, (scales * np.float32(top))[:, None]], axis=1)
    check(x, name)


def near_ties(row, rng, count):
    """`count` scales, and for each the float32 values next to a midpoint of elements times it."""
    grid = np.unique(row.elements[0].values[np.isfinite(row.elements[0].values)])
    scales = rng.uniform(0.5, 2.0, count).astype(np.float32)
    ties = rng.choice((grid[1:] + grid[:-1]) / 2, count) * scales.astype(float)
    ulps = rng.integers(-12, 13, count) * np.spacing(np.abs(ties.astype(np.float32)))
    return scales, grid[-1] * scales, (ties + ulps).astype(np.float32)


@pytest.mark.parametrize("name", ["fp8_e4m3_row", "fp8_e5m2_row", "int8_channel", "int4_channel"])
def test_one_value_near_a_tie(name):
    """The largest of a row is an element, and others are far from ties."""
    count = 4096 if DEVICE == "cuda" else 64
    _, largest, near = near_ties(SCHEMES[name], generator("near tie", name), count)
    x = np.zeros((count, 256), np.float32)
    x[:, 3], x[:, 7] = largest, near
    check(x, name)


def test_one_value_of_a_program_near_a_tie():
    """Two levels: a group with scales of 28 bits, everything else zero."""
    count, rng = (512 if DEVICE == "cuda" else 32), generator("near tie of groups")
    for _ in range(8 if DEVICE == "cuda" else 2):
        scales, _, near = near_ties(SCHEMES["nvfp4"], rng, count)
        outer = np.float32(rng.uniform(0.5, 2.0))
        inner = rng.choice(FORMATS["e4m3"].values[56:120], count).astype(np.float32)
        x = np.zeros((count, 512), np.float32)
        x[:, 16] = 6 * inner * outer
        x[:, 19] = near.astype(float) / scales * inner * outer
        x[0, 0] = np.float32(2688) * outer
        check(x, "nvfp4")


@pytest.mark.parametrize("name", ["fp8_e4m3_row", "fp8_e5m2_row", "int8_channel", "int4_channel"])
@pytest.mark.parametrize("shape", [(5, 300), (2, 3, 256), (2, 17000), (1, 40000)])
def test_long_rows(name, shape):
    """Rows that fill no power of two, and those that a program takes in parts."""
    rng = generator("scheme kernel rows", name, shape)
    x = rng.standard_normal(shape).astype(np.float32)
    x *= np.exp2(rng.integers(-148, 120, (*shape[:-1], 1))).astype(np.float32)
    check(x, name)
    x[..., -1, -1] = np.nan
    check(x, name)


def test_limits():
    """Values beyond them saturate, by far too."""
    rng = generator("scheme kernel limits")
    x = np.nan_to_num(values(rng), posinf=3e38, neginf=-3e38)
    for name, low in (("int8_tensor", -1e-3), ("int8_affine", 0.0), ("fp8_e4m3_tensor", -1e-3)):
        limits = Limits(np.full((1, 1), low, np.float32), np.full((1, 1), 1e-3, np.float32))
        check(x, name, limits=limits)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("fp8_e4m3_b128", (2, 256)),
        ("int4_affine_g128", (2, 256)),
        ("mxfp4", (8, 256)),
        ("fp8_e4m3_128x128", (2, 2)),
    ],
)
def test_limits_of_every_group_along_the_first_axis(name, shape):
    rng = generator("scheme kernel group limits", name)
    x = rng.standard_normal((256, 256)).astype(np.float32)
    low, high = -rng.uniform(0.1, 2, shape), rng.uniform(0.1, 2, shape)
    if not SCHEMES[name].zero_point:
        low = -high
    check(x, name, axis=0, limits=Limits(low.astype(np.float32), high.astype(np.float32)))


def test_variants():
    x = values(generator("scheme kernel variants"))
    for text in ("mxfp8_e4m3:ceil:b128", "nvfp4:b32", "fp8_e4m3_b32:b8"):
        check(x, scheme(text))


@pytest.mark.parametrize("element", ["int8", "e5m2", "e4m3", "e2m3"])
@pytest.mark.parametrize("inner", [FORMATS["e4m3"], ue5m3()], ids=str)
def test_two_levels_of_any_formats(element, inner):
    """Elements with a unit and of 8 bits, near ties at every size."""
    levels = Level(TENSOR, FLOAT32), Level(block(16), inner)
    own = Scheme("own", (FORMATS[element],), levels, "this test")
    rng = generator("two levels", element, inner)
    x = rng.integers(-32, 33, (64, 256)).astype(np.float32) / np.float32(16)
    x[:, ::3] *= rng.uniform(0.5, 2, (64, 1)).astype(np.float32)
    for power in (0, -60, -100, 100):
        check(np.ldexp(x, power).astype(np.float32), own)


def test_refusals():
    x = torch.zeros(128, 256, device=DEVICE)
    for name, reason in REFUSED.items():
        with pytest.raises(ValueError, match=f"^executor triton cannot take this: {reason}$"):
            schemes.quantize(x, name, executor="triton")
    with pytest.raises(ValueError, match=r"rounding must be nearest_even, not toward_zero$"):
        schemes.quantize(x, "int8_channel", executor="triton", rounding="toward_zero")
    with pytest.raises(ValueError, match=r"nonfinite must be poison, not element$"):
        schemes.quantize(x, "int8_channel", executor="triton", nonfinite="element")
    with pytest.raises(ValueError, match=r"^executor must be one of triton, torch"):
        schemes.quantize(x, "int8_channel", executor="cuda")
    levels = tuple(Level(g, FLOAT32) for g in (TENSOR, block(32)))
    wide = Scheme("wide", SCHEMES["mxfp4"].elements, levels, "test")
    with pytest.raises(ValueError, match=r"scales must have at most 30 significant bits, not 48$"):
        schemes.quantize(x, wide, executor="triton")


@pytest.mark.parametrize("name", DEQUANTIZED)
def test_values_of_codes(name):
    """Every code under a float32 scale, and scales that overflow and underflow."""
    rng = generator("scheme values", name)
    x = values(rng)
    for axis in (0, 1):
        made = schemes.quantize(tensor(x, DEVICE), name, axis=axis, executor="torch")
        every = torch.arange(made.codes.numel(), device=DEVICE).to(torch.uint8)
        every &= 2 ** SCHEMES[name].elements[0].bits - 1
        scales = made.scales[0].clone()
        scales.view(-1)[:3] = torch.tensor([2.0**-149, 3e38, torch.nan], device=DEVICE)[
            : scales.numel()
        ]
        parts = [every.view(made.codes.shape), scales, *made.scales[1:]]
        whole = schemes.ScaledTensor.of_parts(name, parts, axis)
        for each in (made, whole):
            for dtype in DTYPES:
                result = each.dequantize(dtype, executor="triton").float().cpu().numpy()
                want = each.dequantize(dtype, executor="torch").float().cpu().numpy()
                np.testing.assert_array_equal(bits(result), bits(want))


@pytest.mark.parametrize("name", ["mxfp4", "int8_affine_channel", "mixed8"])
def test_other_values_are_left_to_pytorch(name):
    made = schemes.quantize(torch.ones(4, 256, device=DEVICE), name)
    with pytest.raises(ValueError, match=r"^executor triton cannot take this: (scales|elements) "):
        made.dequantize(executor="triton")


@pytest.mark.parametrize("name", ["nvfp4", "nvfp4_16x16"])
def test_two_levels_rounded_by_words(name):
    """Words at their ends, random ones, and those of a seed and an offset: the model's bits."""
    rng = generator("stochastic kernel", name)
    x = values(rng, (64, 128))
    x[:32] = np.nan_to_num(x[:32], posinf=1.0, neginf=-2.0)
    x[:8] = np.round(x[:8] * 8) / 8
    drawn = rng.integers(0, 2**32, x.shape, np.uint32)
    for given in (drawn, np.zeros_like(drawn), np.full_like(drawn, 2**32 - 1)):
        options = {"rounding": "stochastic", "executor": "triton"}
        for part in (x, np.nan_to_num(x, posinf=3.0, neginf=0.0), np.zeros_like(x)):
            want = model.quantize(part, name, rounding="stochastic", rng=given)
            made = schemes.quantize(
                tensor(part, DEVICE),
                name,
                rng=tensor(given, DEVICE),
                **options,  # pyright: ignore[reportArgumentType]
            )
            assert_same(made.to_model(), want)
    seed, offset = 2**40 + 7, 2**33 + 5
    want = model.quantize(x, name, rounding="stochastic", rng=philox.words(seed, offset, x.shape))
    pair = torch.tensor([seed, offset], device=DEVICE)
    for executor in ("triton", "torch"):
        made = schemes.quantize(
            tensor(x, DEVICE), name, rounding="stochastic", rng=pair, executor=executor
        )
        assert_same(made.to_model(), want)


def test_stochastic_rounding_of_other_schemes_is_refused():
    for name in ("int8_channel", "mxfp8_e4m3"):
        with pytest.raises(ValueError, match="rounding must be nearest_even, not stochastic"):
            schemes.quantize(
                torch.ones(32, 256, device=DEVICE),
                name,
                rounding="stochastic",
                rng=torch.zeros(2, dtype=torch.int64, device=DEVICE),
                executor="triton",
            )
