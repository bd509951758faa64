"""mxdot.compare.accuracy: errors of accumulators in dot products, and their a priori bounds."""

from .bounds import bound
from .evaluation import COUNT, LENGTHS, Accuracy, evaluate

__all__ = [
    "COUNT",
    "LENGTHS",
    "Accuracy",
    "bound",
    "evaluate",
]
