"""Work cut into pieces, so that temporaries stay small however large the tensors are."""

from collections.abc import Iterator

import torch
from torch import Tensor

CHUNK = {"cpu": 2**18, "cuda": 2**25}  # elements at once: a CPU's cache, a GPU's few GB


def chunk_size(device: torch.device) -> int:
    """Elements to work on at once."""
    return CHUNK.get(device.type, CHUNK["cpu"])


def split(rows: Tensor) -> Iterator[slice]:
    """Slices of the first axis of a 2-D tensor, each of a bounded number of elements."""
    n, width = rows.shape
    step = max(1, chunk_size(rows.device) // max(1, width))
    for start in range(0, n, step):
        yield slice(start, start + step)
