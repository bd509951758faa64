"""Operands of products on a device: those of `mxdot.model.schemes.operand`, of tensors."""

from ...model.schemes import operand as model
from ...model.schemes.operand import Operand
from ...model.schemes.regions import check_pair as check_kinds
from .. import checks
from .tensor import ScaledTensor


def check_pair(a: ScaledTensor, b: ScaledTensor) -> None:
    """TypeError or ValueError unless a (M, K) and b (N, K) can be multiplied."""
    check_kinds(a, b, ScaledTensor)
    checks.same_device(a=a.codes, b=b.codes)


def check_codes(array: ScaledTensor) -> None:
    """ValueError for codes, zero points and selectors outside their range."""
    model.check_codes(array, checks.integers)


def operand(array: ScaledTensor) -> Operand:
    """The operand of a matrix whose groups' columns run along its last axis."""
    return model.operand(array, checks.integers)
