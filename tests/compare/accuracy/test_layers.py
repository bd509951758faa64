"""Layers of the encoder as data, with a stand-in for the network."""

import numpy as np
import pytest

from mxdot.util.data.encoder import linear_layers

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)


class Weight:
    def detach(self):
        return self

    def numpy(self):
        return WEIGHT


class Module:
    weight = Weight()


class Network:
    def __init__(self):
        self.linear = {"first": Module(), "second": Module()}

    def inputs(self, names, sentences):
        rows = [[len(sentence)] * 4 for sentence in sentences]
        return {name: np.array(rows, np.float32) + (name == "second") for name in names}


@pytest.fixture(autouse=True)
def network(monkeypatch):
    monkeypatch.setattr("mxdot.util.data.encoder.load_encoder", Network)


def test_weights_and_the_activations_of_all_sentences():
    second, first = linear_layers(["second", "first"], ["a", "bcd"])
    assert (second.name, first.name) == ("second", "first")
    assert second.activations.tolist() == [[2] * 4, [4] * 4]
    assert first.activations.tolist() == [[1] * 4, [3] * 4]
    assert np.array_equal(first.weight, WEIGHT)
    assert first.weight is not WEIGHT


def test_refused():
    with pytest.raises(ValueError, match="layer must be one of first, second, not 'third'"):
        linear_layers(["third"])
    with pytest.raises(ValueError, match="sentences must hold at least one sentence, not none"):
        linear_layers(["first"], [])
