"""Rules of every accumulator in plain PyTorch (section 4 of the contract), on any device.

The executor ``torch`` of `mxdot.gpu.matmul`: `refusal` and `run`.
"""

from .products import refusal, run

__all__ = ["refusal", "run"]
