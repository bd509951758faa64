"""The HTML report: one file, no requests, its own small plots."""

from .html import report

__all__ = ["report"]
