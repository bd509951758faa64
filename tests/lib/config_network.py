"""A language model in the manner of the transformers library: from a config, weights at random."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


@dataclass
class Config:
    vocabulary: int = 97
    width: int = 64
    inside: int = 128
    heads: int = 4
    layers: int = 2
    positions: int = 32
    deviation: float = 0.02
    transposed: bool = False  # GPT-2's layers, which keep their weights transposed
    tied: bool = True


class Conv1D(nn.Module):
    """Computes x W + b with W (inputs, outputs)."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.flatten(0, -2), self.weight).unflatten(0, x.shape[:-1])


def product(config, inputs, outputs):
    return Conv1D(outputs, inputs) if config.transposed else nn.Linear(inputs, outputs)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.qkv = product(config, config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = nn.Linear(config.width, config.inside, bias=False)
        self.up = nn.Linear(config.width, config.inside, bias=False)
        self.down = nn.Linear(config.inside, config.width, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm_1, self.norm_2 = (nn.RMSNorm(config.width) for _ in range(2))
        self.attention, self.mlp = Attention(config), Gated(config)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class LanguageModel(nn.Module):
    """Its forward takes token numbers by name, and returns a mapping."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.places = nn.Embedding(config.positions, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.apply(self._initialise)
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "down.weight")):  # as GPT-2's, by the layers
                parameter.data.normal_(0.0, config.deviation / math.sqrt(2 * config.layers))
        if config.tied:
            self.head.weight = self.tokens.weight

    def _initialise(self, module):
        if isinstance(module, nn.Linear | nn.Embedding | Conv1D):
            module.weight.data.normal_(0.0, self.config.deviation)
            if getattr(module, "bias", None) is not None:
                module.bias.data.zero_()

    def forward(self, input_ids):
        x = self.tokens(input_ids) + self.places.weight[: input_ids.shape[-1]]
        for block in self.blocks:
            x = block(x)
        return {"logits": self.head(self.norm(x)), "last_hidden_state": x}
