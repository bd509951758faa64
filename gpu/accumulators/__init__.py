"""Every accumulator in plain PyTorch (section 4 of the contract), on whatever device.

An executor of gpu/ops/matmul.py: `refusal` and `run`.
"""

from .products import refusal, run

__all__ = ["refusal", "run"]
