"""The executor ``triton`` of `mxdot::dequantize_two`: the first programs have the blocks of a."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import dequantize
from .decode import Codes
from .dequantize import TILE, dequantize_blocks
from .launch import Launch

if TYPE_CHECKING:
    from ..ops.dequantize_two import Two
    from ..tensors.dequantize import Dequantization


def refusal(request: "Two") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    return dequantize.refusal(request.a) or dequantize.refusal(request.b)


def prepare(request: "Two") -> Callable[..., tuple[Tensor, Tensor]]:
    """The work for requests like this one, given codes and scales of both."""
    sides = ("A", request.a), ("B", request.b)
    constants = {name: value for side in sides for name, value in _constants(*side).items()}
    a_count, b_count = (len(side.codes) for _, side in sides)
    a_programs, b_programs = (
        triton.cdiv(n, constants[f"{s}_BLOCKS"]) for n, s in ((a_count, "A"), (b_count, "B"))
    )
    launch = Launch(_dequantize_two, (a_programs + b_programs,), **constants)
    shapes = request.shapes
    options: Any = {"dtype": request.a.dtype, "device": request.device}

    def work(
        a_codes: Tensor, a_scales: Tensor, b_codes: Tensor, b_scales: Tensor
    ) -> tuple[Tensor, Tensor]:
        x, y = (torch.empty(shape, **options) for shape in shapes)
        if a_count or b_count:
            a = a_codes, a_scales, x, a_count
            launch(*a, b_codes, b_scales, y, b_count, a_programs)
        return x, y

    return work


def _constants(side: str, request: "Dequantization") -> dict[str, Any]:
    block = request.codes.shape[1]
    return {
        f"{side}_BLOCK": block,
        f"{side}_BLOCKS": TILE // block,
        f"{side}_FORMAT": Codes.of(request.format, request.device),
    }


@triton.jit
def _dequantize_two(
    a_codes,
    a_scales,
    a_values,
    a_count,
    b_codes,
    b_scales,
    b_values,
    b_count,
    a_programs,
    A_BLOCK: tl.constexpr,
    A_BLOCKS: tl.constexpr,
    A_FORMAT: tl.constexpr,
    B_BLOCK: tl.constexpr,
    B_BLOCKS: tl.constexpr,
    B_FORMAT: tl.constexpr,
):
    program = tl.program_id(0)
    if program < a_programs:
        dequantize_blocks(
            a_codes, a_scales, a_values, a_count, program, A_BLOCK, A_BLOCKS, A_FORMAT
        )
    else:
        program -= a_programs
        dequantize_blocks(
            b_codes, b_scales, b_values, b_count, program, B_BLOCK, B_BLOCKS, B_FORMAT
        )
