"""Capture operands and results of the tensor cores of an H200 into tests/vectors/h200.

    python tools/capture_h200.py DIRECTORY [PRESET ...]

Needs the GPU and PyTorch with Triton. One npz file for each preset; the arrays of case NAME are

    NAME.a, NAME.b                  codes (M, K), (N, K), of the format's dtype
    NAME.scale_a, NAME.scale_b      uint8 E8M0 codes (M, K / 32), (N, K / 32), where there are any
    NAME.c                          uint32 bits of float32 (M, N), where products do not start at +0
    NAME.result                     uint32 bits of float32 (M, N), as the tensor core gave them

NAME is FORMATS-CLASS-K, and cublas-FORMATS-CLASS-K for the products of cuBLAS.
"""

import sys
from itertools import product
from pathlib import Path

import numpy as np
import torch  # type: ignore[import-not-found]
from torch import Tensor  # type: ignore[import-not-found]

from mxdot.gpu.hardware import agreement, silicon
from mxdot.gpu.hardware.agreement import CLASSES, PAIRS, Operands
from mxdot.gpu.hardware.black_boxes import scaled_mm
from mxdot.model import E5M2

ROWS = 48
LENGTHS = {
    "hopper": 64,
    "hopper-promoted": 256,
    "hopper-mx": 128,
    "hopper-fp16": 96,
    "hopper-bf16": 96,
    "hopper-tf32": 64,
}
CUBLAS = {"hopper": True, "hopper-promoted": False}  # preset: fast accumulation


def capture(rule: str, rng: torch.Generator) -> dict[str, np.ndarray]:
    """The arrays of a preset's file."""
    arrays: dict[str, np.ndarray] = {}
    length = LENGTHS[rule]
    for formats, operands in product(PAIRS, CLASSES):
        if not set(formats) <= set(silicon.FORMATS[rule]):
            continue
        name = f"{formats[0].name}x{formats[1].name}-{operands}-{length}"
        scaled = rule == "hopper-mx"
        shape = (ROWS, ROWS, length)
        drawn = agreement.draw(rng, operands, formats, shape, operands != "sparse", scaled)
        arrays |= _arrays(name, drawn, agreement.silicon_bits(rule, drawn), scaled)
        if rule in CUBLAS and formats != (E5M2, E5M2):
            drawn = agreement.draw(rng, operands, formats, shape, False, False)
            a, b = (x.to_float8()[0] for x in (drawn.a, drawn.b))
            bits = scaled_mm(a, b, CUBLAS[rule]).view(torch.int32)
            arrays |= _arrays(f"cublas-{name}", drawn, bits, False)
    return arrays


def _arrays(name: str, drawn: Operands, bits: Tensor, scaled: bool) -> dict[str, np.ndarray]:
    tensors = {"a": drawn.a.codes, "b": drawn.b.codes, "result": bits}
    if drawn.c is not None:
        tensors["c"] = drawn.c.view(torch.int32)
    if scaled:
        tensors |= {"scale_a": drawn.a.scales, "scale_b": drawn.b.scales}
    arrays = {f"{name}.{part}": x.cpu().numpy() for part, x in tensors.items()}
    return {key: x.view(np.uint32) if x.dtype == np.int32 else x for key, x in arrays.items()}


def main() -> None:
    """Write the files."""
    directory, rules = Path(sys.argv[1]), sys.argv[2:] or LENGTHS
    directory.mkdir(parents=True, exist_ok=True)
    rng = torch.Generator("cuda").manual_seed(4)
    for rule in rules:
        path = directory / f"{rule}.npz"
        np.savez_compressed(path, allow_pickle=False, **capture(rule, rng))
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
