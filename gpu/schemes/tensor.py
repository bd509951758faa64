"""ScaledTensor: codes of a scheme with their scales as PyTorch tensors."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...model.schemes import ScaledArray, Scheme
from .. import checks
from ..chunks import split
from ..eager import eager
from . import elements, scales
from .grouping import expand


@dataclass(frozen=True, eq=False)  # tensors have no one truth value to compare by
class ScaledTensor:
    """What `quantize` makes of a tensor; `mxdot.model.schemes.ScaledArray` on a device.

    codes: uint8, the shape of the tensor. scales: one tensor for each level of `scheme`, outermost
    first, as its format stores them; as many axes as `codes`, each as long as it has groups (1 for
    all axes but those of the matrix's rows and columns in a group of all rows). zero_points: int32,
    and selectors: uint8 indices into `scheme.elements`, both in the shape of the innermost scales,
    or None where the scheme has none. axis: along which the groups' columns run.
    """

    scheme: Scheme
    codes: Tensor
    scales: tuple[Tensor, ...]
    zero_points: Tensor | None
    selectors: Tensor | None
    axis: int

    @property
    def shape(self) -> torch.Size:
        """The shape of `codes`."""
        return self.codes.shape

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """(rows, columns): `axis` as the columns, everything else as rows."""
        columns = self.codes.shape[self.axis]
        return self.codes.numel() // columns, columns

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
            result[rows] = self._values(codes[rows], rows).to(torch.float32).to(dtype)
        moved = self.codes.movedim(self.axis, -1).shape
        return result.reshape(moved).movedim(-1, self.axis).contiguous()

    def _values(self, codes: Tensor, rows: slice) -> Tensor:
        """Exact float64 values of some rows of the matrix."""
        book = None if self.selectors is None else self.spread(self.selectors, -1, rows)
        values = elements.decode(codes, self.scheme.elements, book)
        if self.zero_points is not None:
            values = values - self.spread(self.zero_points, -1, rows)
        for i, (level, stored) in enumerate(zip(self.scheme.levels, self.scales, strict=True)):
            values = values * self.spread(scales.decode(stored, level.format), i, rows)
        return values

    def matrix(self, part: Tensor) -> Tensor:
        """`part` with `axis` as its columns and everything else as rows."""
        moved = part.movedim(self.axis, -1)
        return moved.reshape(-1, moved.shape[-1])

    def spread(self, groups: Tensor, level: int, rows: slice = slice(None)) -> Tensor:
        """The entry of every element's group, for some rows of the matrix."""
        height, width = self.scheme.levels[level].granularity.group(self.matrix_shape)
        return expand(expand(self.matrix(groups), (height, 1))[rows], (1, width))

    # The model's arrays ---------------------------------------------------------------------------

    @classmethod
    def from_model(cls, x: ScaledArray, device: torch.device | str = "cpu") -> "ScaledTensor":
        """A copy on `device`."""
        if not isinstance(x, ScaledArray):
            raise TypeError(f"x must be a ScaledArray, not {type(x).__name__}")
        z, selectors = x.zero_points, x.selectors
        return cls(
            x.scheme,
            torch.tensor(x.codes),
            tuple(map(scales.of_array, x.scales)),
            None if z is None else torch.tensor(z),
            None if selectors is None else torch.tensor(selectors),
            x.axis,
        ).to(device)

    def to_model(self) -> ScaledArray:
        """The same as the model's array, in host memory."""
        z, selectors = self.zero_points, self.selectors
        return ScaledArray(
            self.scheme,
            self.codes.cpu().numpy(),
            tuple(
                scales.to_array(stored, level.format)
                for stored, level in zip(self.scales, self.scheme.levels, strict=True)
            ),
            None if z is None else z.cpu().numpy(),
            None if selectors is None else selectors.cpu().numpy(),
            self.axis,
        )
