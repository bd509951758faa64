"""mxdot.explore.accuracy: what an accumulator does to dot products, beside what it may do."""

from .bounds import bound
from .data import DATA_SETS, REAL, DataSet, data_set
from .evaluation import COUNT, LENGTHS, Accuracy, evaluate

__all__ = [
    "COUNT",
    "DATA_SETS",
    "LENGTHS",
    "REAL",
    "Accuracy",
    "DataSet",
    "bound",
    "data_set",
    "evaluate",
]
