"""mxdot.synth: area, delay and energy of Verilog, by synthesis.

cost = measure(generate(config), "mxdot_dot", Flow(), cache_dir=Path("build/cost"))
cost.nand2, cost.depth, cost.flipflops, cost.stages
"""

from pathlib import Path

from .energy import Energy, energy
from .errors import SynthesisError
from .flow import Cost, Flow
from .measure import measure, measure_netlist, script

__all__ = [
    "LARGEST_VERILOG",
    "SYNTHESES",
    "Cost",
    "Energy",
    "Flow",
    "SynthesisError",
    "energy",
    "measure",
    "measure_netlist",
    "script",
]

SYNTHESES = Path("build/synth")
"""Default directory for results of synthesis, relative to the current directory."""
LARGEST_VERILOG = 2**26
"""Limit in bytes for a user's Verilog, all files of a command together."""
