"""mxdot.hw.matmul: a matrix unit, an array of dot units with AXI4-Stream and AXI4-Lite."""

from .unit import MatmulUnit

__all__ = ["MatmulUnit"]
