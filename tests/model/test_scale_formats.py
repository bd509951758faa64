"""Blocks under E4M3 scales, as a unit takes them: bits and flags equal the rational oracle."""

import re

import numpy as np
import pytest

from cases import Cases, random_cases, under_e4m3
from compare import FULL, check, generator
from mxdot.model import FORMATS, MACHINES, MXArray, dot, format_pairs, schemes
from mxdot.model.formats import BF16, scale_format
from mxdot.model.products import Pair
from mxdot.model.steps.codes import CodeStep

EACH = 100_000 if FULL else 200
RULES = (
    *("exact", "aligned:13", "aligned:3", "aligned:13:float16", "aligned:30:bfloat16"),
    *("fused:13", "fused:25", "fused:2", "fused:13:float16", "float32", "float16"),
    *("fixed:48:-20", "fixed:20:-4:wrap", "hopper", "hopper-promoted", "hopper-mx", "blackwell"),
)
PAIRS = {"e2m1": RULES, "e4m3": RULES, "fp16": ("exact", "aligned:13", "fused:25")}
PAIRS |= {"bf16": ("exact", "aligned:13", "fused:13", "float32", "bfloat16")}
PAIRS |= {"int4": ("int32", "exact")}
SHAPES = {(1, 16): 4, (3, 16): 4, (2, 8): 2, (1, 32): 1, (5, 3): 1}


@pytest.mark.parametrize(
    ("pair", "rule"), [(pair, rule) for pair, rules in PAIRS.items() for rule in rules]
)
@pytest.mark.contract("T11", "T12", "T13", "T14", "U4")
def test_model_equals_rational(pair, rule):
    rng = generator("scale formats", pair, rule)
    for (blocks, k), share in SHAPES.items():
        count = -(-EACH * share // sum(SHAPES.values()))
        check(under_e4m3(rng, random_cases(rng, (pair, pair), count, blocks, k)), rule)


@pytest.mark.parametrize("name", [name for name, row in MACHINES.items() if not row.sums_groups])
@pytest.mark.contract("U4")
def test_every_machine(name):
    """Each machine takes its own operands."""
    rng = generator("scale formats", name)
    for pair in format_pairs(",".join(MACHINES[name].operands)):
        names = (pair[0].name, pair[1].name)
        for blocks, k in ((1, 4), (3, 16), (1, 32), (5, 3)):
            check(under_e4m3(rng, random_cases(rng, names, -(-EACH // 8), blocks, k)), name)


@pytest.mark.contract("M21", "M22", "M23", "U6")
def test_groups_that_meet_in_one_alignment():
    rng = generator("scale formats", "grouped")
    for blocks, k in ((4, 16), (8, 8), (2, 32), (1, 64), (1, 128), (5, 16)):
        cases = random_cases(rng, ("e2m1", "e2m1"), EACH // 4, blocks, k)
        check(under_e4m3(rng, cases), "blackwell-mxf4nvf4")


@pytest.mark.contract("T4", "T8", "T9", "T10", "U3")
def test_every_pair_of_scales():
    """One product of 1 gives the product of both scales, exactly."""
    a, b = (codes.reshape(-1, 1).astype(np.uint8) for codes in np.indices((128, 128)))
    ones = np.full((len(a), 1), 0x38, np.uint8)
    x, y = MXArray(ones, a, "e4m3", 1), MXArray(ones, b, "e4m3", 1)
    cases = Cases(x, y, np.zeros(len(a), np.float32), "e4m3")
    check(cases, "exact")
    for rule in ("aligned:13", "fused:25", "float32"):
        check(cases[:: 1 if FULL else 7], rule)


@pytest.mark.parametrize("pair", PAIRS)
def test_terms_fit_their_width(pair):
    """The largest and the least code under every scale."""
    fmt, kind = FORMATS[pair], scale_format("e4m3")
    known = np.where(np.isfinite(fmt.values) & (fmt.values > 0), fmt.values, np.nan)
    codes = np.array([[np.nanargmax(known), np.nanargmin(known)]], fmt.dtype)
    scale = np.arange(2**7, dtype=np.uint8)
    pairs = Pair(fmt, fmt)
    step = CodeStep(pairs, pairs.of(codes, codes), scale, scale, 2, True, None, kind)
    digits = step.terms * 2.0**-step.lsb
    assert digits.max() <= 2.0**step.bits
    assert (digits == np.rint(digits)).all()
    assert (digits % 2 == 1).any()


@pytest.mark.contract("U4")
def test_an_infinite_block_under_a_scale_of_zero():
    """2^200 is infinite in float32, 0 x 2^200 is 0."""
    huge = np.full((1, 4), BF16.encode(np.array(2.0**100)), BF16.dtype)
    x = MXArray(huge, np.zeros((1, 1), np.uint8), "bf16", 4)
    for rule in ("aligned:13", "float32", "bfloat16", "cdna2-bf16"):
        trace = dot(x, x, rule, trace=True, scale_format="e4m3")
        assert np.isnan(trace.result).all()
        assert trace.flags.invalid.all()
    for rule in ("exact", "fused:13", "cdna1-bf16"):
        assert dot(x, x, rule, scale_format="e4m3") == [0]


@pytest.mark.contract("U3")
def test_powers_of_two_are_those_of_e8m0():
    """Flags and stages are equal, too."""
    rng = generator("scale formats", "powers")
    fields = rng.integers(1, 15, (2, 300, 3))
    codes = rng.integers(0, 256, (2, 300, 24), dtype=np.uint8)
    c = np.ldexp(rng.standard_normal(300), rng.integers(-20, 20, 300)).astype(np.float32)
    for rule in ("exact", "aligned:5", "fused:7", "hopper-promoted", "float32", "fixed:24:-8"):
        traces = []
        for name, scales in (("e4m3", fields << 3), ("e8m0", fields - 7 + 127)):
            a, b = (
                MXArray(x, s.astype(np.uint8), "e5m2", 8)
                for x, s in zip(codes, scales, strict=True)
            )
            traces.append(dot(a, b, rule, c, trace=True, scale_format=name))
        left, right = traces
        assert left.result.view(np.uint32).tolist() == right.result.view(np.uint32).tolist()
        for flag in vars(left.flags):
            assert (getattr(left.flags, flag) == getattr(right.flags, flag)).all()
        assert set(left.stages) == {*right.stages, "factor"}
        assert (left.stages["factor"] <= 1).all()


@pytest.mark.parametrize("rule", ["exact", "aligned:6", "fused:13", "blackwell-mxf4nvf4"])
@pytest.mark.contract("T13")
def test_nvfp4_is_e2m1_under_e4m3(rule):
    """Products equal those of schemes under an outer scale of 1."""
    rng = generator("scale formats", "nvfp4", rule)
    scale = 2.0 ** rng.integers(-6, 7, (2, 60, 64))
    x, y = (rng.standard_normal((2, 60, 64)) * scale).astype(np.float32)
    a, b = (schemes.quantize(v, "nvfp4") for v in (x, y))
    one = np.ones_like(a.scales[0])
    a, b = (schemes.ScaledArray(v.scheme, v.codes, (one, v.scales[1])) for v in (a, b))
    p, q = (MXArray(v.codes, v.scales[1], "e2m1", 16) for v in (a, b))
    want = np.diagonal(schemes.matmul(a, b, rule, lanes=16)).astype(np.float32)
    got = dot(p, q, rule, scale_format="e4m3")
    assert got.view(np.uint32).tolist() == want.view(np.uint32).tolist()


A = MXArray(np.zeros((1, 8), np.uint8), np.full((1, 2), 127, np.uint8), "e2m1", 4)
B = MXArray(np.zeros((1, 8), np.uint8), np.array([[5, 0x85]], np.uint8), "e2m1", 4)
C = MXArray(np.zeros((1, 8), np.uint8), np.array([[5, 0x80]], np.uint8), "e2m1", 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((A, B, "e4m3"), "scales of b must be e4m3 codes from 0 to 127, not 133"),
        ((C, A, "e4m3"), "scales of a must be e4m3 codes from 0 to 127, not 128"),
        ((A, A, "e5m2"), "scale_format must be one of e8m0, e4m3, not 'e5m2'"),
    ],
)
@pytest.mark.contract("U4")
def test_refusals(arguments, message):
    a, b, scale_format = arguments
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        dot(a, b, "exact", scale_format=scale_format)


@pytest.mark.contract("U4")
def test_large_terms_that_cancel_leave_a_small_one():
    """15 terms and as many of the opposite sign: in last digits of `fused:46` their sums pass 2^53,
    and the small term is three such digits."""
    places = np.arange(32) % 8
    x = np.where(places < 4, 65504.0, -65504.0)
    y = np.full(32, 65504.0)
    x[0], y[0], x[4] = 2.0**-8, 2.0**-8, 0
    scale = np.array([[0x7E]], np.uint8)  # 448, 1.75 x 2^8
    a, b = (MXArray(FORMATS["fp16"].encode(side[None]), scale, "fp16", 32) for side in (x, y))
    cases = Cases(a, b, np.zeros(1, np.float32), "e4m3")
    check(cases, "fused:46")
    assert dot(cases.a, cases.b, "fused:46", scale_format="e4m3") == 3  # of 3.0625
