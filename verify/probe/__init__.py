"""mxdot.verify.probe: what a matrix unit computes, found from its results alone."""

from .black_boxes import MatrixUnit, ModelUnit
from .report import Fit, Report, probe

__all__ = ["Fit", "MatrixUnit", "ModelUnit", "Report", "probe"]
