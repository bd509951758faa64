"""mxdot.compare.accuracy: errors of accumulators in dot products, and their a priori bounds."""

from .evaluation import Accuracy, evaluate

__all__ = ["Accuracy", "evaluate"]
