"""MXTensor: element codes and their block scales as PyTorch tensors."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...model.blocks import LARGEST_BLOCK, check_axis, scale_shape
from ...model.errors import integer
from ...model.formats import E4M3, E4M3FNUZ, E5M2, E5M2FNUZ, ElementFormat
from ...model.schemes.array import MXArray
from .. import checks, executors
from ..call_cache import ALIGNMENT, Prepared, kind
from ..names import format_name, named_format
from ..operators import operator
from .container import Container, along, whole_groups
from .dequantize import Dequantization
from .formats import code_dtype, element_format, pack, unpack

FLOAT8: dict[ElementFormat, torch.dtype] = {
    E4M3: torch.float8_e4m3fn,
    E5M2: torch.float8_e5m2,
    E4M3FNUZ: torch.float8_e4m3fnuz,
    E5M2FNUZ: torch.float8_e5m2fnuz,
}


PREPARED = Prepared()


class MXTensor(Container):
    """Blocks of `block_size` consecutive elements along `axis` that share an E8M0 scale.

    codes: uint8 (uint16 or uint32 for longer codes), any shape; the axis a multiple of `block_size`
    long.
    scales: uint8 on the same device, the shape of `codes` with that axis divided by `block_size`.
    Both are kept as they are, not copied. format: an ElementFormat or its name.
    padding: zeros that quantisation appended to the axis.
    Raises TypeError for a wrong dtype and ValueError for a wrong shape, size, device or code.
    """

    def __new__(cls, codes: Tensor, *_: Any, **__: Any) -> "MXTensor":
        codes = checks.tensor("codes", codes)
        return cls.wrapper(codes.shape, codes.device)

    def __init__(
        self,
        codes: Tensor,
        scales: Tensor,
        format: ElementFormat | str,  # noqa: A002  # the attribute's name
        block_size: int = 32,
        axis: int = -1,
        padding: int = 0,
        *,
        valid: bool = False,
    ) -> None:
        """valid: whether codes are known to be in range: looking would make a GPU wait."""
        fmt = element_format(format)
        codes = checks.of_dtype("codes", codes, code_dtype(fmt))
        scales = checks.uint8("scales", scales)
        checks.same_device(codes=codes, scales=scales)
        if not valid:
            _check_range(codes, fmt)
        block_size = integer("block_size", block_size, 1, LARGEST_BLOCK)
        axis = check_axis(tuple(codes.shape), axis)
        want = scale_shape(tuple(codes.shape), axis, block_size)
        if tuple(scales.shape) != want:
            raise ValueError(f"scales must have shape {want}, not {tuple(scales.shape)}")
        self.codes, self.scales = codes, scales
        # By its text: torch.compile takes no object from a tensor.
        self.format_name, self.block_size, self.axis = format_name(fmt), block_size, axis
        self.padding = integer("padding", padding, 0, block_size - 1)

    @classmethod
    def of_valid_codes(
        cls,
        codes: Tensor,
        scales: Tensor,
        format: ElementFormat,  # noqa: A002  # the attribute's name
        block_size: int,
        axis: int,
        padding: int = 0,
    ) -> "MXTensor":
        """An MXTensor of an operator's results, without checks."""
        if torch.compiler.is_compiling():  # which traces a constructor, and nothing else
            return cls(codes, scales, format, block_size, axis, padding, valid=True)
        made = cls.wrapper(codes.shape, codes.device)
        made.codes, made.scales = codes, scales
        made.format_name, made.block_size, made.axis = format_name(format), block_size, axis
        made.padding = padding
        return made

    @property
    def format(self) -> ElementFormat:
        """The elements' format."""
        return named_format(self.format_name)

    def named_parts(self) -> dict[str, Tensor]:
        return {"codes": self.codes, "scales": self.scales}

    def facts(self) -> tuple[str, int, int, int]:
        return self.format_name, self.block_size, self.axis, self.padding

    @classmethod
    def made_of(
        cls, parts: dict[str, Tensor], facts: tuple[Any, ...], shape: Sequence[int]
    ) -> "MXTensor":
        name, *sizes = facts
        return cls(parts["codes"], parts["scales"], named_format(name), *sizes, valid=True)

    def check(self) -> None:
        _check_range(self.codes, self.format)

    def cut(self, dim: int, start: int, stop: int) -> "MXTensor":
        blocks, padding = slice(start, stop), self.padding
        if dim == self.axis % self.ndim:
            blocks = whole_groups(dim, start, stop, self.shape[dim], self.block_size)
            padding = padding if stop == self.shape[dim] else 0
        codes = along(self.codes, dim, slice(start, stop))
        scales = along(self.scales, dim, blocks)
        sizes = self.block_size, self.axis, padding
        return self.of_valid_codes(codes, scales, self.format, *sizes)

    def transposed(self) -> "MXTensor":
        sizes = self.block_size, 1 - self.axis % 2, self.padding
        return self.of_valid_codes(self.codes.t(), self.scales.t(), self.format, *sizes)

    def dequantize(
        self, dtype: torch.dtype = torch.float32, *, executor: str | None = None
    ) -> Tensor:
        """Values, element x 2^(scale - 127), in the shape of `codes`; NaN under a NaN scale.

        float32 values are exact but those of 2^128 and above, which are infinite; a narrower
        `dtype` rounds them once more. executor: ``torch`` or ``triton``, as in `quantize`.
        """
        checks.float_dtype("dtype", dtype)
        k, last = self.block_size, self.axis in (-1, self.ndim - 1)
        if last and self.codes.is_contiguous() and self.scales.is_contiguous():
            blocks = self.codes.view(-1, k), self.scales.view(-1)
            return _dequantize(*blocks, self.format_name, dtype, executor).view(self.codes.shape)
        codes, scales = self.blocks_last()
        lead = codes.shape[:-1]
        blocks = codes.reshape(-1, k).contiguous(), scales.reshape(-1).contiguous()
        values = _dequantize(*blocks, self.format_name, dtype, executor)
        return values.reshape(*lead[:-1], lead[-1] * k).movedim(-1, self.axis).contiguous()

    def blocks_last(self) -> tuple[Tensor, Tensor]:
        """Codes (..., blocks, block_size) and scales (..., blocks): the axis comes last."""
        codes = self.codes.movedim(self.axis, -1)
        blocks = codes.shape[-1] // self.block_size
        return codes.reshape(*codes.shape[:-1], blocks, self.block_size), self.scales.movedim(
            self.axis, -1
        )

    # The model's arrays ---------------------------------------------------------------------------

    @classmethod
    def from_model(cls, x: MXArray, device: torch.device | str = "cpu") -> "MXTensor":
        """Copy an MXArray to `device`. Its codes are already checked."""
        if not isinstance(x, MXArray):
            raise TypeError(f"x must be an MXArray, not {type(x).__name__}")
        codes, scales = (torch.tensor(part, device=device) for part in (x.codes, x.scales))
        return cls.of_valid_codes(codes, scales, x.format, x.block_size, x.axis, x.padding)

    def to_model(self) -> MXArray:
        """Copy to the model's array, in host memory."""
        codes, scales = self.codes.cpu().numpy(), self.scales.cpu().numpy()
        return MXArray(codes, scales, self.format, self.block_size, self.axis, self.padding)

    # torch's dtypes -------------------------------------------------------------------------------

    def to_float8(self) -> tuple[Tensor, Tensor]:
        """Views of the codes as float8_e4m3fn, float8_e5m2 or their FNUZ like, of the scales as
        float8_e8m0fnu."""
        if self.format not in FLOAT8:
            known = " or ".join(fmt.name for fmt in FLOAT8)
            raise ValueError(f"format must be {known} to have a torch dtype, not {self.format}")
        return self.codes.view(FLOAT8[self.format]), self.scales.view(torch.float8_e8m0fnu)

    @classmethod
    def from_float8(
        cls, elements: Tensor, scales: Tensor, block_size: int = 32, axis: int = -1
    ) -> "MXTensor":
        """A view of `elements` and `scales`, the inverse of `to_float8`."""
        elements, scales = checks.tensor("elements", elements), checks.tensor("scales", scales)
        formats = {dtype: fmt for fmt, dtype in FLOAT8.items()}
        if elements.dtype not in formats:
            known = " or ".join(checks.dtype_name(dtype) for dtype in formats)
            given = checks.dtype_name(elements.dtype)
            raise TypeError(f"elements must have dtype {known}, not {given}")
        if scales.dtype != torch.float8_e8m0fnu:
            given = checks.dtype_name(scales.dtype)
            raise TypeError(f"scales must have dtype float8_e8m0fnu, not {given}")
        codes, fmt = elements.view(torch.uint8), formats[elements.dtype]
        return cls(codes, scales.view(torch.uint8), fmt, block_size, axis)

    # Packed codes ---------------------------------------------------------------------------------

    def pack(self) -> Tensor:
        """The codes packed densely along the last axis: uint8 (..., n x bits / 8)."""
        return pack(self.codes, named_format(self.format_name))

    @classmethod
    def from_packed(
        cls,
        packed: Tensor,
        scales: Tensor,
        format: ElementFormat | str,  # noqa: A002  # the field's name
        block_size: int = 32,
        axis: int = -1,
        padding: int = 0,
    ) -> "MXTensor":
        """The inverse of `pack`; unpacked codes are in range by themselves."""
        fmt = element_format(format)
        scales = checks.uint8("scales", scales)
        codes = unpack(packed, fmt)
        checks.same_device(packed=codes, scales=scales)
        return cls(codes, scales, fmt, block_size, axis, padding, valid=True)


def _fake(codes: Tensor, scales: Tensor, fmt: str, dtype: torch.dtype, *_: Any) -> Tensor:
    return codes.new_empty(codes.shape, dtype=dtype)


@operator("dequantize", _fake)
def _dequantize(
    codes: Tensor, scales: Tensor, fmt: str, dtype: torch.dtype, executor: str | None
) -> Tensor:
    key = fmt, dtype, executor, kind(codes), scales.data_ptr() % ALIGNMENT

    def make() -> Callable[[Tensor, Tensor], Tensor]:
        request = Dequantization(codes, scales, named_format(fmt), dtype)
        return executors.prepare(executors.DEQUANTIZE, executor, request)

    return PREPARED(key, make)(codes, scales)


def _check_range(codes: Tensor, fmt: ElementFormat) -> None:
    dtype = code_dtype(fmt)
    if fmt.bits < 8 * dtype.itemsize and codes.numel() and not codes.is_meta:
        comparable = codes if dtype == torch.uint8 else codes.to(torch.int64)
        largest = int(comparable.max())
        if largest >= 2**fmt.bits:
            raise ValueError(
                f"codes of format {fmt.name} must be from 0 to {2**fmt.bits - 1}, not {largest}"
            )
