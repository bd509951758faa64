"""Schemes of the model equal the rational oracle."""

from scheme_suite import *  # noqa: F403
