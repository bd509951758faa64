"""mxdot.nn.networks: users' networks, quantised and compared with themselves in float32.

`load_network` reads one, `evaluate_network` quantises its linear layers by several recipes, and
`write` makes a table and a picture of what came out. `run_cases` runs one end to end by machines or
accumulators, and keeps results. Needs PyTorch.
"""

from .end_to_end import (
    ORIGINAL,
    EndToEnd,
    accumulator_recipes,
    accumulators,
    difference_table,
    end_to_end_lines,
    end_to_end_table,
    machine_recipes,
    run_cases,
    write_end_to_end,
)
from .evaluation import evaluate_network, layer_lines, recipes, write
from .network import ENCODER, Network, load_network

__all__ = [
    "ENCODER",
    "ORIGINAL",
    "EndToEnd",
    "Network",
    "accumulator_recipes",
    "accumulators",
    "difference_table",
    "end_to_end_lines",
    "end_to_end_table",
    "evaluate_network",
    "layer_lines",
    "load_network",
    "machine_recipes",
    "recipes",
    "run_cases",
    "write",
    "write_end_to_end",
]
