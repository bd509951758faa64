"""Schemes side by side: errors by another way, files, the command; a stand-in for the encoder."""

import csv
import math
import os
import re
import signal
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from changed_code import change
from compare_fakes import FAKES, broken
from mxdot.cli import main
from mxdot.compare.accuracy import encoder
from mxdot.compare.schemes import comparison as module
from mxdot.compare.schemes.comparison import (
    Layers,
    SchemeRow,
    SchemeTask,
    compare_schemes,
    on_front,
)
from mxdot.compare.schemes.layers import (
    Layer,
    SchemeErrors,
    effect_on,
    end_to_end,
    network,
    stored_layers,
)
from mxdot.compare.schemes.outputs import show_comparison, write_comparison
from mxdot.model import schemes
from mxdot.model.schemes.pairing import pairing
from mxdot.synth import Flow
from mxdot.synth.gates import liberty_text
from mxdot.util.data.sentences import SENTENCES
from mxdot.util.jobs import Backend
from mxdot.util.progress import display

HERE = Backend(lambda count: ThreadPoolExecutor(1), 1)
WIDTH, TOKENS = 64, 3


class TwoLayers:
    """A network with two linear layers and a tanh."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.weights = rng.standard_normal((2, WIDTH, WIDTH)).astype(np.float32) / 8
        self.layer = lambda name, x, weight: x @ weight.T

    def input(self, sentence):
        rng = np.random.default_rng(len(sentence))
        return rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)

    def embed(self, sentence):
        hidden = np.tanh(self.layer("first", self.input(sentence), self.weights[0]))
        return self.layer("second", hidden, self.weights[1]).mean(axis=0)

    @contextmanager
    def replaced(self, layer):
        before, self.layer = self.layer, layer
        yield
        self.layer = before


@pytest.fixture
def two_layers(monkeypatch):
    net = TwoLayers()
    monkeypatch.setattr(encoder, "load_encoder", lambda: net)
    monkeypatch.setattr(module, "check_installed", lambda: None)
    network.cache_clear()
    yield net
    network.cache_clear()


def dequantized(x, name):
    return schemes.quantize(x, name).dequantize().astype(np.float64)


def by_hand(results, reference):
    error = results - reference
    return (
        float((results * reference).sum() / np.linalg.norm(results) / np.linalg.norm(reference)),
        10 * math.log10(float((reference**2).sum() / (error**2).sum())),
        float((error**2).mean()),
        float(np.abs(error).max()),
    )


def values(error):
    return error.cosine, error.sqnr_db, error.mse, error.maximum


# Errors -----------------------------------------------------------------------------------------


def test_errors_of_parts_are_those_of_the_whole():
    rng = np.random.default_rng(1)
    reference = rng.standard_normal((20, 7))
    results = reference + 0.1 * rng.standard_normal((20, 7))
    errors = SchemeErrors("all")
    for part in (slice(0, 3), slice(3, 20)):
        errors.add(results[part], reference[part])
    assert values(errors.total()) == pytest.approx(by_hand(results, reference))


def test_no_error_and_no_result():
    exact, nothing, silent, noisy = map(SchemeErrors, ("exact", "nothing", "silent", "noisy"))
    exact.add(np.ones(3), np.ones(3))
    assert values(exact.total()) == (pytest.approx(1.0), math.inf, 0.0, 0.0)
    nothing.add(np.zeros(3), np.ones(3))
    assert values(nothing.total()) == (0.0, 0.0, 1.0, 1.0)
    silent.add(np.zeros(3), np.zeros(3))
    assert values(silent.total()) == (1.0, math.inf, 0.0, 0.0)
    noisy.add(np.full(3, 2.0), np.zeros(3))
    assert values(noisy.total()) == (0.0, -math.inf, 4.0, 2.0)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_refused(value):
    weight, x = np.ones((4, 64), np.float32), np.ones((3, 64), np.float32)
    x[1, 5] = value
    for inputs in ((x,), (x[:1], x)):
        with pytest.raises(ValueError, match=r"^results of up must be finite, not nan$"):
            effect_on(pairing("mxfp4"), [Layer("up", weight, inputs)])
    with pytest.raises(ValueError, match=f"^reference of up must be finite, not {value}$"):
        SchemeErrors("up").add(np.zeros(2), np.array([0, value]))


def test_every_layer_with_an_operand_of_its_own():
    rng = np.random.default_rng(2)
    x, y, w = (rng.standard_normal((n, 64)).astype(np.float32) for n in (3, 5, 8))
    pair = pairing("int4_g32/int8_affine")
    effect = effect_on(pair, [Layer("one", w, (x, y)), Layer("two", w[:4], (y,))])
    weight = dequantized(w, "int4_g32")
    results = np.concatenate([dequantized(v, "int8_affine") @ weight.T for v in (x, y)])
    originals = np.concatenate([x, y]).astype(np.float64) @ w.astype(np.float64).T
    assert list(effect.layers) == ["one", "two"]
    assert values(effect.layers["one"]) == pytest.approx(by_hand(results, originals))
    assert effect.bits_weights == 4.5
    assert effect.bits_activations == pytest.approx(8 + 3 * 40 / (13 * 64))


def test_stored_layers_are_activations_and_weights():
    (query, *others) = stored_layers(("real",), 8, 64, 1)
    assert query.name == "real query"
    assert query.weight.shape == query.inputs[0].shape == (8, 384)
    assert len(others) == 2


def test_network(two_layers):
    sentences = tuple(SENTENCES[:3])
    found, embeddings = network(sentences)
    assert [layer.name for layer in found] == ["first", "second"]
    np.testing.assert_array_equal(found[0].inputs[1], two_layers.input(sentences[1]))
    np.testing.assert_allclose(embeddings[2], two_layers.embed(sentences[2]), rtol=1e-4)
    pair = pairing("int4_g32/int8_channel")
    w, v = (dequantized(weight, "int4_g32") for weight in two_layers.weights)
    own = []
    for sentence in sentences:
        x = dequantized(two_layers.input(sentence), "int8_channel") @ w.T
        hidden = np.tanh(x.astype(np.float32))
        own.append((dequantized(hidden, "int8_channel") @ v.T).astype(np.float32).mean(axis=0))
    end = end_to_end(pair, sentences)
    assert values(end.error) == pytest.approx(
        by_hand(np.array(own), np.array(embeddings)), rel=1e-4
    )
    cosines = [
        by_hand(a.astype(float), b.astype(float))[0] for a, b in zip(own, embeddings, strict=True)
    ]
    assert (end.mean, end.least) == pytest.approx((np.mean(cosines), min(cosines)))


# The comparison ---------------------------------------------------------------------------------

NAMES = ("mxfp4", "int8_channel/int8_affine", "nvfp4/mxfp4", "int4_g32/bfloat16")


def compared(directory, names=NAMES, layers=Layers(2), tools=FAKES, **options):  # noqa: B008
    pairs = [pairing(name) for name in names]
    with display(Console(quiet=True)) as observer:
        return compare_schemes(
            pairs, layers, Flow("gates"), directory, HERE, observer, tools=tools, **options
        )


def test_rows(two_layers, tmp_path):
    rows = {row.scheme: row for row in compared(tmp_path)}
    assert list(rows) == list(NAMES)
    assert (rows["mxfp4"].unit, rows["mxfp4"].lanes) == ("e2m1 aligned:13 x32 stages 4", 32)
    assert rows["mxfp4"].area
    assert rows["mxfp4"].area_per_lane == rows["mxfp4"].area / 32
    assert rows["mxfp4"].energy
    assert rows["nvfp4/mxfp4"].unit is rows["nvfp4/mxfp4"].area is None
    reason = "no unit takes E4M3 scales of one operand beside E8M0's of the other"
    assert rows["nvfp4/mxfp4"].no_unit == reason
    mixed = rows["int8_channel/int8_affine"]
    assert (mixed.weights, mixed.activations) == ("int8_channel", "int8_affine")
    sentences = tuple(SENTENCES[:2])
    effect = effect_on(pairing(mixed.scheme), network(sentences)[0])
    sqnrs = [error.sqnr_db for error in effect.layers.values()]
    assert (mixed.sqnr_db, mixed.sqnr_least_db) == pytest.approx((np.mean(sqnrs), min(sqnrs)))
    assert mixed.maximum == max(error.maximum for error in effect.layers.values())
    assert (mixed.layers, mixed.sentences) == (2, 2)
    end = end_to_end(pairing(mixed.scheme), sentences)
    assert (mixed.encoder_cosine, mixed.encoder_cosine_least) == (end.mean, end.least)
    assert mixed.encoder_sqnr_db == end.error.sqnr_db
    assert rows["int4_g32/bfloat16"].bits == (4.5 + 16) / 2
    assert not any(row.error for row in rows.values())


def test_another_accumulator_and_no_synthesis(two_layers, tmp_path):
    (row,) = compared(tmp_path, ["mxfp4"], rule="fused:25")
    assert row.unit == "e2m1 fused:25 x32 stages 4"
    with display(Console(quiet=True)) as observer:
        (row,) = compare_schemes([pairing("mxfp4")], Layers(1), None, tmp_path, HERE, observer)
    assert row.unit
    assert row.area is None


def test_what_fails_is_told(two_layers, tmp_path):
    names = ("int4_g128", "mxfp4")
    rows = compared(tmp_path, names, tools=replace(FAKES, measure=broken))
    assert rows[0].error == (
        "row length must be a multiple of 128 for block 128, not 64; ArithmeticError: no number"
    )
    assert rows[0].sqnr_db is rows[0].area is None
    assert rows[1].error == "ArithmeticError: no number"
    assert rows[1].sqnr_db


def test_results_are_kept(two_layers, tmp_path, monkeypatch):
    first = compared(tmp_path)
    monkeypatch.setattr(module, "effect_on", broken)
    assert compared(tmp_path) == first


def test_files_are_found_from_any_directory(tmp_path, monkeypatch):
    """A worker may have been started in another directory than the comparison."""
    rows = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
    np.savez(tmp_path / "x.npz", u=rows, v=rows)
    (tmp_path / "cells.lib").write_text(liberty_text())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    class Elsewhere(ThreadPoolExecutor):
        def submit(self, *arguments, **keywords):
            monkeypatch.chdir(tmp_path / "elsewhere")
            return super().submit(*arguments, **keywords)

    with display(Console(quiet=True)) as observer:
        (row,) = compare_schemes(
            [pairing("mxfp4")],
            Layers(0, ("x.npz#u,v", "normal"), 8, 64),
            Flow("cells", liberty=(Path("cells.lib"),)),
            tmp_path,
            Backend(lambda count: Elsewhere(1), 1),
            observer,
            tools=FAKES,
        )
    assert row.error is None
    assert row.area
    assert list(row.errors) == ["x.npz#u,v", "normal"]


def test_an_error_depends_on_the_code_of_its_data(monkeypatch):
    task = SchemeTask("mxfp4", Layers())
    before = task.key
    change(monkeypatch, module, "util/data/sets.py")
    assert task.key != before


def test_front():
    points = {"a": (4, 10), "b": (4, 12), "c": (5, 11), "d": (6, 20), "e": (7, None)}
    rows = [
        SchemeRow(name, name, name, "MX", bits_weights=bits, bits_activations=bits, sqnr_db=sqnr)
        for name, (bits, sqnr) in points.items()
    ]
    assert on_front(rows, "bits") == {"b", "d"}
    assert on_front(rows, "area_per_lane") == set()


def test_files_are_whole_and_repeat(two_layers, tmp_path):
    rows = [*compared(tmp_path), SchemeRow("failed", "mx9", "mx9", "MX", error="no reason")]
    files = write_comparison(rows, tmp_path / "one")
    assert [path.name for path in files] == ["schemes.csv", "layers.csv", "schemes.svg"]
    for path, again in zip(files, write_comparison(rows, tmp_path / "two"), strict=True):
        assert path.read_bytes() == again.read_bytes()
    table = list(csv.DictReader(files[0].read_text(encoding="utf-8").splitlines()))
    assert [line["scheme"] for line in table] == [*NAMES, "failed"]
    assert float(table[0]["area_per_lane"]) == rows[0].area_per_lane
    assert table[2]["area"] == ""
    lines = list(csv.DictReader(files[1].read_text(encoding="utf-8").splitlines()))
    assert len(lines) == 2 * len(NAMES)
    assert float(lines[1]["mse"]) == rows[0].errors["second"]["mse"]
    drawing = files[2].read_text(encoding="utf-8")
    assert ET.fromstring(drawing).tag.endswith("svg")
    assert "area of the unit a lane (NAND2)" in drawing
    alone = write_comparison(rows[2:3], tmp_path / "three")[2].read_text(encoding="utf-8")
    assert "area of the unit a lane (NAND2)" not in alone


def test_table(two_layers, tmp_path, capsys):
    rows = [*compared(tmp_path), SchemeRow("failed", "mx9", "mx9", "MX", error="no reason")]
    show_comparison(Console(width=240), rows)
    text = capsys.readouterr().out
    (line,) = [line for line in text.splitlines() if line.lstrip("★ ").startswith("int8_channel/")]
    row = rows[1]
    assert f"{row.sqnr_db:.1f} {row.sqnr_least_db:.1f}" in line
    assert f"{row.encoder_cosine:.4f} {row.encoder_cosine_least:.4f}" in line
    assert f"{row.area:,.0f}" in line
    assert "zero-points a" in line
    assert "no area of nvfp4/mxfp4: no unit takes E4M3 scales of one operand beside E8M0" in text
    assert "FAILED failed: no reason" in text


# The command ------------------------------------------------------------------------------------


def test_command(tmp_path, capsys):
    schemes = "mxfp4,int8_channel/int8_affine,nvfp4"
    command, arguments = ["compare", "schemes"], ["--flow", "none"]
    arguments += ["--data", "normal,outliers", "--lengths", "128", "--jobs", "1"]
    assert main([*command, schemes, *arguments, "-o", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"★ nvfp4 +4\.5\d* 4\.5\d* +1\d\.\d 1\d\.\d", text)
    assert "int8 int32 x32 stages 4 int32 zero-points a" in text
    lines = list(csv.DictReader((tmp_path / "layers.csv").read_text("utf-8").splitlines()))
    assert [line["layer"] for line in lines] == ["normal", "outliers"] * 3
    assert main([*command, "fp8_e4m3_b128,int4_g128,mx9", *arguments, "-o", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main([*command, "int4_g128", *arguments[:-4], "--lengths", "96"]) == 1
    assert "FAILED int4_g128: row length must be a multiple of 128" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["fp9"], "scheme must be one of mxfp8_e4m3, "),
        ([","], "scheme must name at least one scheme, not none"),
        (["mxfp4", "--accumulator", "tree"], "accumulator must be one of exact, "),
        (["mxfp4", "--flow", "gates,xilinx"], "flow must be one, with one target, for schemes"),
        (["mxfp4", "--flow", "asic"], "flow must be one of gates, "),
        (["mxfp4", "--data", "abnormal"], "data must be one of normal, "),
        (
            ["mxfp4", "--data", "normal", "--lengths", "32,64"],
            "lengths must be one length for schemes, not 2",
        ),
        (["mxfp4", "--encoder", "41"], "encoder must be from 0 to 40, not 41"),
        (["mxfp4", "--encoder", "1", "--data", "normal"], "data and encoder exclude each other"),
    ],
)
def test_refusals_of_the_command(options, message, tmp_path, capsys):
    assert main(["compare", "schemes", "-o", str(tmp_path), *options]) == 2
    assert capsys.readouterr().err.startswith(f"mxdot: error: {message}")


def test_an_interrupted_command(tmp_path, capsys, monkeypatch):
    """SIGTERM ends it as Ctrl-C does; what was measured stays."""

    def interrupted(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError

    monkeypatch.setattr(module, "compare_schemes", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    assert main(["compare", "schemes", "mxfp4", "--flow", "none", "-o", str(tmp_path)]) == 130
    assert capsys.readouterr().out.startswith("interrupted; results are kept in ")
    assert signal.getsignal(signal.SIGTERM) is before
