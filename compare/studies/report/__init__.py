"""The HTML report: one file, no requests; the charts' descriptions, drawn by Vega in it."""

from .html import report

__all__ = ["report"]
