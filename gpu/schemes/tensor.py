"""ScaledTensor: codes of a scheme with their scales as PyTorch tensors."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...model.arrays import beside
from ...model.schemes import ScaledArray
from ...model.schemes.array import Scaled
from .. import checks
from ..chunks import split
from ..eager import eager


class ScaledTensor(Scaled[Tensor]):
    """What `quantize` makes of a tensor; `mxdot.model.schemes.ScaledArray` on a device.

    The fields are those of `Scaled`, tensors of one device.
    """

    @property
    def shape(self) -> torch.Size:
        """The shape of `codes`."""
        return self.codes.shape

    @property
    def device(self) -> torch.device:
        """Where all tensors are."""
        return self.codes.device

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "ScaledTensor":
        """The same on another device; the tensors that are there already are not copied."""

        def moved(part: Tensor) -> Tensor:
            return part.to(device, non_blocking=non_blocking)

        z, selectors = self.zero_points, self.selectors
        return replace(
            self,
            codes=moved(self.codes),
            scales=tuple(map(moved, self.scales)),
            zero_points=None if z is None else moved(z),
            selectors=None if selectors is None else moved(selectors),
        )

    @eager
    def dequantize(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """RNE_fp32 of the exact s_0 x s_1 x ... x (q - z), in the shape of `codes`.

        NaN under a NaN scale; infinite where float32 overflows. A narrower `dtype` rounds once
        more.
        """
        checks.float_dtype("dtype", dtype)
        codes = self.matrix(self.codes)
        result = torch.empty(codes.shape, dtype=dtype, device=self.device)
        for rows in split(codes):
            result[rows] = self.values(codes[rows], rows).to(torch.float32).to(dtype)
        return self.unmatrix(result)

    # The model's arrays ---------------------------------------------------------------------------

    @classmethod
    def from_model(cls, x: ScaledArray, device: torch.device | str = "cpu") -> "ScaledTensor":
        """A copy on `device`."""
        if not isinstance(x, ScaledArray):
            raise TypeError(f"x must be a ScaledArray, not {type(x).__name__}")

        def copy(part: NDArray) -> Tensor:
            return beside(part, torch.empty(0, device=device))

        z, selectors = x.zero_points, x.selectors
        return cls(
            x.scheme,
            copy(x.codes),
            tuple(map(copy, x.scales)),
            None if z is None else copy(z),
            None if selectors is None else copy(selectors),
            x.axis,
        )

    def to_model(self) -> ScaledArray:
        """The same as the model's array, in host memory."""
        z, selectors = self.zero_points, self.selectors
        return ScaledArray(
            self.scheme,
            _array(self.codes),
            tuple(map(_array, self.scales)),
            None if z is None else _array(z),
            None if selectors is None else _array(selectors),
            self.axis,
        )


def _array(part: Tensor) -> NDArray:
    """`part` in host memory, bfloat16 as ml_dtypes has it."""
    if part.dtype == torch.bfloat16:
        return part.cpu().view(torch.int16).numpy().view(np.dtype("bfloat16"))
    return part.cpu().numpy()
