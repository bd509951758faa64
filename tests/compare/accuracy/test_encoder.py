"""The encoder's evaluation, with a small stand-in for the network: two linear layers and a tanh."""

import importlib
import json
import math
from contextlib import contextmanager

import numpy as np
import pytest

from mxdot.compare.accuracy import encoder
from mxdot.compare.accuracy.encoder import EncoderAccuracy, cosines, evaluate_encoder
from mxdot.util.data.sentences import SENTENCES

WIDTH, TOKENS = 40, 3


class TwoLayers:
    def __init__(self):
        rng = np.random.default_rng(0)
        self.weights = rng.standard_normal((2, WIDTH, WIDTH)).astype(np.float32)
        self.layer = self.plain

    @staticmethod
    def plain(name, x, weight):
        return x @ weight.T

    def embed(self, sentence):
        rng = np.random.default_rng(len(sentence))
        x = rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)
        hidden = np.tanh(self.layer("first", x, self.weights[0]))
        return self.layer("second", hidden, self.weights[1]).mean(axis=0)

    @contextmanager
    def replaced(self, layer):
        self.layer = layer
        yield
        self.layer = self.plain


@pytest.fixture(autouse=True)
def two_layers(monkeypatch):
    monkeypatch.setattr(encoder, "load_encoder", TwoLayers)


def test_format_and_accumulator():
    wide = evaluate_encoder("exact", "e4m3", sentences=SENTENCES[:5])
    assert 0.98 < wide.format_min <= wide.format_mean < 1
    assert wide.cosine_mean == pytest.approx(wide.format_mean, abs=1e-3)
    narrow = evaluate_encoder("aligned:1", "e4m3", sentences=SENTENCES[:5])
    assert narrow.format_mean == wide.format_mean
    assert narrow.cosine_mean < wide.cosine_mean - 0.01
    assert narrow.cosine_min == min(narrow.cosines)
    assert len(narrow.cosines) == narrow.sentences == 5


def test_products_are_counted():
    got = evaluate_encoder("exact", "e2m1", sentences=SENTENCES[:4], lanes=16)
    assert got.products == 4 * 2 * TOKENS * WIDTH * WIDTH


def test_formats_of_activations_and_weights():
    better = evaluate_encoder("exact", "e4m3xint8", sentences=SENTENCES[:3])
    worse = evaluate_encoder("exact", "e2m1xint8", sentences=SENTENCES[:3])
    assert better.formats == "e4m3xint8"
    assert better.format_mean > worse.format_mean


def test_progress():
    seen = []
    evaluate_encoder(
        "exact", "e4m3", sentences=SENTENCES[:3], progress=lambda done, of: seen.append((done, of))
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_plain_json_types_and_back():
    got = evaluate_encoder("hopper", "e4m3", sentences=SENTENCES[:2])
    assert EncoderAccuracy.from_dict(json.loads(json.dumps(got.to_dict(), allow_nan=False))) == got


def test_bad_arguments():
    with pytest.raises(ValueError, match="sentences must hold at least one sentence, not none"):
        evaluate_encoder("exact", "e4m3", sentences=())
    with pytest.raises(ValueError, match="lanes must be from 1 to 1536, not 0"):
        evaluate_encoder("exact", "e4m3", lanes=0)
    with pytest.raises(ValueError, match="int32 takes integer formats only"):
        evaluate_encoder("int32", "e4m3")


def test_cosines():
    a = [np.array([1, 0]), np.array([1, 1]), np.array([np.nan, 1]), np.array([0, 0])]
    b = [np.array([0, 2]), np.array([3, 3]), np.array([1, 1]), np.array([1, 1])]
    np.testing.assert_allclose(cosines(a, b), [0, 1, math.sqrt(0.5), 0])


def test_missing_packages_name_the_extra(monkeypatch):
    monkeypatch.undo()  # the real loader

    def missing(name):
        raise ImportError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    encoder.load_encoder.cache_clear()
    with pytest.raises(ImportError, match=r"needs the packages of mxdot\[real\] \(torch is"):
        encoder.load_encoder()


def test_sentences():
    assert len(SENTENCES) == len(set(SENTENCES)) == 40
    assert all(20 < len(s) < 60 and s[-1] in ".?" for s in SENTENCES)
