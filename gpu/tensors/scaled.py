"""ScaledTensor: codes of a scheme with their scales as PyTorch tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...model.arrays import matched
from ...model.schemes import ScaledArray, Scheme
from ...model.schemes.array import Scaled
from .. import checks, executors
from ..names import named_scheme, scheme_name
from ..operators import operator
from .container import Container, along, whole_groups
from .scheme_dequantize import SchemeDequantization


class ScaledTensor(Container):
    """Quantised tensor, the result of `quantize`: `mxdot.model.schemes.ScaledArray` on a device.

    scheme, codes, scales (a tuple), zero_points, selectors, axis: the fields of `Scaled`, tensors
    of one device; the scheme may be its text (`names.scheme_name`).
    """

    def __new__(cls, scheme: Scheme | str, codes: Tensor, *_: Any, **__: Any) -> "ScaledTensor":
        return cls.wrapper(codes.shape, codes.device)

    def __init__(
        self,
        scheme: Scheme | str,
        codes: Tensor,
        scales: tuple[Tensor, ...],
        zero_points: Tensor | None,
        selectors: Tensor | None,
        axis: int,
    ) -> None:
        # By its text: torch.compile takes no object from a tensor, and hands none to one.
        self.scheme_name = scheme if isinstance(scheme, str) else scheme_name(scheme)
        self.codes, self.axis = codes, axis
        for level, part in enumerate(scales):  # each an attribute: PyTorch knows parts by those
            setattr(self, f"scales_{level}", part)
        self.zero_points, self.selectors = zero_points, selectors

    @property
    def scheme(self) -> Scheme:
        """Scheme of the codes."""
        return named_scheme(self.scheme_name)

    @property
    def scales(self) -> tuple[Tensor, ...]:
        """Scales per level, outermost first."""
        return tuple(getattr(self, f"scales_{i}") for i in range(len(self.scheme.levels)))

    def named_parts(self) -> dict[str, Tensor]:
        levels = len(named_scheme(self.scheme_name).levels)
        scales = {name: getattr(self, name) for name in [f"scales_{i}" for i in range(levels)]}
        others = {"zero_points": self.zero_points, "selectors": self.selectors}
        there = {name: part for name, part in others.items() if part is not None}
        return {"codes": self.codes, **scales, **there}

    @classmethod
    def of_parts(cls, name: str, parts: list[Tensor], axis: int) -> "ScaledTensor":
        """The tensor of what `parts` gave and of a scheme's text; axis not negative."""
        x = scaled_of(name, parts, axis)
        return cls(name, x.codes, x.scales, x.zero_points, x.selectors, axis)

    def facts(self) -> tuple[str, int]:
        return self.scheme_name, self.axis

    @classmethod
    def made_of(
        cls, parts: dict[str, Tensor], facts: tuple[Any, ...], shape: Sequence[int]
    ) -> "ScaledTensor":
        name, axis = facts
        return cls.of_parts(name, list(parts.values()), axis)

    def check(self) -> None:
        self.to_model()  # which is checked

    def cut(self, dim: int, start: int, stop: int) -> "ScaledTensor":
        own, groups = self.axis % self.ndim, self._groups(dim)
        if dim != own and self.ndim > 2 and any((group or 1) > 1 for group in groups.values()):
            raise ValueError(f"a slice of {self.scheme} of {self.ndim} axes must be along {own}")

        def part_of(name: str, part: Tensor) -> Tensor:
            group = groups[name]
            if group is None:
                return part
            return along(part, dim, whole_groups(dim, start, stop, self.shape[dim], group))

        parts = [part_of(*item) for item in self.named_parts().items()]
        return self.of_parts(self.scheme_name, parts, self.axis)

    def shared(self, dim: int) -> set[str]:
        return {name for name, group in self._groups(dim).items() if group is None}

    def _groups(self, dim: int) -> dict[str, int | None]:
        """Elements along an axis that share an entry, by part; None for all of them."""
        names = list(self.named_parts())
        levels = [level.granularity for level in self.scheme.levels]
        of_parts = [*levels, *[levels[-1]] * len(names)]  # zero points and selectors: the inner's
        along_axis = dim == self.axis % self.ndim
        sizes = [each.columns if along_axis else each.rows for each in of_parts]
        return dict(zip(names, [1, *sizes], strict=False))

    def transposed(self) -> "ScaledTensor":
        turned = [part.t() for part in self.parts()]
        return self.of_parts(self.scheme_name, turned, 1 - self.axis % 2)

    def dequantize(
        self, dtype: torch.dtype = torch.float32, *, executor: str | None = None
    ) -> Tensor:
        """RNE_fp32 of the exact s_0 x s_1 x ... x (q - z), in the shape of `codes`.

        NaN under a NaN scale; infinite where float32 overflows. A narrower `dtype` rounds once
        more. executor: ``torch`` or ``triton``, as in `quantize`.
        """
        checks.float_dtype("dtype", dtype)
        return _dequantize(self.parts(), self.scheme_name, self.axis, dtype, executor)

    # The model's arrays ---------------------------------------------------------------------------

    @classmethod
    def from_model(cls, x: ScaledArray, device: torch.device | str = "cpu") -> "ScaledTensor":
        """A copy on `device`."""
        if not isinstance(x, ScaledArray):
            raise TypeError(f"x must be a ScaledArray, not {type(x).__name__}")

        def copy(part: NDArray) -> Tensor:
            return matched(part, torch.empty(0, device=device))

        z, selectors = x.zero_points, x.selectors
        return cls(
            x.scheme,
            copy(x.codes),
            tuple(map(copy, x.level_scales)),
            None if z is None else copy(z),
            None if selectors is None else copy(selectors),
            x.axis,
        )

    def to_model(self) -> ScaledArray:
        """Copy to the model's array, in host memory."""
        z, selectors = self.zero_points, self.selectors
        return ScaledArray(
            self.scheme,
            _array(self.codes),
            tuple(map(_array, self.scales)),
            None if z is None else _array(z),
            None if selectors is None else _array(selectors),
            self.axis,
        )


def scaled(x: ScaledTensor) -> Scaled[Tensor]:
    """The fields as the model takes them; a function, which torch.compile traces into."""
    return scaled_of(x.scheme_name, x.parts(), x.axis)


def scaled_of(name: str, parts: list[Tensor], axis: int) -> Scaled[Tensor]:
    """`ScaledTensor.of_parts` as a plain Scaled, which operators work on."""
    scheme, (codes, *others) = named_scheme(name), parts
    levels = len(scheme.levels)
    selectors = others[-1] if len(scheme.elements) > 1 else None
    zero_points = others[levels] if scheme.zero_point else None
    return Scaled(scheme, codes, tuple(others[:levels]), zero_points, selectors, axis)


def _fake(
    parts: list[Tensor], scheme: str, axis: int, dtype: torch.dtype, executor: str | None
) -> Tensor:
    return parts[0].new_empty(parts[0].shape, dtype=dtype)


@operator("scheme_dequantize", _fake)
def _dequantize(
    parts: list[Tensor], scheme: str, axis: int, dtype: torch.dtype, executor: str | None
) -> Tensor:
    request = SchemeDequantization(scaled_of(scheme, parts, axis), dtype)
    return executors.run(executors.SCHEME_DEQUANTIZE, executor, request)


def _array(part: Tensor) -> NDArray:
    """`part` in host memory, bfloat16 as ml_dtypes has it."""
    if part.dtype == torch.bfloat16:
        return part.cpu().view(torch.int16).numpy().view(np.dtype("bfloat16"))
    return part.cpu().numpy()
