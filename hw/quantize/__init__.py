"""The quantiser in RTL: blocks of floats to MX codes and one E8M0 scale."""

from .unit import QuantizeUnit

__all__ = ["QuantizeUnit"]
