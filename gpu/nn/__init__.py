"""Networks: layers, recipes, conversion, calibration."""
