"""mxdot.nn.networks: users' networks, quantised and compared with themselves in float32.

`load_network` reads one, `evaluate_network` quantises its linear layers by several recipes, and
`write` makes a table and a picture of what came out. Needs PyTorch.
"""

from .evaluation import evaluate_network, recipes, write
from .network import ENCODER, Network, load_network

__all__ = ["ENCODER", "Network", "evaluate_network", "load_network", "recipes", "write"]
