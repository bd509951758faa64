"""Weights of quantised checkpoints, bit for bit, as arrays of schemes.

`Checkpoint(path)` reads safetensors files and GGUF files; `LAYOUTS` lists the layouts. To add one,
write a function in the file of its library and a row in `LAYOUTS`.

    >>> weights = Checkpoint("model.safetensors")     # or the directory of a model
    >>> weights.layouts
    {'model.layers.0.mlp.down_proj': 'nvfp4-pack-quantized', ...}
    >>> weights["model.layers.0.mlp.down_proj"].dequantize()
"""

from .checkpoint import Checkpoint
from .compressed_tensors import (
    int_quantized,
    modelopt_int4,
    modelopt_nvfp4,
    nvfp4_packed,
    pack_quantized,
)
from .gptq_awq import awq, gptq
from .layouts import LAYOUTS
from .models import deepseek_fp8, gguf_mxfp4, gguf_q8_0, mx_elements, mxfp4_blocks
from .torchao import torchao_int4

__all__ = [
    "LAYOUTS",
    "Checkpoint",
    "awq",
    "deepseek_fp8",
    "gguf_mxfp4",
    "gguf_q8_0",
    "gptq",
    "int_quantized",
    "modelopt_int4",
    "modelopt_nvfp4",
    "mx_elements",
    "mxfp4_blocks",
    "nvfp4_packed",
    "pack_quantized",
    "torchao_int4",
]
