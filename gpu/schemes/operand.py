"""Operands of products on a device: those of `mxdot.model.schemes.operand`, of tensors."""

from torch import Tensor

from ...model.schemes import array as array_model
from ...model.schemes import operand as model
from ...model.schemes.array import Scaled
from ...model.schemes.operand import Operand
from ...model.schemes.regions import check_axis, check_shapes
from .. import checks
from ..chunks import chunk_size
from ..tensors.scaled import ScaledTensor


def check_pair(a: ScaledTensor, b: ScaledTensor) -> None:
    """TypeError or ValueError unless a (M, K) and b (N, K) can be multiplied."""
    for name, array in (("a", a), ("b", b)):
        if not isinstance(array, ScaledTensor):
            raise TypeError(f"{name} must be a ScaledTensor, not {type(array).__name__}")
        check_axis(name, array)
    check_shapes(tuple(a.shape), tuple(b.shape))
    checks.same_device(a=a.codes, b=b.codes)


def check_codes(array: Scaled[Tensor]) -> None:
    """ValueError for codes, zero points and selectors outside their range."""
    array_model.check_codes(array, checks.integers, chunk_size(array.codes.device))


def operand(array: Scaled[Tensor]) -> Operand:
    """The operand of a matrix whose groups' columns run along its last axis."""
    check_codes(array)
    return model.operand(array)
