"""The random Hadamard transform of operands: what is large in one element is spread over several.

Both operands of a product are multiplied, along the axis that it sums over, by one orthogonal
matrix, which leaves the product as it is and makes their blocks easier to quantise (NVIDIA,
Pretraining Large Language Models with NVFP4, arXiv:2509.25149, section 4).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

SIZES = (4, 16, 64)  # their roots are powers of two, so that no factor rounds


@dataclass(frozen=True)
class Hadamard:
    """H diag(s) / sqrt(size) times every `size` elements of a row.

    size: one of SIZES. H is Sylvester's matrix: -1 to the power of the common bits of i and j.
    signs: 64 bits, of which bit i is 1 where element i of each group is negated.
    """

    size: int
    signs: int

    @classmethod
    def seeded(cls, size: int, seed: int) -> "Hadamard":
        """Transform with signs that NumPy's default generator draws."""
        bits = np.random.default_rng(seed).integers(0, 2, size)
        word = sum(int(bit) * 2**i for i, bit in enumerate(bits))
        return cls(size, word - 2**64 if word >= 2**63 else word)

    def length(self, columns: int) -> int:
        """Columns of the result for a matrix of `columns` columns: a multiple of the size."""
        return columns + -columns % self.size

    def __call__(self, x: Tensor) -> Tensor:
        """float32, float16 or bfloat16 (rows, K) to float32, K filled up with zeros.

        Bits are specified: log2(size) rounds of sums and differences of neighbours 1, 2, 4, ...
        apart, each rounded to float32 (RNE), then a power of two. Where the values of a group are
        multiples of one unit, with magnitudes that sum to at most 2^24 of it, and nothing
        underflows, the result is exact: so it is of bfloat16 values whose exponents lie at most
        16 - log2(size) apart.
        """
        rows, columns = x.shape
        length = self.length(columns)
        x = x.to(torch.float32)
        if length > columns:
            x = pad(x, (0, length - columns))
        x = x.reshape(rows, length // self.size, self.size)
        x = torch.where(self._negated(x.device), -x, x)
        apart = 1
        while apart < self.size:
            a, b = x.reshape(rows, length // (2 * apart), 2, apart).unbind(2)
            x = torch.stack((a + b, a - b), dim=2)
            apart *= 2
        return x.reshape(rows, length) * self.size**-0.5

    def _negated(self, device: torch.device) -> Tensor:
        word = torch.full((self.size,), self.signs, dtype=torch.int64, device=device)
        places = torch.arange(self.size, device=device)
        return torch.bitwise_and(torch.bitwise_right_shift(word, places), 1) == 1
