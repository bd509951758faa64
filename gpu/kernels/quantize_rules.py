"""How the quantisation kernels are asked: the rules of blocks, and tensors that they all take."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...model.formats import ElementFormat
from . import device
from .decode import LONGEST_CODE
from .encode import constants

if TYPE_CHECKING:
    from ..ops.quantize import Quantization

LARGEST_BLOCK = 256


@dataclass(frozen=True)
class Rules:
    """How blocks are quantised; the words of `mxdot.gpu.quantize`."""

    format: ElementFormat
    block_size: int = 32
    scale_rule: str = "floor"
    rounding: str = "nearest_even"
    nonfinite: str = "poison"

    @classmethod
    def of(cls, request: "Quantization") -> "Rules":
        """The rules of a checked request."""
        return cls(
            request.format,
            request.block_size,
            request.scale_rule,
            request.rounding,
            request.nonfinite,
        )

    def refusal(self, where: torch.device) -> str | None:
        """Why the kernels cannot quantise on the device `where`; None when they can."""
        k = self.block_size
        if k > LARGEST_BLOCK or k & (k - 1):
            return f"block_size must be a power of two up to {LARGEST_BLOCK}, not {k}"
        if self.format.bits > LONGEST_CODE:
            return f"codes must have at most {LONGEST_CODE} bits, not {self.format.bits}"
        return device.refusal(where)

    def constants(self, where: torch.device) -> dict[str, object]:
        """The kernels' constants."""
        instruction = device.has_fp8_conversion(where)
        return constants(self.format, self.scale_rule, self.rounding, self.nonfinite, instruction)


def empty_codes(count: int, rules: Rules, packed: bool, x: Tensor) -> Tensor:
    """Room for the codes of `count` elements, flat, on the device of `x`."""
    size = count * rules.format.bits // 8 if packed else count
    return torch.empty(size, dtype=torch.uint8, device=x.device)


def signed(words: Tensor | None, x: Tensor) -> Tensor:
    """Contiguous int32 words; `x` where there are none, which is not read."""
    return x if words is None else words.view(torch.int32).contiguous()
