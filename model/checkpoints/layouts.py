"""Layouts of quantised weights: which tensors a weight has, and what reads them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import ml_dtypes
import numpy as np

from ..formats import E2M1
from ..schemes import ScaledArray
from .compressed_tensors import (
    holds_pairs_of_rows,
    int4_alone,
    int_quantized,
    modelopt_nvfp4,
    nvfp4_packed,
    read_packed,
    rows_or_tiles,
)
from .gptq_awq import is_awq, read_awq, read_gptq
from .models import block_shape, deepseek_fp8, mx_elements, mxfp4_blocks
from .parts import E8M0_DTYPE, ELEMENTS, Parts, nibbles
from .torchao import TORCHAO, is_int4, torchao_int4, torchao_mx


class Layout(NamedTuple):
    """A layout of checkpoints.

    suffixes: ends of the names of a weight's tensors, the first one its codes. optional: further
    ends. accepts: whether the tensors, and the model's `quantization_config`, are of this layout.
    read: their ScaledArray. classes: torchao's classes of this layout. A file that names the class
    of a weight decides instead of `accepts`.
    """

    suffixes: tuple[str, ...]
    accepts: Callable[[Parts, Mapping], bool]
    read: Callable[[Parts, Mapping], ScaledArray]
    optional: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def takes(self, parts: Parts, config: Mapping, kind: str | None) -> bool:
        """Whether a weight is of this layout; kind: the class that the file names."""
        if kind is not None and self.classes:
            return kind in self.classes
        return self.accepts(parts, config)


def _takes(read: Callable[..., ScaledArray], *suffixes: str) -> Callable[..., ScaledArray]:
    """The reader that hands these tensors to `read`, None for one that is missing."""
    return lambda parts, config: read(*map(parts.get, suffixes))


LAYOUTS: dict[str, Layout] = {
    "gpt-oss mxfp4": Layout(
        ("_blocks", "_scales"),
        lambda parts, config: parts["_blocks"].dtype == np.uint8,
        _takes(mxfp4_blocks, "_blocks", "_scales"),
    ),
    "deepseek fp8": Layout(
        (".weight", ".weight_scale_inv"),
        lambda parts, config: parts[".weight"].dtype in ELEMENTS,
        lambda parts, config: deepseek_fp8(
            parts[".weight"], parts[".weight_scale_inv"], *block_shape(config)
        ),
    ),
    "nvfp4-pack-quantized": Layout(
        (".weight_packed", ".weight_scale", ".weight_global_scale"),
        lambda parts, config: True,
        _takes(nvfp4_packed, ".weight_packed", ".weight_scale", ".weight_global_scale"),
    ),
    "pack-quantized": Layout(
        (".weight_packed", ".weight_scale", ".weight_shape"),
        lambda parts, config: parts[".weight_packed"].dtype == np.int32,
        lambda parts, config: read_packed(_local(parts), config),
        (".weight_zero_point", ".weight_g_idx"),
    ),
    "mxfp4-pack-quantized": Layout(
        (".weight_packed", ".weight_scale"),
        lambda parts, config: parts[".weight_scale"].dtype == np.uint8,
        lambda parts, config: mx_elements(
            nibbles(parts[".weight_packed"]), parts[".weight_scale"], E2M1
        ),
    ),
    "modelopt int4": Layout(
        (".weight", ".weight_scale"),
        lambda parts, config: holds_pairs_of_rows(parts[".weight"], parts[".weight_scale"]),
        _takes(int4_alone, ".weight", ".weight_scale", ".weight_scale_2"),
        (".weight_scale_2",),
    ),
    "modelopt nvfp4": Layout(
        (".weight", ".weight_scale", ".weight_scale_2"),
        lambda parts, config: parts[".weight"].dtype == np.uint8,
        _takes(modelopt_nvfp4, ".weight", ".weight_scale", ".weight_scale_2"),
    ),
    "modelopt mxfp4": Layout(
        (".weight", ".weight_scale"),
        lambda parts, config: parts[".weight"].dtype == parts[".weight_scale"].dtype == np.uint8,
        lambda parts, config: mx_elements(nibbles(parts[".weight"]), parts[".weight_scale"], E2M1),
    ),
    "mxfp8-quantized": Layout(
        (".weight", ".weight_scale"),
        lambda parts, config: (
            parts[".weight"].dtype in ELEMENTS and parts[".weight_scale"].dtype == np.uint8
        ),
        lambda parts, config: mx_elements(
            parts[".weight"], parts[".weight_scale"], ELEMENTS[parts[".weight"].dtype]
        ),
    ),
    "int-quantized": Layout(
        (".weight", ".weight_scale"),
        lambda parts, config: parts[".weight"].dtype in (np.int8, *ELEMENTS),
        _takes(rows_or_tiles, ".weight", ".weight_scale", ".weight_zero_point", ".weight_g_idx"),
        (".weight_zero_point", ".weight_g_idx"),
    ),
    "torchao nvfp4": Layout(
        TORCHAO[:2],
        lambda parts, config: parts["._weight_scale"].dtype == np.dtype(ml_dtypes.float8_e4m3fn),
        lambda parts, config: modelopt_nvfp4(
            parts["._weight_qdata"],
            parts["._weight_scale"],
            parts.get("._weight_per_tensor_scale", np.ones((), np.float32)),
        ),
        ("._weight_per_tensor_scale",),
        classes=("NVFP4Tensor",),
    ),
    "torchao mx": Layout(
        TORCHAO[:2],
        lambda parts, config: parts["._weight_scale"].dtype == E8M0_DTYPE,
        _takes(torchao_mx, *TORCHAO[:2]),
        classes=("MXTensor",),
    ),
    "torchao int4": Layout(
        TORCHAO,
        lambda parts, config: is_int4(*map(parts.__getitem__, TORCHAO)),
        _takes(torchao_int4, *TORCHAO),
        classes=("Int4Tensor", "Int4PlainInt32Tensor"),
    ),
    "torchao integers": Layout(
        TORCHAO,
        lambda parts, config: (
            parts["._weight_qdata"].shape[-1] % parts["._weight_scale"].shape[-1] == 0
            and parts["._weight_zero_point"].dtype == np.int8
        ),
        _takes(int_quantized, *TORCHAO),
        classes=("IntxUnpackedToInt8Tensor", "Int8Tensor"),
    ),
    "torchao fp8": Layout(
        TORCHAO[:2],
        lambda parts, config: parts["._weight_qdata"].dtype in ELEMENTS,
        _takes(int_quantized, *TORCHAO[:2]),
        classes=("Float8Tensor",),
    ),
    "awq": Layout(
        (".qweight", ".qzeros", ".scales"),
        lambda parts, config: is_awq(_local(parts), config),
        lambda parts, config: read_awq(_local(parts), config),
    ),
    "gptq": Layout(
        (".qweight", ".qzeros", ".scales"),
        lambda parts, config: True,
        lambda parts, config: read_gptq(_local(parts), config),
        (".g_idx",),
    ),
}
"""Layouts of safetensors files by name, the most specific of a set of tensors first."""


def _local(parts: Parts) -> Parts:
    """Parts without the dot before their names."""
    return {name.removeprefix("."): part for name, part in parts.items()}
