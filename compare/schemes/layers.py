"""Errors that schemes cause in products of layers, and end to end in a real network."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.schemes.pairing import Pairing
from ..accuracy import encoder
from .data import matrices

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Error:
    """Difference of results from a reference, all numbers as one vector.

    cosine: of the angle between both; where one is all zeros, 1 without error and 0 with it.
    sqnr_db: 10 log10(sum reference^2 / sum error^2), infinite without error, minus infinite where
    only the reference is all zeros. mse: mean squared error. maximum: largest magnitude of an
    error. Both are in units of the results.
    """

    cosine: float
    sqnr_db: float
    mse: float
    maximum: float


class SchemeErrors:
    """Sums for an `Error`: `add` parts of results and reference, then `total`.

    name: measured object, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.signal = self.power = self.common = self.noise = self.maximum = 0.0
        self.count = 0

    def add(self, results: F64, reference: F64) -> None:
        """Add parts of one shape; ValueError, naming their owner, unless all are finite."""
        for what, part in (("results", results), ("reference", reference)):
            outside = ~np.isfinite(part)
            if outside.any():
                raise ValueError(
                    f"{what} of {self.name} must be finite, not {part[outside].flat[0]}"
                )
        error = results - reference
        self.signal += float(np.square(reference).sum())
        self.power += float(np.square(results).sum())
        self.common += float((results * reference).sum())
        self.noise += float(np.square(error).sum())
        self.maximum = max(self.maximum, float(np.abs(error).max(initial=0.0)))
        self.count += error.size

    def total(self) -> Error:
        """Error of everything added, at least one number."""
        if not self.noise:
            sqnr = math.inf
        elif not self.signal:
            sqnr = -math.inf
        else:
            sqnr = 10 * math.log10(self.signal / self.noise)
        norms = math.sqrt(self.signal) * math.sqrt(self.power)
        cosine = self.common / norms if norms else float(not self.noise)
        return Error(cosine, sqnr, self.noise / self.count, self.maximum)


F32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class Layer:
    """A weight (N, K) and its inputs (tokens, K), each quantised separately."""

    name: str
    weight: F32
    inputs: tuple[F32, ...]


@dataclass(frozen=True)
class Effect:
    """Errors of a pairing per layer, with float32 inputs to each layer.

    Products are computed in float64 from quantised values, without an accumulator. bits: per
    element of weights and of activations, over all layers.
    """

    bits_weights: float
    bits_activations: float
    layers: dict[str, Error]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, except an infinite SQNR."""
        return asdict(self)


def effect_on(pair: Pairing, layers: Iterable[Layer]) -> Effect:
    """Measure the error of each layer; ValueError where a group does not divide a matrix."""
    found: dict[str, Error] = {}
    bits, sizes = np.zeros(2), np.zeros(2)
    for layer in layers:
        weight = layer.weight.astype(np.float64)
        values = pair.weight_values(layer.weight).astype(np.float64)
        errors = SchemeErrors(layer.name)
        for x in layer.inputs:
            quantised = pair.activation_values(x).astype(np.float64)
            errors.add(quantised @ values.T, x.astype(np.float64) @ weight.T)
        found[layer.name] = errors.total()
        tokens = sum(len(x) for x in layer.inputs)
        size = np.array([layer.weight.size, tokens * weight.shape[1]])
        bits += size * _bits(pair, layer)
        sizes += size
    weights, activations = bits / sizes
    return Effect(float(weights), float(activations), found)


def _bits(pair: Pairing, layer: Layer) -> F64:
    """Bits per element of the weight, and of all inputs together."""
    each = [pair.bits(layer.weight.shape, x.shape) for x in layer.inputs]  # type: ignore[arg-type]
    return np.average(each, axis=0, weights=[x.size for x in layer.inputs])


def stored_layers(data: Sequence[str], rows: int, length: int, seed: int) -> list[Layer]:
    """Pairs of `data.matrices` as layers: a is the input, b the weight."""
    pairs = matrices(data, rows=rows, length=length, seed=seed)
    return [Layer(pair.name, pair.b, (pair.a,)) for pair in pairs]


# The sentence encoder ---------------------------------------------------------------------------


@lru_cache(maxsize=1)
def network(sentences: tuple[str, ...]) -> tuple[list[Layer], list[F32]]:
    """Linear layers of the encoder with their float32 inputs, and its embeddings.

    ImportError without the extra `real`.
    """
    model = encoder.load_encoder()
    weights: dict[str, F32] = {}
    inputs: dict[str, list[F32]] = {}

    def record(name: str, x: F32, weight: F32) -> F32:
        weights[name] = weight
        inputs.setdefault(name, []).append(x.copy())
        return (x.astype(np.float64) @ weight.astype(np.float64).T).astype(np.float32)

    with model.replaced(record):
        embeddings = [model.embed(sentence) for sentence in sentences]
    return [Layer(name, weights[name], tuple(inputs[name])) for name in weights], embeddings


@dataclass(frozen=True)
class EndToEnd:
    """Errors of embeddings against float32, as one vector and as cosines per sentence.

    mean, least: of the cosines.
    """

    error: Error
    mean: float
    least: float


def end_to_end(pair: Pairing, sentences: tuple[str, ...]) -> EndToEnd:
    """Run the encoder with quantised operands in every linear layer, products in float64."""
    _, plain = network(sentences)
    model = encoder.load_encoder()
    with model.replaced(_quantised(pair)):
        own = [model.embed(sentence) for sentence in sentences]
    errors = SchemeErrors("the embeddings")
    for ours, reference in zip(own, plain, strict=True):
        errors.add(ours.astype(np.float64), reference.astype(np.float64))
    cosines = encoder.cosines(plain, own)
    return EndToEnd(errors.total(), float(cosines.mean()), float(cosines.min()))


def _quantised(pair: Pairing) -> Callable[[str, F32, F32], F32]:
    """Return layers that multiply quantised values; each weight is quantised once."""
    kept: dict[str, F64] = {}

    def layer(name: str, x: F32, weight: F32) -> F32:
        if name not in kept:
            kept[name] = pair.weight_values(weight).astype(np.float64)
        return (pair.activation_values(x).astype(np.float64) @ kept[name].T).astype(np.float32)

    return layer
