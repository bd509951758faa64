"""Work cut into pieces, so that temporaries stay small however large the tensors are."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..model.arrays import chunks

CHUNK = {"cpu": 2**18, "cuda": 2**25}  # elements at once: a CPU's cache, a GPU's few GB


def chunk_size(device: torch.device) -> int:
    """Elements to work on at once."""
    return CHUNK.get(device.type, CHUNK["cpu"])


def split(rows: Tensor) -> Iterator[slice]:
    """Slices of the first axis of a 2-D tensor, each of a bounded number of elements."""
    return chunks(rows.shape[0], (chunk_size(rows.device), rows.shape[1]))
