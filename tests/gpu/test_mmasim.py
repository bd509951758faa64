"""Every machine that MMA-Sim models gives its results, on operands of every class.

MMA-Sim (arXiv:2511.10909), package `mmasim`, shares no code with the model. It has no promoted or
permuted FP8 instructions, and none of Arm and Intel: `NOT_MODELLED` names those rows.
"""

import os
import sysconfig
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cases import Cases, random_cases, under_e4m3
from compare import FULL, describe, generator, repeat_command
from mxdot.model import MACHINES, MXArray, dot

COUNT = 20_000 if FULL else 400
NOT_MODELLED = {
    *("hopper-promoted", "hopper-mx", "hopper-mma", "hopper-mma-float16"),
    *("blackwell-mma", "blackwell-mma-float16"),
    *("arm-fp8-mmla", "arm-fp8-dot", "arm-fp8-mmla-float16", "arm-fp8-dot-float16"),
    *("amx-bf16", "avx512-bf16"),
}
TYPES = {
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e4m3fnuz": torch.float8_e4m3fnuz,
    "e5m2fnuz": torch.float8_e5m2fnuz,
}
PTX = {"fp16": "f16", "bf16": "bf16", "tf32": "tf32"}
SHAPES = {"fp16": 16, "bf16": 16, "tf32": 8}
ARCHITECTURES = {
    "volta": "Volta",
    "turing": "Turing",
    "ampere": "Ampere",
    "ada": "Ada Lovelace",
    "hopper": "Hopper",
    "blackwell": "Blackwell",
    "rtx50": "RTX Blackwell",
}
AMD = {
    ("cdna1-fp16", "fp16"): ("CDNA1", "f32_16x16x16f16"),
    ("cdna1-bf16", "bf16"): ("CDNA1", "f32_16x16x8bf16"),
    ("cdna2-fp16", "fp16"): ("CDNA2", "f32_16x16x16f16"),
    ("cdna2-fp16", "bf16"): ("CDNA2", "f32_16x16x16bf16_1k"),
    ("cdna2-bf16", "bf16"): ("CDNA2", "f32_16x16x8bf16"),
    ("cdna3-fp16", "fp16"): ("CDNA3", "f32_16x16x16_f16"),
    ("cdna3-fp16", "bf16"): ("CDNA3", "f32_16x16x16_bf16"),
    ("cdna3-xf32", "tf32"): ("CDNA3", "f32_16x16x8_xf32"),
}
FNUZ = {"e4m3fnuz": "fp8", "e5m2fnuz": "bf8"}


@pytest.fixture(scope="module")
def simulator() -> Any:
    """The modules of MMA-Sim, which compiles a kernel when it is imported."""
    os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about compilers and devices
        import mmasim.amd
        import mmasim.nv_ptx

    return mmasim


def pairs() -> list[Any]:
    """Every row that MMA-Sim models with every pair of formats that it takes."""
    return [
        pytest.param(name, *(text.split("x") * 2)[:2], id=f"{name}-{text}")
        for name, row in MACHINES.items()
        if name not in NOT_MODELLED and not row.sums_groups
        for text in row.operands
    ]


def operation(simulator: Any, name: str, a: str, b: str) -> Any:
    """The instruction of MMA-Sim for a row and its formats."""
    if name.startswith("cdna"):
        if name == "cdna3-fp8":
            return simulator.amd.MFMA("CDNA3", f"f32_16x16x32_{FNUZ[a]}_{FNUZ[b]}")
        return simulator.amd.MFMA(*AMD[name, a])
    nv, architecture = simulator.nv_ptx, ARCHITECTURES[name.split("-")[0]]
    result = "f16" if name.endswith("float16") else "f32"
    k, types = SHAPES.get(a, 32), f"{PTX.get(a, a)}.{PTX.get(b, b)}"
    if architecture == "Hopper":
        return nv.WGMMA(architecture, f"m64n8k{k}.{result}.{types}")
    if architecture == "Blackwell":
        kind = {32: "f8f6f4", 16: "f16", 8: "tf32"}[k]
        return nv.TCGen05MMA(architecture, f"m64n8k{k}.kind::{kind}.{result}.{types}")
    if architecture in ("Volta", "Turing"):
        shape = {"Volta": "m8n8k4", "Turing": "m16n8k8"}[architecture]
        return nv.MMA(architecture, f"{shape}.{result}.{types}.{result}")
    kind = "kind::f8f6f4." if architecture == "RTX Blackwell" and k == 32 else ""
    return nv.MMA(architecture, f"m16n8k{k}.{kind}{result}.{types}.{result}")


def operand(x: MXArray) -> torch.Tensor:
    """Codes in the tensor that MMA-Sim takes for their format."""
    codes, fmt = x.codes.copy(), x.format.name
    if fmt in TYPES:
        return torch.from_numpy(codes).view(TYPES[fmt])
    if fmt == "fp16":
        return torch.from_numpy(codes.view(np.float16))
    if fmt == "bf16":
        return torch.from_numpy(codes.view(np.int16)).view(torch.bfloat16)
    if fmt == "tf32":
        return torch.from_numpy((codes.astype(np.uint32) << 13).view(np.float32))
    return torch.from_numpy(codes << 2 if fmt == "e2m1" else codes)  # bits 5 to 2 of a byte


def running(cases: Cases, name: str) -> torch.Tensor:
    """The running values of the cases; of a row with float16 results, those that are float16."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = name.endswith("float16")
        return torch.from_numpy(cases.c.astype(np.float16) if narrow else cases.c)


def check(cases: Cases, name: str, compute: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """`compute` of the running values gives the model's results; a zero has no sign."""
    c = running(cases, name)
    start = c.float().numpy()
    got = dot(cases.a, cases.b, name, start, scale_format=cases.scale_format)
    want = compute(c).float().numpy() + np.float32(0)
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    if name == "cdna3-fp8":  # MMA-Sim drops a special c far below the products
        same |= ~np.isfinite(start)
    if not same.all():
        first = int(np.argmin(same))
        pytest.fail(
            f"{(~same).sum()} of {len(same)} dot products differ; the first, row {first}:\n"
            f"{describe(cases[first : first + 1], name)}\n"
            f"got         {got.view(np.uint32)[first]:#010x}\n"
            f"MMA-Sim     {want.view(np.uint32)[first]:#010x}\n"
            f"repeat      {repeat_command().replace('.venv', '.venv-gpu')}"
        )


def unscaled(x: MXArray) -> MXArray:
    """The same codes under scales of 1."""
    return MXArray(x.codes, np.full_like(x.scales, 127), x.format, x.block_size)


@pytest.mark.parametrize(("name", "a", "b"), pairs())
def test_products(simulator, name, a, b):
    instruction, terms = operation(simulator, name, a, b), MACHINES[name].terms
    # MMA-Sim drops the NaN of a step in the next one, too.
    for length in (terms,) if name == "cdna3-fp8" else (terms, 2 * terms):
        cases = random_cases(generator("mmasim", name, a, b, length), (a, b), COUNT, 1, length)
        cases = Cases(unscaled(cases.a), unscaled(cases.b), cases.c)
        operands = operand(cases.a), operand(cases.b)
        check(cases, name, lambda c, operands=operands: instruction.dpa(*operands, c))


def block_scaled(simulator: Any, name: str, types: str) -> Any:
    """The block-scaled instruction of a Blackwell row. types: shape to scales, as in PTX."""
    if name.startswith("rtx50"):
        shape, rest = types.split(".", 1)
        kind, block, *formats, scales = rest.split(".")
        text = ".".join([f"m16n8{shape}", kind, block, *formats, "f32", scales])
        return simulator.nv_ptx.MMABlockScale("RTX Blackwell", text)
    return simulator.nv_ptx.TCGen05MMABlockScale("Blackwell", f"m128n8{types}")


@pytest.mark.parametrize("name", ["blackwell", "rtx50"])
@pytest.mark.parametrize(
    "pair", [("e4m3", "e4m3"), ("e5m2", "e2m1"), ("e3m2", "e2m3")], ids="x".join
)
def test_products_under_scales(simulator, name, pair):
    kind = "k32.kind::mxf8f6f4.block32.f32"
    instruction = block_scaled(simulator, name, ".".join([kind, *pair, "ue8m0"]))
    cases = random_cases(generator("mmasim", name, pair), pair, 2 * COUNT, 1, 32)
    scales = (
        torch.from_numpy(x.scales.copy()).view(torch.float8_e8m0fnu) for x in (cases.a, cases.b)
    )
    arguments = *scales, operand(cases.a), operand(cases.b)
    alpha, beta, a, b = arguments
    check(cases, name, lambda c: instruction.dpa(a, b, c, alpha, beta))


@pytest.mark.parametrize("name", ["blackwell-mxf4nvf4", "rtx50-mxf4nvf4"])
@pytest.mark.parametrize(("block", "scales"), [(32, "ue8m0"), (16, "ue8m0"), (16, "ue4m3")])
def test_group_sums(simulator, name, block, scales):
    kind = f"k64.kind::mxf4nvf4.block{block}.f32.e2m1.e2m1"
    instruction = block_scaled(simulator, name, f"{kind}.{scales}")
    rng = generator("mmasim", name, block, scales)
    cases = random_cases(rng, ("e2m1", "e2m1"), 2 * COUNT, 64 // block, block)
    dtype = torch.float8_e8m0fnu
    if scales == "ue4m3":
        cases, dtype = under_e4m3(rng, cases), torch.float8_e4m3fn
    # Two elements in a byte, the first in the upper half.
    a, b = (torch.from_numpy(x.codes[:, 0::2] << 4 | x.codes[:, 1::2]) for x in (cases.a, cases.b))
    alpha, beta = (torch.from_numpy(x.scales.copy()).view(dtype) for x in (cases.a, cases.b))
    check(cases, name, lambda c: instruction.dpa(a, b, c, alpha, beta))
