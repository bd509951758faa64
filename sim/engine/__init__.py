"""What carries a regression out: units side by side, Verilator, progress, reports, files."""
