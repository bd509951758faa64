"""Products of E4M3 elements under float scales by the FP8 units, through the library's scaled
product: operator `mxdot::float8_matmul`. For use, not for the last bit.
"""

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import ScalingType, pad

from ...model.formats import E4M3, FloatFormat
from ...model.schemes import Scheme
from ...model.schemes.grouping import expand
from ..hardware.silicon import CAPABILITY
from ..names import named_scheme
from ..operators import operator
from ..tensors.mx import FLOAT8
from ..tensors.scaled import ScaledTensor
from .regroup import GROUP, Regrouped

ALIGNMENT = 16  # of rows and of their lengths, as the library wants them
# What shares a scale, coarsest first: an operand takes the finer way of the other.
KINDS = {
    "tensor": ScalingType.TensorWise,
    "row": ScalingType.RowWise,
    "group": ScalingType.BlockWise1x128,
}
WRITTEN = (torch.bfloat16, torch.float32)  # by the library's kernels; by rows the first alone


def takes(scheme: Scheme) -> bool:
    """Whether elements are E4M3 under one float scale for whole rows or for 128 of a row."""
    (element, *_), (level, *_) = scheme.elements, scheme.levels
    one = len(scheme.elements) == len(scheme.levels) == 1
    wide = isinstance(level.format, FloatFormat) and level.format.bits > 8
    columns = level.granularity.columns
    return one and element == E4M3 and wide and columns in (None, GROUP)


@cache
def has_units(device: torch.device) -> bool:
    """Whether a device multiplies FP8 elements with one scale to 128 of them; asked once."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) == CAPABILITY


def float8_matmul(
    a: Regrouped | ScaledTensor, b: Regrouped | ScaledTensor, out_dtype: torch.dtype
) -> Tensor:
    """The products of the rows of `a` (M, K) and `b` (N, K), of M and N filled up or not.

    a, b: what `regroup` made, or of schemes that `takes` takes. On a Hopper GPU the FP8 units sum
    with 13 fraction bits, 128 products at a time where a scale has as many, and float32 adds them
    up; elsewhere values are multiplied in float32. Results are rounded once to `out_dtype`.
    Arguments are not checked here: a Recipe has done it.
    """
    return _float8_matmul(*_parts(a), *_parts(b), out_dtype)


def _parts(x: Regrouped | ScaledTensor) -> tuple[list[Tensor], str]:
    if isinstance(x, ScaledTensor):
        return x.parts(), x.scheme_name
    return [x.elements, x.scales], ""


def _fake(
    a_parts: list[Tensor], a_scheme: str, b_parts: list[Tensor], b_scheme: str, dtype: torch.dtype
) -> Tensor:
    (a, *_), (b, *_) = a_parts, b_parts
    return a.new_empty((a.shape[0], b.shape[0]), dtype=dtype)


@operator("float8_matmul", _fake)
def _float8_matmul(
    a_parts: list[Tensor], a_scheme: str, b_parts: list[Tensor], b_scheme: str, dtype: torch.dtype
) -> Tensor:
    """Elements and scales, and the name of a scheme, "" of what has been regrouped."""
    kinds = [_kind(a_scheme), _kind(b_scheme)]
    kind = max(kinds, key=list(KINDS).index)
    a, b = _operand(a_parts, a_scheme, kind), _operand(b_parts, b_scheme, kind)
    if has_units(a[0].device):
        return library(a, b, kind, dtype)
    with torch.autocast(a[0].device.type, enabled=False):  # which has dtypes of its own
        return (_values(*a, kind) @ _values(*b, kind).t()).to(dtype)


def _kind(name: str) -> str:
    if not name or named_scheme(name).levels[0].granularity.columns == GROUP:
        return "group"
    return "tensor" if named_scheme(name).levels[0].granularity.rows is None else "row"


def _operand(parts: list[Tensor], name: str, kind: str) -> tuple[Tensor, Tensor]:
    """float8 elements (R, K) and float32 scales: (1,), (R, 1), or (R, K / 128) by columns."""
    elements, scales = parts
    if not name:
        return elements, scales.t().contiguous().t()  # a compiler may have turned them
    scheme, (rows, length) = named_scheme(name), elements.shape
    elements, scales = elements.view(FLOAT8[E4M3]), scales.to(torch.float32)
    if kind == "tensor":
        return elements, scales.reshape(1)
    height, width = scheme.levels[0].granularity.group((rows, length))
    unit = GROUP if kind == "group" else length
    scales = expand(scales, (height, width // unit))
    return elements, scales.t().contiguous().t() if kind == "group" else scales.contiguous()


def _values(elements: Tensor, scales: Tensor, kind: str) -> Tensor:
    if kind == "group":
        scales = scales.repeat_interleave(GROUP, dim=1)
    return elements.to(torch.float32) * scales


def library(
    a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor], kind: str, dtype: torch.dtype
) -> Tensor:
    """The product by the FP8 units of elements and scales, of operands of one kind."""
    m, n = len(a[0]), len(b[0])
    if not (m and n and a[0].shape[1]):
        return a[0].new_zeros((m, n), dtype=dtype)
    scaling, after = KINDS[kind], None
    if kind == "row" and dtype != WRITTEN[0]:  # the scales follow, in float32
        after = a[1] * b[1].t()
        one = torch.ones(1, device=a[0].device)
        a, b, scaling = (a[0], one), (b[0], one), ScalingType.TensorWise
    x, x_scales = _aligned(*a, scaling)
    y, y_scales = _aligned(*b, scaling)
    if scaling == ScalingType.RowWise:
        y_scales = y_scales.t()
    written = dtype if dtype in WRITTEN else torch.float32
    product = functional.scaled_mm(
        x, y.t(), x_scales, scaling, y_scales, scaling, output_dtype=written
    )[:m, :n]
    return (product if after is None else product * after).to(dtype).contiguous()


def _aligned(elements: Tensor, scales: Tensor, scaling: ScalingType) -> tuple[Tensor, Tensor]:
    """Filled up with zeros, under scales of any value."""
    below, right = (-size % ALIGNMENT for size in elements.shape)
    if below or right:
        elements = pad(elements.view(torch.uint8), (0, right, 0, below)).view(elements.dtype)
    if below and scaling != ScalingType.TensorWise:
        scales = pad(scales.t(), (0, below), value=1.0).t()
        if scaling == ScalingType.RowWise:
            scales = scales.contiguous()
    return elements.contiguous(), scales
