"""Quantisation of tensors to MX blocks, as `mxdot.model.quantize` (section 2 of the contract):
operator `mxdot::quantize`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad as pad_with_zeros

from ...model.blocks import LARGEST_BLOCK, check_axis, scale_shape
from ...model.errors import flag, integer
from ...model.formats import ElementFormat
from ...model.schemes.quantize import check_policies, quantized
from ...model.schemes.rules import rule_named
from ...model.schemes.table import mx
from .. import checks, executors
from ..call_cache import Prepared, kind, once
from ..chunks import chunk_size
from ..names import format_name, named_format
from ..operators import operator
from ..tensors.formats import code_dtype, element_format
from ..tensors.mx import MXTensor

PREPARED = Prepared()


@dataclass(frozen=True)
class Quantization:
    """A checked request. x: a float of any shape, `axis` (not negative) in whole blocks.

    words: uint32 of the shape of `x` for ``stochastic`` rounding, else None.
    """

    x: Tensor
    format: ElementFormat
    block_size: int
    axis: int
    scale_rule: str
    rounding: str
    nonfinite: str
    words: Tensor | None

    @property
    def device(self) -> torch.device:
        return self.x.device


def quantize(
    x: Tensor,
    fmt: ElementFormat | str,
    *,
    block_size: int = 32,
    axis: int = -1,
    scale_rule: str = "floor",
    rounding: str = "nearest_even",
    nonfinite: str = "poison",
    rng: torch.Generator | Tensor | None = None,
    pad: bool = False,
    executor: str | None = None,
) -> MXTensor:
    """Quantise `x` in blocks of `block_size` along `axis`.

    x: float32, float16, bfloat16, or float64 that holds float32 values; any shape and strides.
    scale_rule: ``floor`` (OCP MX v1.0, section 6.3), ``ceil`` (least scale that saturates nothing)
    or ``even`` (floor after rounding amax to the element's significand).
    nonfinite: ``poison`` gives a block that holds NaN or Inf the NaN scale and zero codes;
    ``element`` passes them as elements where the format has them.
    rng: for ``stochastic`` rounding, a torch.Generator, one uint32 word per element (shape of the
    padded `x`), or int64 (seed, offset) of `seeded_words`; other roundings ignore it.
    pad: append zeros up to a whole block; the result's `padding` says how many.
    executor: ``torch`` or ``triton``; None takes Triton on CUDA where it can, else PyTorch.
    The result is on the device of `x`, cut from its gradient.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    values = checks.floats("x", x)
    checked = _check(
        fmt, block_size, axis, scale_rule, rounding, nonfinite, pad, tuple(values.shape)
    )
    fmt, name, block_size, axis, padding = checked
    if padding:
        # Not torch.cat, which autocast of another 16-bit type refuses.
        values = pad_with_zeros(
            values, [0, 0] * (values.ndim - 1 - axis % values.ndim) + [0, padding]
        )
    words = random_words(rng, values) if rounding == "stochastic" else None
    rules = name, block_size, axis, scale_rule, rounding, nonfinite
    codes, scales = _quantize(values, *rules, words, executor)
    return MXTensor.of_valid_codes(codes, scales, fmt, block_size, axis, padding)


@once
def _check(
    fmt: ElementFormat | str,
    block_size: int,
    axis: int,
    scale_rule: str,
    rounding: str,
    nonfinite: str,
    pad: bool,
    shape: tuple[int, ...],
) -> tuple[ElementFormat, str, int, int, int]:
    """The format and its text, the block size, the axis, and the zeros that fill it up."""
    flag("pad", pad)
    block_size = integer("block_size", block_size, 1, LARGEST_BLOCK)
    axis = check_axis(shape, axis)
    padding = -shape[axis] % block_size if pad else 0
    padded = list(shape)
    padded[axis] += padding
    rules = block_size, axis, scale_rule, rounding, nonfinite
    fmt = check_arguments(tuple(padded), fmt, *rules)
    return fmt, format_name(fmt), block_size, axis, padding


def check_arguments(
    shape: tuple[int, ...],
    fmt: ElementFormat | str,
    block_size: int,
    axis: int,
    scale_rule: str,
    rounding: str,
    nonfinite: str,
) -> ElementFormat:
    """The format, if a tensor of that shape can be quantised so; ValueError if not."""
    fmt = element_format(fmt, "fmt")
    rule_named("scale_rule", scale_rule, powers=True)
    check_policies(rounding, nonfinite)
    scale_shape(shape, axis, block_size)
    return fmt


def _fake(x: Tensor, fmt: str, block_size: int, axis: int, *others: Any) -> tuple[Tensor, Tensor]:
    shape = list(x.shape)
    codes = x.new_empty(shape, dtype=code_dtype(named_format(fmt)))
    shape[axis] = shape[axis] // block_size
    return codes, x.new_empty(shape, dtype=torch.uint8)


@operator("quantize", _fake)
def _quantize(
    x: Tensor,
    fmt: str,
    block_size: int,
    axis: int,
    scale_rule: str,
    rounding: str,
    nonfinite: str,
    words: Tensor | None,
    executor: str | None,
) -> tuple[Tensor, Tensor]:
    """Codes and scales, contiguous."""

    def make() -> Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]:
        rules = named_format(fmt), block_size, axis % x.ndim, scale_rule, rounding, nonfinite
        return executors.prepare(executors.QUANTIZE, executor, Quantization(x, *rules, words))

    key = fmt, block_size, axis, scale_rule, rounding, nonfinite, words is None, executor, *kind(x)
    return PREPARED(key, make)(x, words)


def random_words(rng: Any, x: Tensor) -> Tensor:
    """One uint32 word for each element of `x`, given or drawn; ValueError for any other `rng`."""
    if isinstance(rng, torch.Generator):
        words = torch.empty(x.shape, dtype=torch.int32, device=x.device)
        return words.random_(-(2**31), 2**31, generator=rng).view(torch.uint32)
    if is_seed(rng):
        checks.same_device(x=x, rng=rng)
        return seeded_words(rng, x.shape)
    if isinstance(rng, Tensor) and rng.dtype == torch.uint32 and rng.shape == x.shape:
        checks.same_device(x=x, rng=rng)
        return rng
    given = repr(rng)
    if isinstance(rng, Tensor):
        given = f"{checks.dtype_name(rng.dtype)} {tuple(rng.shape)}"
    raise ValueError(
        f"rng must be a torch.Generator or uint32 words of shape {tuple(x.shape)} "
        f"for stochastic rounding, not {given}"
    )


def is_seed(rng: Any) -> bool:
    """Whether `rng` is a seed and an offset for `seeded_words`."""
    return isinstance(rng, Tensor) and rng.dtype == torch.int64 and rng.shape == (2,)


PHILOX = ((0xD2511F53, 0x9E3779B9), (0xCD9E8D57, 0xBB67AE85))  # multipliers, and steps of the key
ROUNDS, WORD = 10, 0xFFFFFFFF


def seeded_words(seed: Tensor, shape: torch.Size) -> Tensor:
    """uint32 words of a seed and an offset, int64 (2,), for the elements of a tensor of `shape`.

    Element i of the tensor, counted along rows, has word i mod 4 of Philox4x32-10 (Salmon et al.,
    SC 2011) with the seed as its key and (i div 4, offset) as its counter, low halves first.
    """
    count = shape.numel()
    at = torch.arange((count + 3) // 4, device=seed.device)
    key, offset = _halves(seed[0]), _halves(seed[1])
    counter = [*_halves(at), *(part.expand(at.shape) for part in offset)]
    for _ in range(ROUNDS):
        high, low = zip(
            *(_product(factor, x) for (factor, _), x in zip(PHILOX, counter[::2], strict=True)),
            strict=True,
        )
        counter = [high[1] ^ counter[1] ^ key[0], low[1], high[0] ^ counter[3] ^ key[1], low[0]]
        key = [(k + step) & WORD for k, (_, step) in zip(key, PHILOX, strict=True)]
    return torch.stack(counter, dim=-1).flatten()[:count].reshape(shape).to(torch.uint32)


def _halves(x: Tensor) -> list[Tensor]:
    """Low and high 32 bits of int64."""
    return [x & WORD, torch.bitwise_right_shift(x, 32) & WORD]


def _product(factor: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """High and low 32 bits of factor x `x`, both below 2^32."""
    low = factor * (x & 0xFFFF)
    high = factor * torch.bitwise_right_shift(x, 16) + torch.bitwise_right_shift(low, 16)
    return torch.bitwise_right_shift(high, 16), factor * x & WORD


def refusal(_: Quantization) -> None:
    """Plain PyTorch takes every request."""


def prepare(request: Quantization) -> Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]:
    """`run` for requests like this one."""
    empty = replace(request, x=request.x.new_empty(0), words=None)
    return lambda x, words: run(replace(empty, x=x, words=words))


def run(request: Quantization) -> tuple[Tensor, Tensor]:
    """Codes (the shape of x) and scales, contiguous, by plain PyTorch."""
    policies = request.rounding, request.nonfinite, request.words, chunk_size(request.device)
    scheme = mx(request.format, request.block_size, request.scale_rule)
    codes, (scales,), *_ = quantized(request.x, scheme, request.axis, None, *policies)
    return codes.contiguous(), scales.contiguous()
