"""Products of operands: which kernel multiplies what a layer's quantisers leave."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..gpu import schemes
from ..gpu.names import named_scheme
from ..gpu.ops import few_rows
from ..gpu.ops.block_scaled import block_scaled_matmul
from ..gpu.ops.float8 import float8_matmul
from ..gpu.ops.matmul import matmul
from ..gpu.ops.regroup import regroup
from ..gpu.schemes import PackedWeights, ScaledTensor, int8, weight_only
from ..gpu.tensors.mx import MXTensor
from ..gpu.tensors.packed import PackedTensor
from ..model.accumulators import Accumulator, Int32
from .quantizers import Codes, MXQuantizer, Operand, Quantizer

FAST = "fast"  # in place of an accumulator: one ordinary product of values
FLOAT8 = "float8"  # the same: by the FP8 units, of codes with float scales
BLOCK_SCALED = "block_scaled"  # the same: by units that take MXFP8 or NVFP4 blocks
Rule = Accumulator | str


def operand(
    quantizer: Quantizer,
    x: Tensor,
    accumulator: Rule,
    transposed: bool = False,
    limit: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Operand:
    """Operand of `multiply` for `x`: values of `dtype` for a fast product, codes for an
    accumulator."""
    if accumulator == FAST:
        return quantizer.values(x, transposed, limit, dtype)
    if accumulator == FLOAT8 and isinstance(quantizer, MXQuantizer):
        return quantizer.regrouped(x)
    return for_rule(quantizer.codes(x, limit), accumulator)


def for_rule(codes: Operand, accumulator: Rule) -> Operand:
    """MX blocks regrouped for the FP8 units, other codes as they are."""
    regroups = accumulator == FLOAT8 and isinstance(codes, MXTensor)
    return regroup(codes) if regroups else codes


def multiply(
    a: Operand,
    b: Operand,
    accumulator: Rule,
    shape: Sequence[int],
    dtype: torch.dtype,
) -> Tensor:
    """The dot products of rows of `a` and of `b`, (M, N) = `shape` of `dtype`.

    Values are multiplied in that dtype, and so is `a` of a weight-only product, and codes `b` of a
    fast one. Rows that `codes` has added are left out. Packed weights are for an `a` of values.
    """
    product = _of_few_rows(a, b, accumulator, dtype)
    if product is not None:
        return cut(product, shape, dtype)
    if isinstance(b, PackedTensor) and accumulator != FAST:
        b = b.unpack()
    if accumulator in (FLOAT8, BLOCK_SCALED):
        by_units = float8_matmul if accumulator == FLOAT8 else block_scaled_matmul
        return cut(by_units(a, b, dtype), shape, dtype)
    if isinstance(a, MXTensor) and isinstance(b, MXTensor):
        return cut(matmul(a, b, accumulator), shape, dtype)
    if isinstance(a, ScaledTensor) and isinstance(b, ScaledTensor):
        if accumulator == Int32() and int8.takes(
            *(named_scheme(side.scheme_name) for side in (a, b))
        ):
            product = schemes.int8_matmul(a, b, out_dtype=dtype)  # the same bits, by a kernel
        else:
            product = schemes.matmul(a, b, accumulator)
        return cut(product, shape, dtype)
    a = a.to(dtype)
    if isinstance(b, PackedWeights) and dtype in weight_only.FLOATS:
        return cut(schemes.weight_only_matmul(_filled(a, b.shape), b), shape, dtype)
    if isinstance(b, ScaledTensor) and accumulator != FAST:
        return cut(schemes.matmul(_filled(a, b.shape), b, accumulator), shape, dtype)
    return a @ _values_of(b, dtype)[: shape[1], : a.shape[1]].to(dtype).T


def cut(product: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """The first rows and columns of a product in `dtype`.

    Neither a view nor the result of a conversion that does nothing: PyTorch 2.11 compiles no
    gradient through these.
    """
    rows, columns = shape
    if product.dtype != dtype:
        product = product.to(dtype)
    whole = product.shape[0] == rows and product.shape[1] == columns
    return product if whole else product[:rows, :columns].clone()


def _values_of(b: Operand, dtype: torch.dtype) -> Tensor:
    """Values of a weight, those of codes rounded to float32 and once more to `dtype`."""
    return b.dequantize(dtype) if isinstance(b, Codes) else b


def _of_few_rows(a: Operand, b: Operand, accumulator: Rule, dtype: torch.dtype) -> Tensor | None:
    """The product of few rows by a kernel that reads the codes `b`; None where there is none."""
    if accumulator == FAST and not isinstance(a, Codes) and isinstance(b, few_rows.Weights):
        x = a.to(dtype)
        if few_rows.takes(x, b):
            return few_rows.few_rows_matmul(_filled(x, b.shape), b)
    if accumulator == FLOAT8 and few_rows.takes_rows(a, b):
        return few_rows.rows_matmul(a, b, dtype)
    return None


def _filled(a: Tensor, b: torch.Size) -> Tensor:
    """`a` with as many columns as the weights."""
    missing = b[1] - a.shape[1]
    return pad(a, (0, missing)) if missing else a  # a compiler copies for a pad of nothing
