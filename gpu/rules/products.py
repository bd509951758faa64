"""The product of two matrices by the rules, a tile of the result at a time."""

import torch
from torch import Tensor

from ..matmul import Product


def refusal(_: Product) -> None:
    """Plain PyTorch takes every product."""


def run(product: Product) -> Tensor:
    """The (M, N) float32 results."""
    raise NotImplementedError
