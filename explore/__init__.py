"""mxdot.explore: what each accumulator costs, and what it does to the result."""

from pathlib import Path

SYNTHESES = Path("build/synth")
"""Where results of synthesis are kept, relative to the current directory, unless the user says."""
LARGEST_VERILOG = 2**26
"""Bytes of a user's Verilog, all files of a command together."""
