"""Products of few rows of floats with the codes of a weight: operator `mxdot::few_rows_matmul`.

The codes go from memory to the multipliers; no matrix of values is written.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import executors
from ..operators import operator
from ..tensors.container import CLASSES
from ..tensors.mx import MXTensor
from ..tensors.packed import PackedTensor
from ..tensors.scaled import ScaledTensor

Weights = MXTensor | ScaledTensor | PackedTensor
MOST_ROWS = 16
FLOATS = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class FewRows:
    """A checked request: contiguous floats (M, K) and the codes of a weight (N, K)."""

    x: Tensor
    weights: Weights

    @property
    def device(self) -> torch.device:
        return self.x.device


def few_rows_matmul(x: Tensor, weights: Weights, *, executor: str | None = None) -> Tensor:
    """The (M, N) products of the rows of `x` (M, K) and a weight (N, K), in the type of `x`.

    x: bfloat16 or float16. Products are summed in float32 in an order of the executor's own, and
    results are rounded once. executor:

    ``triton``  up to 16 rows. A weight is a float32 product of code and scales, rounded to the type
                of `x` where there are two rows or more; scales of whole rows multiply the sums.
    ``torch``   the values of the weight, rounded to the type of `x`, and the library's product.

    `multiply.py` has checked the arguments. ValueError says why an executor cannot.
    """
    kind, facts, parts = type(weights).__name__, weights.facts(), weights.named_parts()
    packed = kind == PackedTensor.__name__
    if packed:
        kind, *facts = facts
    name, *sizes = facts
    values, shape = list(parts.values()), [*weights.shape]
    return _few_rows(x, values, " ".join(parts), kind, name, sizes, packed, shape, executor)


def takes(x: Tensor, weights: Any) -> bool:
    """Whether `x` has few rows of a 16-bit float, and `weights` are codes, on a CUDA device."""
    few = 0 < x.shape[0] <= MOST_ROWS and x.shape[1] > 0
    return isinstance(weights, Weights) and few and x.dtype in FLOATS and x.device.type == "cuda"


def _fake(
    x: Tensor,
    parts: list[Tensor],
    part_names: str,
    kind: str,
    name: str,
    sizes: list[int],
    packed: bool,
    shape: list[int],
    executor: str | None,
) -> Tensor:
    return x.new_empty((x.shape[0], shape[0]))


@operator("few_rows_matmul", _fake)
def _few_rows(
    x: Tensor,
    parts: list[Tensor],
    part_names: str,
    kind: str,
    name: str,
    sizes: list[int],
    packed: bool,
    shape: list[int],
    executor: str | None,
) -> Tensor:
    by_name, facts = dict(zip(part_names.split(), parts, strict=True)), (name, *sizes)
    if packed:
        weights: Any = PackedTensor(by_name, (kind, *facts), shape)
    else:
        weights = CLASSES[kind].made_of(by_name, facts, shape)
    return executors.run(executors.FEW_ROWS, executor, FewRows(x.contiguous(), weights))


def refusal(_: FewRows) -> None:
    """Plain PyTorch takes every request."""


def run(request: FewRows) -> Tensor:
    """The product (M, N) by plain PyTorch."""
    x = request.x
    with torch.autocast(x.device.type, enabled=False):  # which has dtypes of its own
        return x @ request.weights.dequantize(x.dtype).t()
