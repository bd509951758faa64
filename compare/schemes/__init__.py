"""mxdot.compare.schemes: error against bits per element of every scheme, and of clipped ranges."""

from .data import DEFAULT_DATA, matrices
from .measure import clip, family, measure, on_front

__all__ = ["DEFAULT_DATA", "clip", "family", "matrices", "measure", "on_front"]
