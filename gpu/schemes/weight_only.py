"""Products of floats with packed 4-bit weights: few rows at the speed that weights are read at.

The operator is `mxdot::weight_only_matmul`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...model.formats import FloatFormat, IntegerFormat
from ...model.schemes import Scheme
from ...model.schemes.grouping import expand
from .. import checks, executors
from ..names import named_scheme
from ..operators import operator
from ..tensors.container import Container, along, whole_groups
from ..tensors.scaled import ScaledTensor, scaled_of
from .operand import check_codes

TILE = 128  # rows of a weight that are stored together
CHUNK = 64  # elements of a row that are
GROUP = 128  # the most elements of a row that the kernel scales at once
BITS, BIAS = 4, 8  # of a stored element, and what is added to it
FLOATS = (torch.bfloat16, torch.float16)

# The axes of a weight's elements: tile; 16 rows of a warp, half of them, row; chunk; 32 columns, 16
# columns, 8 columns, pair, one of the pair. In `ORDER` a thread of a warp reads 16 bytes that hold
# what it hands to the tensor core (PTX ISA, fragments of wgmma.m64nNk16); the last three axes are
# those of the 8 elements of a word.
AXES = (-1, TILE // 16, 2, 8, -1, 2, 2, 2, 4, 2)
ORDER = (0, 4, 1, 3, 8, 7, 5, 9, 6, 2)


class PackedWeights(Container):
    """A weight (N, K) of 4-bit integers in groups along K; made by `pack_weights`.

    words: int32, 8 elements each, tiles of rows one after the other, the last filled up with zeros.
    scales: floats (tiles, K / group, TILE). group: elements of a row that share a scale, 64 or 128.
    """

    def __new__(
        cls, words: Tensor, scales: Tensor, shape: Sequence[int], group: int
    ) -> "PackedWeights":
        return cls.wrapper(shape, words.device)

    def __init__(self, words: Tensor, scales: Tensor, shape: Sequence[int], group: int) -> None:
        self.words, self.scales, self.group = words, scales, group

    def named_parts(self) -> dict[str, Tensor]:
        return {"words": self.words, "scales": self.scales}

    def facts(self) -> tuple[int]:
        return (self.group,)

    @classmethod
    def made_of(
        cls, parts: dict[str, Tensor], facts: tuple[Any, ...], shape: Sequence[int]
    ) -> "PackedWeights":
        return cls(parts["words"], parts["scales"], shape, *facts)

    def cut(self, dim: int, start: int, stop: int) -> "PackedWeights":
        if dim:
            return self._columns(start, stop)
        tiles = whole_groups(0, start, stop, self.shape[0], TILE)
        words = along(self.words.reshape(len(self.scales), -1), 0, tiles).reshape(-1)
        shape = stop - start, self.shape[1]
        return PackedWeights(words, along(self.scales, 0, tiles), shape, self.group)

    def _columns(self, start: int, stop: int) -> "PackedWeights":
        groups = whole_groups(1, start, stop, self.shape[1], self.group)
        chunks = slice(start // CHUNK, stop // CHUNK)
        words = self.words.reshape(len(self.scales), self.shape[1] // CHUNK, -1)
        words = along(words, 1, chunks).reshape(-1)
        scales = along(self.scales, 1, groups).contiguous()
        return PackedWeights(words, scales, (self.shape[0], stop - start), self.group)

    def dequantize(
        self, dtype: torch.dtype = torch.float32, *, executor: str | None = None
    ) -> Tensor:
        """Values q x s (N, K), RNE in float32 and once more in a narrower `dtype`.

        executor: ``torch`` or ``triton``, as in `quantize`.
        """
        checks.float_dtype("dtype", dtype)
        rules = list(self.shape), self.group, dtype, executor
        return _dequantize(self.words, self.scales, *rules)


@dataclass(frozen=True)
class WeightValues:
    """A checked request for the values of a weight, of a dtype."""

    weights: PackedWeights
    dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        return self.weights.words.device


def _fake_values(
    words: Tensor, scales: Tensor, shape: list[int], group: int, dtype: torch.dtype, *_: Any
) -> Tensor:
    return words.new_empty(shape, dtype=dtype)


@operator("dequantize_weights", _fake_values)
def _dequantize(
    words: Tensor,
    scales: Tensor,
    shape: list[int],
    group: int,
    dtype: torch.dtype,
    executor: str | None,
) -> Tensor:
    request = WeightValues(PackedWeights(words, scales, torch.Size(shape), group), dtype)
    return executors.run(executors.WEIGHT_VALUES, executor, request)


def packs(b: ScaledTensor) -> bool:
    """Whether `pack_weights` takes `b`, a ScaledTensor."""
    try:
        _check_weights(b)
    except ValueError:
        return False
    return True


def pack_weights(b: ScaledTensor) -> PackedWeights:
    """`b` (N, K) as `weight_only_matmul` reads it.

    b: elements are 4-bit two's complement integers without zero points, blocked along the last
    axis; one level of float scales, each for a multiple of 64 elements of a row, or of any number
    of rows. Raises TypeError or ValueError, naming what is wrong.
    """
    if not isinstance(b, ScaledTensor):
        raise TypeError(f"b must be a ScaledTensor, not {type(b).__name__}")
    height, shared = _check_weights(b)
    group = CHUNK if shared % GROUP else GROUP
    words, scales = _pack(b.parts(), b.scheme_name, height, shared // group, group)
    return PackedWeights(words, scales, b.shape, group)


def _fake_pack(
    parts: list[Tensor], scheme: str, height: int, groups: int, group: int
) -> tuple[Tensor, Tensor]:
    codes, scales = parts
    rows, length = codes.shape
    tiles = (rows + TILE - 1) // TILE
    return (
        codes.new_empty(tiles * TILE * length * BITS // 32, dtype=torch.int32),
        scales.new_empty(tiles, length // group, TILE),
    )


@operator("pack_weights", _fake_pack)
def _pack(
    parts: list[Tensor], scheme: str, height: int, groups: int, group: int
) -> tuple[Tensor, Tensor]:
    """Words and scales; those of `parts` are each for `height` rows and `groups` groups."""
    b = scaled_of(scheme, parts, 1)
    check_codes(b)
    rows, length = b.codes.shape
    zeros = (0, 0, 0, -rows % TILE)
    # Two's complement plus a bias of half the range: the top bit inverted.
    codes = pad(b.codes, zeros) ^ BIAS
    tiles, chunks = len(codes) // TILE, length // CHUNK
    elements = codes.reshape(tiles, *AXES[1:4], chunks, *AXES[5:]).permute(ORDER)
    fields = elements.reshape(-1, 32 // BITS)
    words = fields[:, 0].to(torch.int32)
    # One by one: 32-bit integers of all elements fill 8 times the memory of the words.
    for i in range(1, 32 // BITS):
        words |= torch.bitwise_left_shift(fields[:, i].to(torch.int32), BITS * i)
    scales = expand(b.scales[0], (height, groups))
    scales = pad(scales, zeros).reshape(tiles, TILE, length // group).transpose(1, 2).contiguous()
    return words, scales


def _check_weights(b: ScaledTensor) -> tuple[int, int]:
    """Rows, and elements of a row, that share a scale; ValueError for what cannot be packed."""
    if len(b.shape) != 2 or b.axis not in (-1, 1):
        shape, axis = tuple(b.shape), b.axis
        raise ValueError(f"b must have shape (N, K) and axis 1, not shape {shape} and axis {axis}")
    scheme = named_scheme(b.scheme_name)
    _check_scheme(scheme)
    rows, length = b.shape
    height, shared = scheme.levels[0].granularity.group((rows, length))
    if not rows or shared % CHUNK:
        raise ValueError(
            f"elements of b that share a scale must be a multiple of {CHUNK}, not {shared}"
        )
    return height, shared


def _check_scheme(scheme: Scheme) -> None:
    (element, *more), (level, *inner) = scheme.elements, scheme.levels
    plain = isinstance(element, IntegerFormat) and not (
        element.sign_magnitude or element.fraction_bits or element.lowest >= 0
    )
    if more or not plain or element.bits != BITS or scheme.zero_point:
        elements = ", ".join(map(str, scheme.elements)) + " and a zero point" * scheme.zero_point
        raise ValueError(
            f"elements of b must be 4-bit two's complement without zero points, not {elements} of "
            f"{scheme}"
        )
    if inner or not isinstance(level.format, FloatFormat) or level.format.bits == 8:
        levels = ", ".join(map(str, scheme.levels))
        raise ValueError(
            f"levels of b must be one of float32, float16 or bfloat16 scales, not {levels} of "
            f"{scheme}"
        )


@dataclass(frozen=True)
class WeightOnlyRequest:
    """A checked request: contiguous floats (M, K), M at least 1, and a weight (N, K)."""

    x: Tensor
    weights: PackedWeights

    @property
    def device(self) -> torch.device:
        return self.x.device


def weight_only_matmul(x: Tensor, weights: PackedWeights, *, executor: str | None = None) -> Tensor:
    """The (..., N) products of the rows of `x` (..., K) and a weight (N, K), in the type of `x`.

    x: bfloat16 or float16. Products are exact and summed in float32, in an order of the executor's
    own; results are rounded once. executor:

    ``triton``  q x x summed over each group, then scaled by s and added to the others: weights are
                not rounded. Rows up to 64, for whose speed this function is there.
    ``torch``   weights q x s rounded to the type of `x` (section 7 of docs/numerics.md), then the
                library's product: the rule for more rows, and for other devices than CUDA.

    `matmul` is the product whose every bit is specified. Raises TypeError or ValueError, naming the
    argument, before any work.
    """
    if not checks.holds_values(x) or x.dtype not in FLOATS:
        kind = checks.dtype_name(x.dtype) if checks.holds_values(x) else type(x).__name__
        raise TypeError(f"x must be a tensor of bfloat16 or float16, not {kind}")
    if not isinstance(weights, PackedWeights):
        raise TypeError(f"weights must be PackedWeights, not {type(weights).__name__}")
    rows, length = weights.shape
    if not x.ndim or x.shape[-1] != length:
        shapes = f"{tuple(x.shape)} and {tuple(weights.shape)}"
        raise ValueError(f"x and weights must have shapes (..., K) and (N, K), not {shapes}")
    checks.same_device(x=x, weights=weights.words)
    matrix = x.reshape(prod(x.shape[:-1]), length)
    parts = weights.words, weights.scales, list(weights.shape), weights.group
    return _matmul(matrix, *parts, executor).reshape(*x.shape[:-1], rows)


def _fake(x: Tensor, words: Tensor, scales: Tensor, shape: list[int], *others: Any) -> Tensor:
    return x.new_empty((x.shape[0], shape[0]))


@operator("weight_only_matmul", _fake)
def _matmul(
    x: Tensor, words: Tensor, scales: Tensor, shape: list[int], group: int, executor: str | None
) -> Tensor:
    if not x.numel():
        return x.new_empty((len(x), shape[0]))
    weights = PackedWeights(words, scales, torch.Size(shape), group)
    request = WeightOnlyRequest(x.contiguous(), weights)
    return executors.run(executors.WEIGHT_ONLY, executor, request)


def refusal(_: WeightOnlyRequest) -> None:
    """Plain PyTorch takes every request."""


def run(request: WeightOnlyRequest) -> Tensor:
    """The product (M, N) by plain PyTorch, of values that the best executor makes."""
    x = request.x
    with torch.autocast(x.device.type, enabled=False):  # which has dtypes of its own
        return x @ request.weights.dequantize(x.dtype).t()
