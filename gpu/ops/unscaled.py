"""Elements of a format under scales of 1, as `mxdot.model.unscaled`: operator `mxdot::unscaled`."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...model.formats import BF16, E8M0, FP16, TF32, FloatFormat
from ..names import named_format
from ..operators import operator
from ..tensors.formats import code_dtype
from ..tensors.mx import MXTensor

UNSCALED = {fmt.name: fmt for fmt in (FP16, BF16, TF32)}
"""Formats whose range needs no scales."""
ONE = int(E8M0.encode(0))
_CASTS = {FP16: torch.float16, BF16: torch.bfloat16}


def unscaled(x: Tensor, fmt: str, block_size: int) -> MXTensor:
    """A matrix (rows, K) of floats in a format of `UNSCALED`, K filled up to whole blocks."""
    padding = -x.shape[1] % block_size
    codes = _unscaled(pad(x, (0, padding)) if padding else x, fmt)
    shape = codes.shape[0], codes.shape[1] // block_size
    scales = torch.full(shape, ONE, dtype=torch.uint8, device=x.device)
    return MXTensor.of_valid_codes(codes, scales, UNSCALED[fmt], block_size, 1, padding)


def _fake(x: Tensor, fmt: str) -> Tensor:
    return x.new_empty(x.shape, dtype=code_dtype(named_format(fmt)))


@operator("unscaled", _fake)
def _unscaled(x: Tensor, fmt: str) -> Tensor:
    """Codes, contiguous: rounded to nearest even, saturated; NaN is the format's own."""
    known = UNSCALED[fmt]
    if known not in _CASTS:
        return known.encode_unchecked(x).contiguous()
    return _cast(x, known).view(code_dtype(known))


def _cast(x: Tensor, fmt: FloatFormat) -> Tensor:
    """Codes as int16, by PyTorch's conversion, which does not saturate."""
    codes = x.to(_CASTS[fmt]).contiguous().view(torch.int16)
    if x.dtype != _CASTS[fmt]:
        assert fmt.inf_code is not None
        sign = torch.bitwise_and(codes, -(2**15))
        beyond = (torch.bitwise_xor(codes, sign) == fmt.inf_code) & x.isfinite()
        codes = torch.where(beyond, torch.bitwise_or(sign, fmt.inf_code - 1), codes)
    return torch.where(x.isnan(), fmt.nan_code, codes).to(torch.int16)
