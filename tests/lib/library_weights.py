"""Weights as libraries quantise them, and the checkpoints that hold their tensors."""

import json

import numpy as np
import torch
from safetensors.torch import save_file

from compare import generator
from mxdot.model.checkpoints import Checkpoint


def weights(name: str, rows: int = 48, columns: int = 128) -> torch.Tensor:
    """Random weights with a row of zeros, a block of zeros and an outlier."""
    rng = generator("checkpoints", name)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    x[3] = 0
    x[5, :32] = 0
    x[7, 9] = 40
    return torch.from_numpy(x)


def stored(tmp_path, tensors, config=None):
    """The checkpoint of tensors and a quantization_config, in a directory."""
    save_file({k: v.contiguous() for k, v in tensors.items()}, tmp_path / "model.safetensors")
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
    return Checkpoint(tmp_path)


def packed_by_hand(numbers, axis):
    """Eight numbers of four bits per word along `axis`, one after the other."""
    moved = np.moveaxis(numbers, axis, -1)
    words = np.zeros((*moved.shape[:-1], moved.shape[-1] // 8), np.uint32)
    for i in range(8):
        words |= moved[..., i::8].astype(np.uint32) << np.uint32(4 * i)
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32))
