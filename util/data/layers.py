"""Linear layers of the sentence encoder as data: a weight, and what comes in for real sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.errors import choice
from .encoder import load_encoder
from .sentences import SENTENCES

QUERY = "encoder.layer.3.attention.self.query"  # 384 to 384
MLP_UP = "encoder.layer.3.intermediate.dense"  # 384 to 1536


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """A layer computes activations x weight^T (+ bias).

    activations: float32 (tokens, K), those of all sentences, one after the other. weight: float32
    (outputs, K).
    """

    name: str
    activations: NDArray[np.float32]
    weight: NDArray[np.float32]


def linear_layers(
    names: Sequence[str] = (QUERY, MLP_UP), sentences: Sequence[str] = SENTENCES
) -> list[LinearLayer]:
    """The encoder's linear layers of these names, fed with `sentences`.

    ImportError without the extra `real`; ValueError for an unknown name or no sentence.
    """
    if not sentences:
        raise ValueError("sentences must hold at least one sentence, not none")
    encoder = load_encoder()
    for name in names:
        choice("layer", name, encoder.linear)
    inputs = encoder.inputs(names, sentences)
    return [
        LinearLayer(name, inputs[name], encoder.linear[name].weight.detach().numpy().copy())
        for name in names
    ]
