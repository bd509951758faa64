"""Narrow results: float32 rounded once more, to bfloat16 or float16."""

import ast
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from cases import random_cases
from compare import FULL, generator
from mxdot import model
from mxdot.model import DotConfig, dot
from mxdot.model.outputs import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    IntegerOutput,
    convert,
    output_format,
    result_float,
)
from rational.formats import floor_log2, pow2

NARROW = [BFLOAT16, FLOAT16]


def interesting_float32():
    """Random bits, ties and their neighbours in both formats, both ends of their ranges."""
    rng = generator("outputs")
    count = 20_000 if FULL else 6_000
    random = rng.integers(0, 2**32, count, dtype=np.uint32)
    ties = [
        (rng.integers(0, 2**32, 4000, dtype=np.uint32) & np.uint32(mask)) | np.uint32(half)
        for mask, half in ((0xFFFF0000, 0x8000), (0xFFFFE000, 0x1000))
    ]
    half_range = rng.integers(100 << 23, 144 << 23, count, dtype=np.uint32)
    bits = np.concatenate([random, *ties, half_range])
    return np.unique(np.concatenate([bits - 1, bits, bits + 1, bits ^ 0x80000000])).view(np.float32)


def fraction_of(bits, out):
    """The exact value of a finite narrow result."""
    field, fraction = divmod(bits & (2 ** (out.bits - 1) - 1), 2**out.mantissa_bits)
    significand = fraction + (2**out.mantissa_bits if field else 0)
    magnitude = significand * pow2(max(field, 1) - 1 + out.emin - out.mantissa_bits)
    return -magnitude if bits >> (out.bits - 1) else magnitude


def nearest_even(x, out):
    """RNE of a Fraction to a narrow format, None for an overflow."""
    exponent = max(floor_log2(abs(x)), out.emin) if x else out.emin
    unit = pow2(exponent - out.mantissa_bits)
    rounded = round(x / unit) * unit
    return rounded if abs(rounded) < pow2(2 - out.emin) else None


def test_fields():
    assert [(o.bits, o.emin, o.dtype.itemsize * 8) for o in (FLOAT32, BFLOAT16, FLOAT16)] == [
        (32, -126, 32),
        (16, -126, 16),
        (16, -14, 16),
    ]


@pytest.mark.parametrize("out", NARROW, ids=lambda out: out.name)
@pytest.mark.contract("N1")
def test_convert_equals_exact_rounding(out):
    x = interesting_float32()
    got = convert(x, out)
    assert got.dtype == out.dtype
    infinity = (2**out.exponent_bits - 1) << out.mantissa_bits
    for value, bits in zip(x.tolist(), got.view(np.uint16).tolist(), strict=True):
        if np.isnan(value):
            assert bits > infinity
            continue
        sign = 2 ** (out.bits - 1) if value < 0 else 0
        want = None if np.isinf(value) else nearest_even(Fraction(value), out)
        if want is None:
            assert bits == sign | infinity
        elif want == 0:
            assert bits & 0x7FFF == 0
        else:
            assert fraction_of(bits, out) == want


@pytest.mark.contract("N2")
def test_nans_keep_their_leading_bits():
    nans = np.array([0x7FC00000, 0x7FFFFFFF, 0x7F800001], np.uint32).view(np.float32)
    assert convert(nans, BFLOAT16).view(np.uint16).tolist() == [0x7FC0, 0x7FFF, 0x7FC0]
    assert convert(nans, FLOAT16).view(np.uint16).tolist() == [0x7E00, 0x7FFF, 0x7E00]
    assert convert(nans, FLOAT32) is nans


def test_zero_is_positive():
    tiny = np.array([-(2.0**-149), -0.0, 0.0], np.float32)
    for out in NARROW:
        assert convert(tiny, out).view(np.uint16).tolist() == [0, 0, 0]


@pytest.mark.parametrize("out", NARROW, ids=lambda out: out.name)
@pytest.mark.contract("N1")
def test_flags_of_the_conversion(out):
    unit = DotConfig("e4m3", 8, "exact", out=out)
    cases = random_cases(generator("flags", out.name), ("e4m3", "e4m3"), 4000, 1, 8)
    wide = dot(cases.a, cases.b, "exact", cases.c, trace=True, stages=False)
    got = unit.dot(cases.a, cases.b, cases.c)
    np.testing.assert_array_equal(got.result.view(np.uint16), convert(wide.result, out).view("u2"))
    narrow = got.result.astype(np.float32)
    finite = np.isfinite(wide.result)
    lost = finite & (narrow != wide.result)
    overflow = finite & np.isinf(narrow)
    underflow = lost & (np.abs(narrow) < 2.0**out.emin)
    for name, conversion in (
        ("invalid", np.isnan(wide.result)),
        ("overflow", overflow),
        ("underflow", underflow),
        ("inexact", lost),
        ("saturated", np.zeros_like(lost)),
    ):
        want = getattr(wide.flags, name) | conversion
        np.testing.assert_array_equal(getattr(got.flags, name), want, err_msg=name)
    assert overflow.any()
    assert underflow.any()
    assert (lost & ~wide.flags.inexact).any()


def test_dtypes_and_names():
    unit = DotConfig("e4m3", 4, "exact", out="bfloat16")
    assert unit.out is BFLOAT16
    assert BFLOAT16.dtype == ml_dtypes.bfloat16
    assert output_format(FLOAT16) is FLOAT16
    known = (
        r"float32, bfloat16, float16, int32, FORMAT:multiply\[:BITS\], FORMAT:shift, FLOAT:scale "
        r"\(FORMAT int8_full, int8_symmetric, uint8, int4_full, int4_symmetric\)"
    )
    for bad in (
        "float64",
        None,
        16,
        "int3:shift",
        "int8_full:add",
        "float16:shift",
        "int8_full:scale",
    ):
        with pytest.raises(ValueError, match=rf"^out must be one of {known}, not {bad!r}$"):
            output_format(bad)  # type: ignore[arg-type]


@pytest.mark.contract("I11")
def test_the_width_of_a_multiplier():
    narrow = output_format("int8_full:multiply:8")
    assert isinstance(narrow, IntegerOutput)
    assert narrow.name == "int8_full:multiply:8"
    assert narrow.parameters == {"multiplier": 8, "shift": 6, "zero_out": 8}
    assert output_format("uint8:multiply:31") is not None
    assert output_format("uint8:multiply:31") == output_format("uint8:multiply")
    for text, got in (("int8_full:multiply:3", 3), ("int4_full:multiply:32", 32)):
        with pytest.raises(ValueError, match=rf"^multiplier_bits must be from 4 to 31, not {got}$"):
            output_format(text)
    with pytest.raises(
        ValueError, match=r"^multiplier_bits must be 31 without a multiplier, not 8$"
    ):
        IntegerOutput(narrow.format, "shift", 8)
    for text in ("int8_full:shift:8", "int32:8", "int8_full:multiply:"):
        with pytest.raises(ValueError, match=r"^out must be one of "):
            output_format(text)


def test_they_need_no_scheme():
    """Nothing that they import, or that this imports, is of the schemes."""
    package, waiting, needed = Path(model.__file__ or "").parent, ["outputs"], set()
    while waiting:
        name = waiting.pop()
        needed.add(name)
        path = package.joinpath(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        above = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        for node in ast.parse(path.read_text()).body:  # those for type checkers are deeper
            if isinstance(node, ast.ImportFrom) and node.level:
                base = above[: len(above) - node.level + 1]
                modules = [node.module] if node.module else [alias.name for alias in node.names]
                waiting += {".".join([*base, module]) for module in modules} - needed
    assert {"formats.floating", "requantize", "trace"} <= needed
    assert not [name for name in needed if name.startswith("schemes")]


@pytest.mark.parametrize(
    ("out", "want"),
    [("float32", FLOAT32), ("bfloat16", BFLOAT16), ("float16:scale", FLOAT16),
     ("int32", None), ("int8_full:shift", None)],
)  # fmt: skip
def test_results_are_floats_or_integers(out, want):
    assert result_float(output_format(out)) == want
