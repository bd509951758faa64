"""mxdot.explore.cost: area, delay and an energy proxy of Verilog, by synthesis.

cost = measure(generate(config), "mxdot_dot", Flow(), cache_dir=Path("build/cost"))
cost.nand2, cost.depth, cost.flipflops, cost.stages
"""

from .energy import Energy, energy
from .errors import SynthesisError
from .flow import Cost, Flow
from .measure import measure, measure_netlist, script

__all__ = [
    "Cost",
    "Energy",
    "Flow",
    "SynthesisError",
    "energy",
    "measure",
    "measure_netlist",
    "script",
]
