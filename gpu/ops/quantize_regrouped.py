"""A matrix quantised to MX blocks and regrouped at once, for FP8 products: operator
`mxdot::quantize_regrouped`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...model.formats import E4M3
from .. import executors
from ..call_cache import Prepared, kind
from ..names import named_format
from ..operators import operator
from ..tensors.mx import FLOAT8
from . import quantize as mx
from . import regroup as groups
from .regroup import GROUP, Regrouped, padded

PREPARED = Prepared()


@dataclass(frozen=True)
class QuantizeRegrouped:
    """A checked request: a float matrix (R, K), the name of a format that can be regrouped, a block
    size that divides 128, and a scale rule; rounded to nearest even, NaN poisons."""

    x: Tensor
    format: str
    block_size: int
    scale_rule: str

    @property
    def device(self) -> torch.device:
        return self.x.device


def quantize_regrouped(x: Tensor, fmt: str, block_size: int, scale_rule: str) -> Regrouped:
    """`regroup(quantize(x, fmt, ..., pad=True))` of a matrix; arguments are not checked here."""
    codes, scales = _quantize_regrouped(x, fmt, block_size, scale_rule, None)
    rows, length = x.shape
    shape = rows, length + -length % block_size
    return Regrouped(codes.view(FLOAT8[E4M3]), scales.t(), shape)


def _fake(x: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    rows, length = padded(*x.shape)
    scales = x.new_empty((length // GROUP, rows), dtype=torch.float32)
    return x.new_empty((rows, length), dtype=torch.uint8), scales


@operator("quantize_regrouped", _fake)
def _quantize_regrouped(
    x: Tensor, fmt: str, block_size: int, scale_rule: str, executor: str | None
) -> tuple[Tensor, Tensor]:
    """Codes (R, K) and float32 scales (K / 128, R), all filled up."""

    def make() -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        request = QuantizeRegrouped(x, fmt, block_size, scale_rule)
        return executors.prepare(executors.QUANTIZE_REGROUPED, executor, request)

    return PREPARED((fmt, block_size, scale_rule, executor, *kind(x)), make)(x)


def refusal(_: QuantizeRegrouped) -> None:
    """One operator after the other takes every request."""


def prepare(request: QuantizeRegrouped) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """The work for requests like this one: one operator after the other."""
    fmt, block_size = request.format, request.block_size
    rules = named_format(fmt), block_size, 1, request.scale_rule, "nearest_even", "poison", None

    def work(x: Tensor) -> tuple[Tensor, Tensor]:
        missing = -x.shape[1] % block_size
        whole = pad(x, (0, missing)) if missing else x
        made = executors.run(executors.QUANTIZE, None, mx.Quantization(whole, *rules))
        request = groups.Regrouping(*made, rules[0], block_size)
        return executors.run(executors.REGROUP, None, request)

    return work
