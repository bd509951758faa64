"""The network of the example: a small decoder-only transformer over bytes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

BYTES = 256


@dataclass(frozen=True)
class Size:
    """layers of `width` features, `heads` dividing it; sequences of up to `length` bytes."""

    layers: int = 6
    width: int = 384
    heads: int = 6
    length: int = 256


SIZES = {  # 1.9, 10.9 and 43.1 million parameters
    "small": Size(layers=4, width=192, heads=3),
    "medium": Size(),
    "large": Size(width=768, heads=12),
}


class Block(nn.Module):
    """Attention and feed-forward, each after a norm and added to its input."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Bytes (batch, length) to logits (batch, length, 256)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.token = nn.Embedding(BYTES, size.width)
        self.position = nn.Parameter(torch.zeros(size.length, size.width))
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width, bias=False)
        self.head = nn.Linear(size.width, BYTES, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                added = name.endswith(("out.weight", "down.weight"))  # to the residual stream
                std = 0.02 / (2 * size.layers) ** 0.5 if added else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
