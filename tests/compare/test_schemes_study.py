"""The comparison of schemes: its numbers by another way, its files, and its command."""

import csv
import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from mxdot.cli import main
from mxdot.compare.schemes import DEFAULT_DATA, clip, family, matrices, measure, on_front
from mxdot.compare.schemes.data import Pair
from mxdot.compare.schemes.measure import Measured
from mxdot.compare.schemes.outputs import write
from mxdot.model.schemes import SCHEMES, Limits, block, matmul, quantize, storage
from mxdot.model.schemes.pairing import pairings, schemes
from mxdot.model.schemes.scheme import SCALE_RULES

SMALL = {"rows": 128, "length": 128}


def sqnr(signal, error):
    return 10 * math.log10(float((signal**2).sum() / (error**2).sum()))


def test_numbers():
    (pair,) = matrices(["student-t"], **SMALL)
    for row in measure([pair], ["nvfp4", "int4_g32", "mx9"], "fused:4"):
        a, b = (quantize(x, row.scheme).dequantize().astype(float) for x in (pair.a, pair.b))
        x, y = pair.a.astype(float), pair.b.astype(float)
        assert row.bits == float(storage(row.scheme, 128, 128).bits_per_element)
        assert row.sqnr_a_db == pytest.approx(sqnr(x, a - x))
        assert row.sqnr_b_db == pytest.approx(sqnr(y, b - y))
        assert row.sqnr_product_db == pytest.approx(sqnr(x @ y.T, a @ b.T - x @ y.T))
        by_unit = matmul(quantize(pair.a, row.scheme), quantize(pair.b, row.scheme), "fused:4")
        assert row.sqnr_unit_db == pytest.approx(sqnr(x @ y.T, by_unit - x @ y.T))
        assert row.accumulator == "fused:4"


def test_what_does_not_fit_is_told():
    (pair,) = matrices(["normal"], rows=6, length=64)
    rows = measure([pair], ["int4_g128", "mxfp4", "vsquant8_u6"], "int32")
    assert rows[0].bits is None
    assert rows[0].reason == "row length must be a multiple of 128 for block 128, not 64"
    assert rows[1].sqnr_product_db is not None
    assert rows[1].reason == "INT32 sums take integer elements, not e2m1 of mxfp4"
    assert rows[2].reason == (
        "K of an INT32 sum of vsquant8_u6 x vsquant8_u6 must be at most 33, not 64: it could "
        "overflow"
    )


def test_families():
    assert {family(scheme) for scheme in SCHEMES.values()} == {
        "MX", "float, float scale", "integer, float scale", "MSFP", "micro-exponents",
        "two levels", "code book",
    }  # fmt: skip
    for name, kind in (("mxint8", "MX"), ("mx9", "micro-exponents"), ("nvfp4", "two levels")):
        assert family(SCHEMES[name]) == kind


def test_front():
    points = {"a": (4, 10), "b": (4, 12), "c": (5, 11), "d": (6, 20), "e": (6, 20)}
    rows = [
        Measured(name, "MX", "normal", bits, 0, 0, sqnr) for name, (bits, sqnr) in points.items()
    ]
    assert on_front([*rows, Measured("f", "MX", "normal", reason="no")]) == {"b", "d"}


def test_data():
    one, two = (list(matrices(["normal", "real"], rows=8, length=64, seed=3)) for _ in range(2))
    names = ["normal", "real query", "real mlp_up", "real mlp_down"]
    assert [pair.name for pair in one] == names
    assert [pair.a.shape for pair in one] == [(8, 64), (8, 384), (8, 384), (8, 1536)]
    for x, y in zip(one, two, strict=True):
        np.testing.assert_array_equal(x.a, y.a)
        np.testing.assert_array_equal(x.b, y.b)
    with pytest.raises(ValueError, match=r"^rows must be from 1 to 65536, not 0$"):
        matrices(["normal"], rows=0)
    with pytest.raises(ValueError, match=r"^data must be one of normal, .*, not 'abnormal'$"):
        matrices(["abnormal"])


def test_clipping_by_hand():
    """Calibrated on even rows, judged on odd ones."""
    a = np.ones((4, 64), np.float32)
    a[0, 0], a[1, 0] = 8, 4
    a[1::2, 1:] = np.linspace(-1, 1, 63)
    rows = clip([Pair("mine", a, a)], ["int4_tensor"])
    found = {(row.kind, row.setting): row for row in rows}
    assert found["calibrator", "amax"].fraction == 1
    assert found["percentile", "95"].fraction == 0.125  # the ones
    new = a[1::2].astype(float)
    limit = np.float32(8)
    own = quantize(a[1::2], "int4_tensor", limits=Limits([[-limit]], [[limit]])).dequantize()
    assert found["calibrator", "amax"].sqnr_db == pytest.approx(sqnr(new, own - new))
    assert found["clip", "1"].sqnr_db == found["calibrator", "amax"].sqnr_db
    halves = np.float32(10 ** (-0.3) * 8)
    own = quantize(a[1::2], "int4_tensor", limits=Limits([[-halves]], [[halves]])).dequantize()
    assert found["clip", "0.5012"].sqnr_db == pytest.approx(sqnr(new, own - new))
    assert {row.setting for row in rows if row.kind == "calibrator"} == {
        "amax", "average", "mse", "kl", "octav",
    }  # fmt: skip
    fp8 = clip([Pair("mine", a, a)], ["fp8_e4m3_tensor"])
    assert "kl" not in {row.setting for row in fp8}
    with pytest.raises(
        ValueError,
        match=r"^calibrate must name schemes with an outermost scale per tensor, not int8_channel$",
    ):
        clip([Pair("mine", a, a)], ["int8_channel"])
    with pytest.raises(ValueError, match=r"^data must have two rows, and .*, not zeros$"):
        clip([Pair("zeros", a * 0, a)], ["int8_tensor"])


def test_files_are_whole_and_repeat(tmp_path):
    pairs = list(matrices(["normal", "outliers"], **SMALL))
    zeros = Pair("zeros", np.zeros((4, 128), np.float32), np.zeros((4, 128), np.float32))
    rows = measure([*pairs, zeros], ["mxfp4", "int8_tensor", "fp8_e4m3_128x128"])
    clipped = clip(pairs[:1], ["int4_tensor"])
    files = write(rows, clipped, tmp_path / "one")
    names = ["schemes.csv", "schemes.svg", "clipping.csv", "clipping-int4_tensor.svg"]
    assert [path.name for path in files] == names
    for path, again in zip(files, write(rows, clipped, tmp_path / "two"), strict=True):
        assert path.read_bytes() == again.read_bytes()
        if path.suffix == ".svg":
            assert ET.parse(path).getroot().tag.endswith("svg")
    table = list(csv.DictReader(files[0].read_text(encoding="utf-8").splitlines()))
    assert len(table) == 9
    assert float(table[0]["sqnr_product_db"]) == rows[0].sqnr_product_db
    assert table[-1]["bits"] == ""  # a tile does not fit four rows
    assert "mxfp4" in files[1].read_text(encoding="utf-8")


def test_command(tmp_path, capsys):
    arguments = ["compare", "errors", "mxfp4,nvfp4,fp8_e4m3_128x128", "-o", str(tmp_path)]
    arguments += ["--data", "normal", "--rows", "16", "--length", "128"]
    assert main([*arguments, "--accumulator", "hopper"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"nvfp4 +4\.5\d* +★ 1\d\.\d", text)
    assert "products by hopper" in text
    assert "left out fp8_e4m3_128x128: row count must be a multiple of 128" in text
    assert re.search(r"octav +\d+\.\d \(0\.\d\d\)", text)
    assert (tmp_path / "clipping-int8_tensor.svg").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["fp9"], "scheme must be one of mxfp8_e4m3, "),
        ([","], "scheme must name at least one scheme, not none"),
        (["--data", "abnormal"], "data must be one of normal, "),
        (
            ["--calibrate", "mxfp4"],
            "calibrate must name schemes with an outermost scale per tensor",
        ),
        (["--accumulator", "tree"], "accumulator must be one of exact, "),
        (["--length", "0"], "length must be from 1 to 1048576, not 0"),
        (
            ["mxfp4", "--accumulator", "int32"],
            "INT32 sums take integer elements, not e2m1 of mxfp4",
        ),
        (
            ["mxfp8_e4m3", "--accumulator", "blackwell-mxf4nvf4"],
            "accumulator blackwell-mxf4nvf4 takes e2m1 only, not e4m3 x e4m3\n",
        ),
        (
            ["fp8_e4m3_128x128", "--rows", "16"],
            "row count must be a multiple of 128 for tile 128 x 128, not 16\n",
        ),
    ],
)
def test_refusals_of_the_command(options, message, capsys):
    assert main(["compare", "errors", "--data", "normal", "--length", "32", *options]) == 2
    assert capsys.readouterr().err.startswith(f"mxdot: error: {message}")


def test_sweep():
    found = schemes(["mxfp8_e4m3", "mxfp4:floor", "nvfp4"], ["floor", "ceil"], [16, 32])
    assert [row.name for row in found] == [
        "mxfp8_e4m3:b16", "mxfp8_e4m3", "mxfp8_e4m3:ceil:b16", "mxfp8_e4m3:ceil",
        "mxfp4:b16", "mxfp4", "nvfp4", "nvfp4:b32",
    ]  # fmt: skip
    kept = schemes(["mxfp8_e4m3:b16"], ["floor"], [32])
    assert [row.levels[0].granularity for row in kept] == [block(16)]
    both = pairings(["int8_channel/mxfp8_e5m2", "mxfp4/bfloat16"], ["recommended"], [])
    assert [pair.name for pair in both] == ["int8_channel/mxfp8_e5m2:ceil", "mxfp4:even/bfloat16"]
    assert len(schemes(["all"], ["recommended"], [])) == len(SCHEMES)


def test_recommended_rules_lose_least():
    """The order follows the mean over the data of docs/schemes.md."""
    pairs = list(matrices(DEFAULT_DATA, rows=128, length=1024))
    for name in ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4"):
        means = {
            row.levels[0].rule: np.mean([r.sqnr_product_db or 0.0 for r in measure(pairs, [row])])
            for row in schemes([name], SCALE_RULES, [])
        }
        (best,) = schemes([name], ["recommended"], [])
        assert means[best.levels[0].rule] >= max(means.values()) - 0.05, means


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scale-rule", "up"],
         "scale-rule must be one of recommended, floor, ceil, even, twice, not 'up'"),
        (["--scale-rule", ","], "scale-rule must name at least one rule, not none"),
        (["--block", "0"], "block must be from 1 to 65536, not 0"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["errors", "schemes"])
def test_bad_sweeps(capsys, command, options, message):
    assert main(["compare", command, "mxfp4", *options]) == 2
    assert capsys.readouterr().err == f"mxdot: error: {message}\n"
