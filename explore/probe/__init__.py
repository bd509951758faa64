"""mxdot.explore.probe: what a matrix unit computes, found from its results alone."""

from .report import Fit, Report, probe
from .units import MatrixUnit, ModelUnit

__all__ = ["Fit", "MatrixUnit", "ModelUnit", "Report", "probe"]
