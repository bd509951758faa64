"""What every product of MX operands asks of its two."""

from torch import Tensor

from .. import checks
from ..tensors.mx import MXTensor


def check_pair(a: Tensor, b: Tensor, *others: type[Tensor]) -> None:
    """TypeError or ValueError unless a (M, K) and b (N, K) are MXTensors blocked along K.

    others: the kinds of operands that a product takes beside MXTensors.
    """
    kinds = (MXTensor, *others)
    for name, operand in (("a", a), ("b", b)):
        if not isinstance(operand, kinds):
            known = " or a ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name} must be an {known}, not {type(operand).__name__}")
        if isinstance(operand, MXTensor) and operand.axis not in (-1, operand.ndim - 1):
            raise ValueError(f"axis of {name} must be the last axis, not {operand.axis}")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ValueError(f"a and b must have shapes (M, K) and (N, K), not {shapes}")
    checks.same_device(a=a, b=b)
