"""Matrix products of MX operands at the speed of the libraries: for use, not for the last bit."""

import torch
from torch import Tensor

from ...model.errors import choice
from .. import checks
from ..tensors.mx import MXTensor
from . import block_scaled, float8
from .dequantize_two import dequantize_two
from .matmul import check_pair
from .regroup import Regrouped, regroup

METHODS = ("bfloat16", "float8", "block_scaled")
OUTPUTS = (torch.bfloat16, torch.float32)
Operand = MXTensor | Regrouped


def mx_matmul(
    a: Operand,
    b: Operand,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
    method: str | None = None,
) -> Tensor:
    """The (M, N) dot products of the rows of `a` (M, K) and `b` (N, K), fast; on any device.

    a, b: MXTensors blocked along the last axis, of any formats and block sizes, or what `regroup`
    made of them. method:

    ``bfloat16``  both become bfloat16 values, exactly but below 2^-126, from 2^128 and of FP16 and
                  TF32 elements, and PyTorch multiplies them: exact products, float32 sums in the
                  library's order (partial sums may be bfloat16 where PyTorch's setting for CUDA
                  allows it, as by default).
    ``float8``    both are regrouped to E4M3 with a scale to 128 elements (`regroup` says what that
                  rounds) and multiplied by the FP8 tensor cores of a Hopper GPU: 128 products are
                  summed with Hopper's 13 fraction bits, scaled, and added in float32.

    ``block_scaled``  both as they are, E4M3 or one of them E5M2 in blocks of 32, by units that take
                  blocks and scales: a GPU of compute capability 10.0 or later.

    None takes ``float8`` if an operand is a `Regrouped` (a weight is worth preparing once), else
    ``bfloat16``. out_dtype: bfloat16 or float32, rounded once at the end.

    `matmul` is the product whose every bit is specified; this one's results depend on the library.
    Few rows with a large weight are fast with a weight that is a `Regrouped`: ``bfloat16`` would
    write the whole weight in bfloat16 first.
    Raises TypeError or ValueError, naming the argument, before any work.
    """
    check_pair(a, b, Regrouped)
    if out_dtype not in OUTPUTS:
        known = " or ".join(map(checks.dtype_name, OUTPUTS))
        raise ValueError(f"out_dtype must be {known}, not {checks.shown(out_dtype)}")
    regrouped = isinstance(a, Regrouped) or isinstance(b, Regrouped)
    if method is None:
        method = "float8" if regrouped else "bfloat16"
    choice("method", method, METHODS)
    if method == "float8":
        return _float8(a, b, out_dtype)
    a, b = _mx("a", a, method), _mx("b", b, method)
    if method == "block_scaled":
        return _block_scaled(a, b, out_dtype)
    x, y = dequantize_two(a, b, torch.bfloat16)
    if torch.is_autocast_enabled(x.device.type):  # which has dtypes of its own
        with torch.autocast(x.device.type, enabled=False):
            return _bfloat16(x, y, out_dtype)
    return _bfloat16(x, y, out_dtype)


def _mx(name: str, operand: Operand, method: str) -> MXTensor:
    if isinstance(operand, Regrouped):
        raise TypeError(f"{name} must be an MXTensor with method {method}, not a Regrouped")
    return operand


def _bfloat16(x: Tensor, y: Tensor, out_dtype: torch.dtype) -> Tensor:
    if out_dtype == torch.bfloat16:
        return torch.mm(x, y.t())
    if x.is_cuda:
        return torch.mm(x, y.t(), out_dtype=torch.float32)
    return x.float() @ y.float().t()


def _float8(a: Operand, b: Operand, out_dtype: torch.dtype) -> Tensor:
    if not float8.has_units(a.device):
        raise ValueError(
            "method float8 needs a GPU of compute capability 9.0 (Hopper), not " + _shown(a.device)
        )
    x, y = (operand if isinstance(operand, Regrouped) else regroup(operand) for operand in (a, b))
    with torch.autocast("cuda", enabled=False):
        product = float8.library((x.elements, x.scales), (y.elements, y.scales), "group", out_dtype)
    return product[: a.shape[0], : b.shape[0]].contiguous()


def _block_scaled(a: MXTensor, b: MXTensor, out_dtype: torch.dtype) -> Tensor:
    reason = block_scaled.pair_refusal(a.format_name, b.format_name)
    if reason is not None:
        raise ValueError(f"a and b with method block_scaled: {reason}")
    for name, x in (("a", a), ("b", b)):
        if x.block_size != block_scaled.BLOCK:
            raise ValueError(
                f"block_size of {name} must be {block_scaled.BLOCK} with method block_scaled, not "
                f"{x.block_size}"
            )
    if not block_scaled.has_units(a.device):
        raise ValueError(f"method block_scaled needs {block_scaled.NEEDED}, not {_shown(a.device)}")
    return block_scaled.block_scaled_matmul(a, b, out_dtype)


def _shown(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
