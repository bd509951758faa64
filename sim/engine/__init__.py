"""The engine of a regression: units side by side, Verilator, progress, reports, files."""
