"""mxdot.compare.accuracy: what an accumulator does to dot products, beside what it may do."""

from .bounds import bound
from .evaluation import COUNT, LENGTHS, Accuracy, evaluate

__all__ = [
    "COUNT",
    "LENGTHS",
    "Accuracy",
    "bound",
    "evaluate",
]
