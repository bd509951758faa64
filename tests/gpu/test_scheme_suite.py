"""Schemes on tensors equal the model, on every device."""

from scheme_suite import *  # noqa: F403
