"""A mixture with stacked experts as transformers has them, and routes of tokens."""

import torch
from torch import nn

EXPERTS, HIDDEN, INNER, TOP = 3, 40, 48, 2


class Experts(nn.Module):
    """Experts of a layer in one tensor per matrix, as transformers has them."""

    def __init__(self, transposed=False, bias=False, gate=True):
        super().__init__()
        self.num_experts, self.act_fn = EXPERTS, nn.SiLU()
        self.has_gate, self.has_bias, self.has_post_expert_norm = gate, bias, False
        self.is_transposed = transposed
        first, outer = ("gate_up_proj", 2 * INNER) if gate else ("up_proj", INNER)
        for name, n, k in ((first, outer, HIDDEN), ("down_proj", HIDDEN, INNER)):
            shape = (EXPERTS, k, n) if transposed else (EXPERTS, n, k)
            setattr(self, name, nn.Parameter(torch.randn(shape) / 8))
            if bias:
                setattr(self, f"{name}_bias", nn.Parameter(torch.randn(EXPERTS, n)))

    def _apply_gate(self, y):
        gate, up = y.chunk(2, dim=-1)
        return self.act_fn(gate) * up

    def forward(self, hidden_states, top_k_index, top_k_weights):
        raise NotImplementedError


class Block(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.experts = Experts(**options)

    def forward(self, *args):
        return self.experts(*args)


def routed(tokens=7, missing=1):
    """Tokens, and experts that leave out `missing`."""
    torch.manual_seed(1)
    others = [e for e in range(EXPERTS) if e != missing]
    index = torch.stack([torch.tensor(others)[torch.randperm(TOP)] for _ in range(tokens)])
    return torch.randn(tokens, HIDDEN), index, torch.rand(tokens, TOP)
