"""Where quantisers of other libraries differ from mxdot's, with the smallest operands.

    python -m venv build/libraries
    build/libraries/bin/pip install '.[gpu]' torchao compressed-tensors nvidia-modelopt gguf
    build/libraries/bin/python tools/library_quantizers.py

A library that is missing is named and left out. gpt-oss is restated from its source. --te FOLDER
adds TransformerEngine's reference in Python: the folder `transformer_engine/pytorch/custom_recipes`
of its wheel, which needs no GPU.

Every library quantises the same blocks: a largest magnitude and a second value near a tie, with
both signs, and zeros of both signs, near one and at both ends of float32. Codes count as differing
only under equal scales.
"""

import argparse
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mxdot.model import quantize
from mxdot.model.checkpoints import gguf_mxfp4
from mxdot.model.formats import E2M1, E4M3, FLOAT32, ElementFormat
from mxdot.model.schemes import TENSOR, Level, Scheme, block
from mxdot.model.schemes import quantize as quantize_scheme

F32 = NDArray[np.float32]
LARGE = 2.0**127
NVFP4_SMALL = 6 * 11 / 1024 * 2.0**-6  # scales below are subnormal
NORMAL = 400
"""Tensors of normal numbers."""
WHOLES = tuple(n / 1024 for n in (1, 3, 5, 7, 11))
"""Tensor scales of NVFP4: their reciprocals are not exact."""


@dataclass(frozen=True)
class Made:
    """Codes of elements and of scales, (blocks, elements) and (blocks,)."""

    codes: NDArray
    scales: NDArray


@dataclass(frozen=True)
class Case:
    """A quantiser of a library and the scheme that is nearest to it."""

    library: str
    what: str
    ours: str
    make: Callable[[F32], Made]
    want: Callable[[F32], Made]
    data: Callable[[], F32]
    small: float = 2.0**-110
    """Largest magnitude below which scales are near the least one."""


# Hostile blocks -----------------------------------------------------------------------------------


def significands() -> NDArray[np.float64]:
    """In [1, 2): ends, ties of few digits, and what float32 has next to them."""
    places = np.unique(np.concatenate([np.arange(16, 32) / 16, np.arange(28, 56, 4) / 28]))
    near = [np.float32(places), np.nextafter(np.float32(places), np.float32(0)),
            np.nextafter(np.float32(places), np.float32(2))]  # fmt: skip
    every = np.unique(np.concatenate(near).astype(np.float64))
    return every[(every >= 1) & (every < 2)]


def second_values(fmt: ElementFormat) -> NDArray[np.float64]:
    """Midpoints of neighbouring elements, and the elements."""
    grid = np.unique(np.abs(fmt.values[np.isfinite(fmt.values)]))
    return np.concatenate([(grid[1:] + grid[:-1]) / 2, grid])


def blocks(fmt: ElementFormat, size: int, exponents: range) -> F32:
    """Blocks (n, size): the largest, a second value, its negative and both zeros."""
    largest = np.ldexp(significands()[None, :], np.array(exponents)[:, None]).ravel()
    second = second_values(fmt)
    second = second if len(second) <= 40 else second[:: len(second) // 40]
    x = np.zeros((len(largest), len(second), size))
    x[..., 0] = largest[:, None]
    scale = np.exp2(np.floor(np.log2(np.maximum(largest, 2.0**-149))) - fmt.emax)
    value = scale[:, None] * second
    x[..., 1] = np.minimum(value, largest[:, None])
    x[..., 2] = -x[..., 1]
    x[..., 3] = -0.0
    made = x.reshape(-1, size).astype(np.float32)
    zero = np.zeros((1, size), np.float32)
    return np.concatenate([zero, made])


def mx_blocks(fmt: ElementFormat) -> Callable[[], F32]:
    """Exponents near one, and both ends of float32."""
    every = (range(-2, 3), range(-149, -118), range(120, 128))
    return lambda: np.concatenate([blocks(fmt, 32, part) for part in every])


def nvfp4_tensors() -> F32:
    """Tensors whose scales are `WHOLES`: blocks at ties of E4M3 scales and of codes, and small."""
    return np.concatenate([_nvfp4_tensor(whole) for whole in WHOLES])


def _nvfp4_tensor(whole: float) -> F32:
    first = np.zeros((1, 16))
    first[0, 0] = 448 * 6 * whole
    exact = np.arange(1, 448, dtype=np.float64)  # scales of E4M3, and ties between them
    grid = second_values(E2M1)
    ties = np.zeros((len(exact), len(grid), 16))
    ties[..., 0] = exact[:, None] * 6 * whole
    ties[..., 1] = exact[:, None] * grid * whole
    ties[..., 2], ties[..., 3] = -ties[..., 1], -0.0
    small = blocks(E2M1, 16, range(-30, 4))
    return np.concatenate([first, ties.reshape(-1, 16), small]).astype(np.float32)


def normal_tensors() -> F32:
    """`NORMAL` tensors of 64 blocks of normal numbers."""
    return np.random.default_rng(46).standard_normal((64 * NORMAL, 16), dtype=np.float32)


def bfloat16_tensors() -> F32:
    """The same as bfloat16, whose few digits make ties."""
    return normal_tensors().astype("bfloat16").astype(np.float32)


NORMAL_DATA = {"normal tensors": normal_tensors, "normal tensors of bfloat16": bfloat16_tensors}


# Ours ---------------------------------------------------------------------------------------------


def mx(fmt: ElementFormat, rule: str) -> Callable[[F32], Made]:
    """Our MX with a rule of scales."""

    def make(x: F32) -> Made:
        made = quantize(x, fmt, scale_rule=rule)
        return Made(made.codes, made.scales[:, 0])

    return make


def nvfp4(x: F32, outer: str = "amax", inner: str = "amax") -> Made:
    """Our NVFP4 with rules of both scales."""
    levels = Level(TENSOR, FLOAT32, outer), Level(block(16), E4M3, inner)
    made = quantize_scheme(x, Scheme("nvfp4", (E2M1,), levels, "this script"))
    return Made(made.codes, made.scales[1][:, 0])


def four_over_six(x: F32) -> Made:
    """NVFP4 with both candidates of scales."""
    return nvfp4(x, "amax256", "four_over_six")


def nvfp4_cases(library: str, make: Callable[[F32], Made]) -> Iterator[Case]:
    """Hostile blocks under one tensor scale, and many tensors, each with a scale of its own."""
    yield Case(library, "NVFP4, hostile tensors", "nvfp4", each_tensor(make, len(WHOLES)),
               each_tensor(nvfp4, len(WHOLES)), nvfp4_tensors, NVFP4_SMALL)  # fmt: skip
    for name, data in NORMAL_DATA.items():
        yield Case(library, f"NVFP4, {name}", "nvfp4", each_tensor(make), each_tensor(nvfp4), data)


def each_tensor(make: Callable[[F32], Made], count: int = NORMAL) -> Callable[[F32], Made]:
    """`make` of each of so many tensors."""

    def made(x: F32) -> Made:
        parts = [make(part) for part in np.split(x, count)]
        return Made(*(np.concatenate([getattr(p, name) for p in parts])
                      for name in ("codes", "scales")))  # fmt: skip

    return made


# Libraries ----------------------------------------------------------------------------------------


def nibbles(packed: Any) -> NDArray:
    """Two codes per byte, the first one in the low half."""
    packed = np.asarray(packed.detach().contiguous().view(torch.uint8))
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)


def torchao() -> Iterator[Case]:
    """MX by each mode of scales, and NVFP4."""
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor

    def to_mx(dtype: torch.dtype, mode: Any) -> Callable[[F32], Made]:
        def make(x: F32) -> Made:
            made = MXTensor.to_mx(torch.from_numpy(x), dtype, 32, scaling_mode=mode)
            raw = made.qdata.view(torch.uint8)
            codes = nibbles(raw) if dtype == torch.float4_e2m1fn_x2 else raw.numpy()
            return Made(codes, made.scale.view(torch.uint8).numpy().reshape(-1))

        return make

    def to_nvfp4(x: F32) -> Made:
        scale = torch.tensor(np.abs(x).max()) / (448 * 6)
        made = NVFP4Tensor.to_nvfp4(torch.from_numpy(x), per_tensor_scale=scale)
        scales = made.scale.contiguous().view(torch.uint8).numpy().reshape(-1)
        return Made(nibbles(made.qdata), scales)

    for fmt, dtype in ((E4M3, torch.float8_e4m3fn), (E2M1, torch.float4_e2m1fn_x2)):
        rules = {"FLOOR": "floor", "CEIL": "ceil", "EVEN": "even", "RCEIL": "ceil"}
        for mode, rule in rules.items():
            make = to_mx(dtype, ScaleCalculationMode[mode])
            name = f"MX {fmt}, {mode}"
            yield Case("torchao", name, f"mx {fmt}, {rule}", make, mx(fmt, rule), mx_blocks(fmt))
    yield from nvfp4_cases("torchao", to_nvfp4)


def compressed_tensors() -> Iterator[Case]:
    """MXFP4, MXFP8 and NVFP4."""
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils.helpers import calculate_qparams, generate_gparam

    def compress(name: str, x: F32, arguments: dict[str, Any], size: int, whole: bool) -> Any:
        given = QuantizationArgs(symmetric=True, group_size=size, type="float", **arguments)
        weight = torch.from_numpy(x)
        state = {"weight": weight}
        outer = None
        if whole:
            outer = generate_gparam(weight.min(), weight.max())
            state["weight_global_scale"] = outer
        groups = weight.reshape(len(x), -1, size)
        low, high = groups.amin(-1), groups.amax(-1)
        state["weight_scale"], _ = calculate_qparams(low, high, given, outer)
        compressor = BaseCompressor.get_value_from_registry(name)
        return compressor.compress(state, QuantizationScheme(targets=["Linear"], weights=given))

    def mx_made(name: str, bits: int) -> Callable[[F32], Made]:
        def make(x: F32) -> Made:
            given = {"num_bits": bits, "strategy": "group", "scale_dtype": torch.uint8}
            made = compress(name, x, given, 32, False)
            raw = made["weight_packed"] if bits == 4 else made["weight"]
            codes = nibbles(raw) if bits == 4 else raw.view(torch.uint8).numpy()
            return Made(codes, made["weight_scale"].view(torch.uint8).numpy().reshape(-1))

        return make

    def nv_made(x: F32) -> Made:
        given = {"num_bits": 4, "strategy": "tensor_group", "scale_dtype": torch.float8_e4m3fn}
        made = compress("nvfp4-pack-quantized", x, given, 16, True)
        scales = made["weight_scale"].to(torch.float8_e4m3fn).view(torch.uint8)
        return Made(nibbles(made["weight_packed"]), scales.numpy().reshape(-1))

    name = "compressed-tensors"
    yield Case(name, "MXFP4", "mx e2m1, even", mx_made("mxfp4-pack-quantized", 4),
               mx(E2M1, "even"), mx_blocks(E2M1))  # fmt: skip
    yield Case(name, "MXFP8", "mx e4m3, even1", mx_made("mxfp8-quantized", 8),
               lambda x: scheme_mx(x, E4M3, "even1"), mx_blocks(E4M3))  # fmt: skip
    yield from nvfp4_cases(name, nv_made)


def scheme_mx(x: F32, fmt: ElementFormat, rule: str) -> Made:
    """MX by a registered rule, as a scheme."""
    from mxdot.model.formats import E8M0

    made = quantize_scheme(x, Scheme("mx", (fmt,), (Level(block(32), E8M0, rule),), "this script"))
    return Made(made.codes, made.scales[0][:, 0])


def modelopt() -> Iterator[Case]:
    """MXFP4, MXFP8 and NVFP4."""
    from modelopt.torch.quantization.qtensor import MXFP4QTensor, MXFP8QTensor, NVFP4QTensor

    def mxfp4(x: F32) -> Made:
        made, scale = MXFP4QTensor.quantize(torch.from_numpy(x), 32)
        return Made(nibbles(made._quantized_data), scale.numpy().reshape(-1))

    def mxfp8(x: F32) -> Made:
        made, scale = MXFP8QTensor.quantize(torch.from_numpy(x))
        return Made(made._quantized_data.view(torch.uint8).numpy(), scale.numpy().reshape(-1))

    def nv(x: F32) -> Made:
        made, scale, _ = NVFP4QTensor.quantize(torch.from_numpy(x.copy()), 16)
        scales = scale.view(torch.uint8).numpy().reshape(-1)
        return Made(nibbles(made._quantized_data), scales)

    yield Case("ModelOpt", "MXFP4", "mx e2m1, ceil", mxfp4, mx(E2M1, "ceil"), mx_blocks(E2M1))
    yield Case("ModelOpt", "MXFP8", "mx e4m3, ceil", mxfp8, mx(E4M3, "ceil"), mx_blocks(E4M3))
    yield from nvfp4_cases("ModelOpt", nv)


def gguf() -> Iterator[Case]:
    """MXFP4 and Q8_0."""
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize as quantize_gguf

    def mxfp4(x: F32) -> Made:
        raw = quantize_gguf(x, GGMLQuantizationType.MXFP4).reshape(len(x), 1, 17)
        made = gguf_mxfp4(raw)
        return Made(made.codes, made.scales[0][:, 0])

    def q8_0(x: F32) -> Made:
        raw = quantize_gguf(x, GGMLQuantizationType.Q8_0).reshape(len(x), 1, 34)
        return Made(raw[:, 0, 2:], raw[:, 0, :2].copy().view(np.float16)[:, 0])

    def ours(x: F32) -> Made:
        from mxdot.model.formats import FLOAT16, INT8_SYMMETRIC

        levels = (Level(block(32), FLOAT16),)
        made = quantize_scheme(x, Scheme("q8_0", (INT8_SYMMETRIC,), levels, "this script"))
        return Made(made.codes, made.scales[0][:, 0])

    yield Case("gguf", "MXFP4", "mx e2m1, floor", mxfp4, mx(E2M1, "floor"), mx_blocks(E2M1))
    yield Case("gguf", "Q8_0", "int8_symmetric, float16 per 32", q8_0, ours,
               lambda: blocks(E4M3, 32, range(-28, 16)))  # fmt: skip


def transformer_engine(folder: Path) -> Iterator[Case]:
    """The reference in Python; parts of the library that it imports and does not need are empty."""
    names = ("transformer_engine", "transformer_engine.pytorch",
             "transformer_engine.pytorch.custom_recipes")  # fmt: skip
    for name in (*names, f"{names[1]}.quantized_tensor", f"{names[2]}.gemm"):
        sys.modules[name] = types.ModuleType(name)
    base = type("Base", (), {"__init__": lambda self, **_: None})
    held: Any = sys.modules[f"{names[1]}.quantized_tensor"]
    held.QuantizedTensorStorage = held.Quantizer = base
    parent: Any = sys.modules[names[2]]
    gemm: Any = sys.modules[f"{names[2]}.gemm"]
    gemm.GEMMType, gemm.MMParams = types.SimpleNamespace(FPROP=0), object
    parent.gemm = gemm
    for part in ("reference_utils", "reference_nvfp4"):
        where = spec_from_file_location(f"{names[2]}.{part}", folder / f"{part}.py")
        if where is None or where.loader is None:
            raise ValueError(f"te must be a folder with {part}.py, not {str(folder)!r}")
        module: Any = module_from_spec(where)
        sys.modules[module.__name__] = module
        setattr(parent, part, module)
        where.loader.exec_module(module)
    quantizer = parent.reference_nvfp4.NVFP4QuantizerRef

    def make(**options: Any) -> Callable[[F32], Made]:
        def made(x: F32) -> Made:
            weight = torch.from_numpy(x)
            codes, scales = quantizer._quantize_blockwise_reference(
                weight, weight.abs().amax(), 16, 1, pow_2_scales=False, eps=0.0, **options
            )
            return Made(nibbles(codes), scales.view(torch.uint8).numpy().reshape(-1))

        return made

    name = "TransformerEngine"
    yield from nvfp4_cases(name, make())
    for error in ("MAE", "MSE"):
        options = {"nvfp4_use_4over6": True, "nvfp4_e4m3_max": 256, "nvfp4_4over6_err_mode": error}
        made, want = make(**options), four_over_six
        yield Case(name, f"NVFP4 4over6, {error}, hostile tensors", "amax256, four_over_six",
                   each_tensor(made, len(WHOLES)), each_tensor(want, len(WHOLES)), nvfp4_tensors,
                   NVFP4_SMALL)  # fmt: skip
        for kind, data in NORMAL_DATA.items():
            yield Case(name, f"NVFP4 4over6, {error}, {kind}", "amax256, four_over_six",
                       each_tensor(made), each_tensor(want), data)  # fmt: skip


MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""Midpoints of neighbouring magnitudes of E2M1."""


def gpt_oss() -> Iterator[Case]:
    """MXFP4 as gpt-oss makes it: `downcast_to_mxfp` of Triton's triton_kernels, of bfloat16.

    Restated from its source (triton-lang/triton, commit 018a674f, and its pull request 8110), for
    its package is in no registry.
    """

    def restated(ties_to_even: bool) -> Callable[[F32], Made]:
        def make(x: F32) -> Made:
            fraction, exponent = np.frexp(np.abs(x).max(axis=1) / np.float32(6))
            scales = np.maximum(exponent - (fraction == 0.5) + 127, 1)  # rounded up
            scales = np.where(fraction == 0, 0, scales)
            size = np.abs(np.ldexp(x.astype(np.float64), 127 - scales[:, None]))
            size[fraction == 0] = 0
            codes = np.signbit(x) * np.uint8(8)
            for below, middle in enumerate(MIDPOINTS):
                goes_up = below % 2 == 1 or not ties_to_even
                codes += (size >= middle if goes_up else size > middle).astype(np.uint8)
            return Made(codes, scales.astype(np.uint8))

        return make

    def data() -> F32:
        with np.errstate(over="ignore"):
            x = mx_blocks(E2M1)().astype("bfloat16").astype(np.float32)
        return x[np.isfinite(x).all(axis=1)]

    for when, ties_to_even in (("", True), (" until pull request 8110", False)):
        yield Case("gpt-oss", f"MXFP4{when}", "mx e2m1, ceil", restated(ties_to_even),
                   mx(E2M1, "ceil"), data)  # fmt: skip


# The table ----------------------------------------------------------------------------------------

LIBRARIES = {
    "torchao": torchao,
    "compressed-tensors": compressed_tensors,
    "nvidia-modelopt": modelopt,
    "gguf": gguf,
}


def differences(case: Case) -> list[str]:
    """Lines of one case: counts of each kind of difference, and its simplest operand."""
    x = case.data()
    with np.errstate(all="ignore"):
        theirs, ours = case.make(x), case.want(x)
    amax = np.abs(x).max(axis=1)
    scale = theirs.scales != ours.scales
    code = (theirs.codes.astype(np.int64) & 0xFF) != (ours.codes.astype(np.int64) & 0xFF)
    code &= ~scale[:, None]
    lines = [f"{case.library}, {case.what} against {case.ours}: {len(x)} blocks"]
    small, large = (amax > 0) & (amax < case.small), amax >= LARGE
    kinds = {
        "zero blocks": amax == 0,
        f"amax below {case.small:.3g}": small,
        f"amax from {LARGE:.3g} on": large,
        "other scales": (amax > 0) & ~small & ~large,
    }
    for name, rows in kinds.items():
        wrong = np.flatnonzero(scale & rows)
        if len(wrong):
            row = min(wrong, key=lambda i: _rank(amax[i]))
            lines.append(
                f"    {name}: {len(wrong)} of {rows.sum()} scales, as amax {amax[row]:.9g}: "
                f"{show(theirs.scales[row])} there, {show(ours.scales[row])} here"
            )
    least = ours.scales == ours.scales[amax > 0].min()
    zero = x == 0
    for name, part in (("zeros", zero), ("under the smallest scale", ~zero & least[:, None]),
                       ("other codes", ~zero & ~least[:, None])):  # fmt: skip
        wrong = np.argwhere(code & part)
        if len(wrong):
            row, column = min(wrong, key=lambda at: (_rank(x[tuple(at)]), _rank(amax[at[0]])))
            lines.append(
                f"    {name}: {len(wrong)} of {(part & ~scale[:, None]).sum()} codes, as "
                f"{x[row, column]:.9g} with amax {amax[row]:.9g}, scale {show(ours.scales[row])}: "
                f"{theirs.codes[row, column] & 0xFF:#x} there, "
                f"{ours.codes[row, column] & 0xFF:#x} here"
            )
    if len(lines) == 1:
        lines.append("    the same")
    return lines


def _rank(value: Any) -> tuple[float, float]:
    """Simple numbers first: few digits, then near one."""
    mantissa, exponent = np.frexp(abs(float(value)))
    digits = 0 if mantissa == 0 else int(np.log2(float(mantissa).as_integer_ratio()[1]))
    return digits, abs(int(exponent))


def show(scale: Any) -> str:
    """A scale: its code, or the value of a float."""
    return f"{int(scale):#x}" if np.asarray(scale).dtype == np.uint8 else f"{float(scale):.6g}"


def main() -> int:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # pyright: ignore[reportOptionalMemberAccess]
    parser.add_argument("--te", type=Path, metavar="FOLDER", help="TransformerEngine's recipes")
    args = parser.parse_args()
    makers = dict(LIBRARIES)
    for package in [*makers]:
        try:
            print(f"{package} {version(package)}")
        except PackageNotFoundError:
            print(f"{package} is not installed")
            del makers[package]
    cases = [case for make in makers.values() for case in make()] + [*gpt_oss()]
    if args.te is not None:
        cases += transformer_engine(args.te)
    for case in cases:
        print("\n".join(differences(case)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
