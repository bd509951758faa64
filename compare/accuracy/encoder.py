"""End to end: a real sentence encoder with the accumulator inside every linear layer.

The encoder is all-MiniLM-L6-v2 (6 layers, 384 wide, embeddings of 384 numbers) from the package gt-
all-minilm-l6-v2 of the extra `real`, weights included: nothing is fetched. Every `Linear` layer
multiplies quantised activations by quantised weights with `mxdot.model.matmul`. The bias,
attention's products, softmax, normalisation and GELU stay in float32. The comparison is between
embeddings of sentences: means of the last layer over tokens.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...model import Accumulator, MXArray, matmul
from ...model import accumulator as as_accumulator
from ...model.accumulators import any_operands
from ...model.errors import integer
from ...util.data.encoder import F32, Layer, load_encoder
from ...util.data.sentences import SENTENCES
from .evaluation import Pair, in_blocks, one_pair, pair_name

Progress = Callable[[int, int], None]
WIDTHS = (384, 1536)  # the lengths of the encoder's dot products


@dataclass(frozen=True)
class EncoderAccuracy:
    """Cosine similarity of the embeddings of `sentences` sentences to float32.

    cosine_mean, cosine_min: with format and accumulator. format_mean, format_min: with the same
    formats and float64 products, the cost of the format alone. cosines: per sentence, with format
    and accumulator. products: element products computed. seconds: time taken.
    """

    accumulator: str
    formats: str
    lanes: int
    scale_rule: str
    sentences: int
    cosine_mean: float
    cosine_min: float
    format_mean: float
    format_min: float
    cosines: tuple[float, ...]
    products: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self) | {"cosines": list(self.cosines)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; TypeError for missing or unknown names."""
        read: dict[str, Any] = values | {"cosines": tuple(values["cosines"])}
        return cls(**read)


def evaluate_encoder(
    rule: Accumulator | str,
    pair: str | Pair,
    *,
    lanes: int = 32,
    scale_rule: str = "floor",
    sentences: Sequence[str] = SENTENCES,
    progress: Progress | None = None,
) -> EncoderAccuracy:
    """Embed `sentences` with `rule` inside every linear layer, a sentence at a time.

    pair: formats of activations and weights, as for `evaluate`. lanes: the block size; a layer
    whose width it does not divide is filled up with zeros. progress(done, of): called after every
    sentence. Takes a few minutes for the whole set (4e9 products).
    Raises ImportError without the extra `real`; TypeError or ValueError, naming the argument.
    """
    rule = as_accumulator(rule)
    formats = one_pair(pair)
    rule.check_formats(*formats)
    integer("lanes", lanes, 1, max(WIDTHS))
    if not sentences:
        raise ValueError("sentences must hold at least one sentence, not none")
    started = time.monotonic()
    encoder = load_encoder()
    layers = _Layers(formats, lanes, scale_rule)
    plain, quantised, own = [], [], []
    for i, sentence in enumerate(sentences):
        plain.append(encoder.embed(sentence))
        with encoder.replaced(layers.float64):
            quantised.append(encoder.embed(sentence))
        with encoder.replaced(layers.accumulated(rule)):
            own.append(encoder.embed(sentence))
        if progress is not None:
            progress(i + 1, len(sentences))
    both, format_only = cosines(plain, own), cosines(plain, quantised)
    return EncoderAccuracy(
        accumulator=str(rule),
        formats=pair_name(formats),
        lanes=lanes,
        scale_rule=scale_rule,
        sentences=len(sentences),
        cosine_mean=float(both.mean()),
        cosine_min=float(both.min()),
        format_mean=float(format_only.mean()),
        format_min=float(format_only.min()),
        cosines=tuple(both.tolist()),
        products=layers.products,
        seconds=time.monotonic() - started,
    )


def cosines(a: Sequence[F32], b: Sequence[F32]) -> NDArray[np.float64]:
    """Cosine similarity of corresponding vectors; 0 where one is not finite."""
    x, y = (np.nan_to_num(np.array(v, np.float64), nan=0, posinf=0, neginf=0) for v in (a, b))
    norms = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    return (x * y).sum(axis=-1) / np.maximum(norms, np.finfo(np.float64).tiny)


class _Layers:
    """Quantised products in place of linear layers; each weight is quantised once.

    A layer is a function (name, input (tokens, K), weight (N, K)) -> (tokens, N), all float32.
    """

    def __init__(self, formats: Pair, lanes: int, scale_rule: str) -> None:
        self.formats, self.lanes, self.scale_rule = formats, lanes, scale_rule
        self.weights: dict[str, MXArray] = {}
        self.values: dict[str, NDArray[np.float64]] = {}
        self.products = 0

    def accumulated(self, rule: Accumulator) -> Layer:
        """Return layers that multiply by `rule`."""

        @any_operands()
        def layer(name: str, x: F32, weight: F32) -> F32:
            self.products += x.shape[0] * weight.size
            return matmul(self._quantize(x, 0), self._weight(name, weight), rule)

        return layer

    def float64(self, name: str, x: F32, weight: F32) -> F32:
        """Multiply the same quantised operands in float64."""
        if name not in self.values:
            self.values[name] = self._weight(name, weight).dequantize().astype(np.float64)
        product = self._quantize(x, 0).dequantize().astype(np.float64) @ self.values[name].T
        return product.astype(np.float32)

    def _weight(self, name: str, weight: F32) -> MXArray:
        if name not in self.weights:
            self.weights[name] = self._quantize(weight, 1)
        return self.weights[name]

    def _quantize(self, x: F32, operand: int) -> MXArray:
        fmt = self.formats[operand]
        return in_blocks(x, fmt, self.lanes, self.scale_rule)
