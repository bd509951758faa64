"""Quantisation of tensors to MX blocks, as `mxdot.model.quantize` (section 2 of the contract).

Everything here is plain PyTorch and exact in the `carrier` of the format: a scaled value that
float32 rounds or flushes is so far below the element's last place that no rounding can see it.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...model.blocks import LARGEST_BLOCK, check_axis, scale_shape
from ...model.errors import choice, flag, integer
from ...model.formats import E8M0, ROUNDINGS, ElementFormat
from ...model.quantize import NONFINITE, SCALE_RULES
from ...model.scale_rules import shared_exponent
from .. import checks, executors
from ..chunks import split
from ..tensors.elements import carrier, encode
from ..tensors.floats import power32
from ..tensors.formats import code_dtype, element_format
from ..tensors.mx import MXTensor


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
        """Where the input is."""
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
    rng: for ``stochastic`` rounding, a torch.Generator or one uint32 word per element (shape of
    the padded `x`); other roundings ignore it.
    pad: append zeros up to a whole block; the result's `padding` says how many.
    executor: ``torch`` or ``triton``; None takes Triton on CUDA where it can, else PyTorch.
    The result is on the device of `x`, cut from its gradient.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    flag("pad", pad)
    block_size = integer("block_size", block_size, 1, LARGEST_BLOCK)
    values = checks.floats("x", x)
    axis = check_axis(tuple(values.shape), axis)
    padding = -values.shape[axis] % block_size if pad else 0
    if padding:
        shape = list(values.shape)
        shape[axis] = padding
        values = torch.cat([values, values.new_zeros(shape)], dim=axis)
    request = checked(values, fmt, block_size, axis, scale_rule, rounding, nonfinite, rng)
    codes, scales = executors.run(executors.QUANTIZE, executor, request, run)
    return MXTensor.of_valid_codes(codes, scales, request.format, block_size, axis, padding)


def checked(
    x: Tensor,
    fmt: ElementFormat | str,
    block_size: int,
    axis: int,
    scale_rule: str,
    rounding: str,
    nonfinite: str,
    rng: torch.Generator | Tensor | None,
) -> Quantization:
    """The request to quantise `x`, a float tensor in whole blocks; the arguments of `quantize`."""
    fmt = element_format(fmt, "fmt")
    choice("scale_rule", scale_rule, SCALE_RULES)
    choice("rounding", rounding, ROUNDINGS)
    choice("nonfinite", nonfinite, NONFINITE)
    scale_shape(tuple(x.shape), axis, block_size)
    words = random_words(rng, x) if rounding == "stochastic" else None
    return Quantization(x, fmt, block_size, axis % x.ndim, scale_rule, rounding, nonfinite, words)


def random_words(rng: Any, x: Tensor) -> Tensor:
    """One uint32 word for each element of `x`, given or drawn; ValueError for any other `rng`."""
    if isinstance(rng, torch.Generator):
        words = torch.empty(x.shape, dtype=torch.int32, device=x.device)
        return words.random_(-(2**31), 2**31, generator=rng).view(torch.uint32)
    if isinstance(rng, Tensor) and rng.dtype == torch.uint32 and rng.shape == x.shape:
        checks.same_device(x=x, rng=rng)
        return rng
    got = repr(rng)
    if isinstance(rng, Tensor):
        got = f"{checks.dtype_name(rng.dtype)} {tuple(rng.shape)}"
    raise ValueError(
        f"rng must be a torch.Generator or uint32 words of shape {tuple(x.shape)} "
        f"for stochastic rounding, not {got}"
    )


def refusal(_: Quantization) -> None:
    """Plain PyTorch takes every request."""


def run(request: Quantization) -> tuple[Tensor, Tensor]:
    """Codes (the shape of x) and scales, contiguous, by plain PyTorch."""
    k, axis = request.block_size, request.axis
    moved = request.x.movedim(axis, -1)
    blocks = moved.reshape(-1, k)
    words = request.words
    if words is not None:
        words = words.movedim(axis, -1).reshape(-1, k)
    codes = torch.empty(blocks.shape, dtype=code_dtype(request.format), device=blocks.device)
    scales = torch.empty(blocks.shape[:1], dtype=torch.uint8, device=blocks.device)
    for rows in split(blocks):
        chosen = None if words is None else words[rows]
        codes[rows], scales[rows] = _quantize_blocks(blocks[rows], request, chosen)
    scales = scales.reshape(*moved.shape[:-1], moved.shape[-1] // k)
    return (
        codes.reshape(moved.shape).movedim(-1, axis).contiguous(),
        scales.movedim(-1, axis).contiguous(),
    )


def _quantize_blocks(
    blocks: Tensor, request: Quantization, words: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Codes (n, k) and scales (n,) of blocks (n, k)."""
    fmt, blocks = request.format, blocks.to(torch.float32)
    finite = blocks.isfinite()
    amax = torch.where(finite, blocks.abs(), 0.0).amax(dim=-1)
    low, high = E8M0.exponent_range
    exponent = shared_exponent(amax, fmt, request.scale_rule).clamp(low, high).to(torch.int32)

    if request.nonfinite == "poison":
        poisoned = ~finite.all(dim=-1)
    elif fmt.nan_code is None:
        poisoned = blocks.isnan().any(dim=-1)
    else:
        poisoned = torch.zeros_like(amax, dtype=torch.bool)
    taken = torch.where(poisoned[:, None], 0.0, blocks)
    scaled = taken.to(carrier(fmt)) * power32(-exponent)[:, None]
    codes = encode(scaled, fmt, request.rounding, words)
    scales = torch.where(poisoned, E8M0.nan_code, exponent + E8M0.bias)
    return codes, scales.to(torch.uint8)
