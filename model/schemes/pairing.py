"""Schemes of both operands of a product: weights and activations."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from . import Scheme, quantize, storage
from . import scheme as find

BFLOAT16 = "bfloat16"
BFLOAT16_BITS = 16
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Pairing:
    """A scheme of weights, and one of activations; None leaves these in bfloat16 (weight-only)."""

    weights: Scheme
    activations: Scheme | None

    @property
    def name(self) -> str:
        """What `pairing` reads: one name where both are the same."""
        if self.activations == self.weights:
            return self.weights.name
        return f"{self.weights}/{self.activations or BFLOAT16}"

    def bits(self, weights: tuple[int, int], activations: tuple[int, int]) -> tuple[float, float]:
        """Bits per element of matrices of these shapes, everything counted."""
        return tuple(
            BFLOAT16_BITS if scheme is None else float(storage(scheme, *shape).bits_per_element)
            for scheme, shape in ((self.weights, weights), (self.activations, activations))
        )  # type: ignore[return-value]

    def weight_values(self, weights: F32) -> F32:
        """What quantisation leaves of weights (N, K); in a weight-only product as bfloat16."""
        values = _values(self.weights, weights)
        return values if self.activations is not None else _bfloat16(values)

    def activation_values(self, activations: F32) -> F32:
        """What quantisation leaves of activations (M, K)."""
        if self.activations is None:
            return _bfloat16(activations)
        return _values(self.activations, activations)


def pairing(text: str) -> Pairing:
    """The pairing of ``scheme`` for both operands, or of ``weights/activations``.

    Activations may be ``bfloat16``. ValueError lists the names of schemes.
    """
    weights, mark, activations = text.partition("/")
    first = find(weights, "scheme")
    if not mark:
        return Pairing(first, first)
    if activations.strip().lower() == BFLOAT16:
        return Pairing(first, None)
    return Pairing(first, find(activations, "scheme"))


def _values(scheme: Scheme, x: F32) -> F32:
    return quantize(x, scheme).dequantize()


def _bfloat16(x: F32) -> F32:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)
