"""Small checkpoints of each layout, written byte by byte."""

import json
import struct
from pathlib import Path

import numpy as np

ROWS, COLUMNS = 8, 64
KINDS = {"U8": "u1", "F8_E4M3": "u1", "F8_E8M0": "u1", "I8": "i1", "F16": "f2", "F32": "f4",
         "I32": "i4", "I64": "i8"}  # fmt: skip
RNG = np.random.default_rng(40)


def write(path: Path, tensors: dict, config: dict | None = None) -> Path:
    """A safetensors file of (dtype, array) by name, with a quantization_config beside it."""
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    if config is not None:
        (path.parent / "config.json").write_text(json.dumps({"quantization_config": config}))
    return path


def read(path: Path) -> dict:
    """Tensors of a safetensors file as `write` takes them; FP8 as bytes."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        first, last = (start + offset for offset in entry["data_offsets"])
        raw = np.frombuffer(data[first:last], KINDS[entry["dtype"]])
        tensors[name] = entry["dtype"], raw.reshape(entry["shape"])
    return tensors


def gguf(path: Path, kind: int, blocks: np.ndarray) -> Path:
    """A GGUF file of one tensor of blocks (rows, groups, bytes)."""
    name = b"w.weight"
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", len(name)) + name
    rows, groups, _ = blocks.shape
    head += struct.pack("<IQQIQ", 2, 32 * groups, rows, kind, 0)
    path.write_bytes(head + bytes(-len(head) % 32) + blocks.tobytes())
    return path


def random_bytes(*shape: int, low: int = 0, high: int = 256) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(np.uint8)


def fp8(rows: int = ROWS, columns: int = COLUMNS) -> tuple[str, np.ndarray]:
    """E4M3 codes without NaN."""
    return "F8_E4M3", random_bytes(rows, columns, high=127)


def floats(*shape: int, dtype: str = "F32") -> tuple[str, np.ndarray]:
    kind = {"F32": np.float32, "F16": np.float16}[dtype]
    return dtype, np.asarray(RNG.random(shape) + 0.5).astype(kind)


def words(*shape: int) -> tuple[str, np.ndarray]:
    return "I32", random_bytes(*shape[:-1], 4 * shape[-1]).view(np.int32)


def make(layout: str, folder: Path) -> Path:  # noqa: C901  # a case per layout
    """A file of the layout with the weight ``w``."""
    path = folder / "model.safetensors"
    exponents = "U8", random_bytes(ROWS, COLUMNS // 32, low=120, high=130)
    nibbles = "U8", random_bytes(ROWS, COLUMNS // 2)
    e4m3 = "F8_E4M3", random_bytes(ROWS, COLUMNS // 16, low=40, high=90)
    scalar = "F32", np.array([0.02], np.float32)
    groups = ROWS, COLUMNS // 32
    match layout:
        case "gpt-oss mxfp4":
            blocks = "U8", nibbles[1].reshape(1, ROWS, COLUMNS // 32, 16)
            scales = "U8", exponents[1].reshape(1, *groups)
            return write(path, {"w_blocks": blocks, "w_scales": scales})
        case "deepseek fp8":
            return write(path, {"w.weight": fp8(), "w.weight_scale_inv": floats(1, 1)})
        case "deepseek fp8, E8M0":
            scale = "F8_E8M0", random_bytes(1, 1, low=120, high=130)
            return write(path, {"w.weight": fp8(), "w.weight_scale_inv": scale})
        case "nvfp4-pack-quantized":
            tensors = {"w.weight_packed": nibbles, "w.weight_scale": e4m3}
            return write(path, {**tensors, "w.weight_global_scale": scalar})
        case "modelopt nvfp4":
            tensors = {"w.weight": nibbles, "w.weight_scale": e4m3, "w.weight_scale_2": scalar}
            return write(path, tensors, {"quant_method": "modelopt"})
        case "modelopt mxfp4":
            return write(path, {"w.weight": nibbles, "w.weight_scale": exponents})
        case "modelopt int4":
            packed = "U8", random_bytes(ROWS // 2, COLUMNS)
            return write(path, {"w.weight": packed, "w.weight_scale": floats(*groups)})
        case "int-quantized, tiles":
            return write(path, {"w.weight": fp8(), "w.weight_scale": floats(1, 1, 1, 1)})
        case "pack-quantized":
            tensors = {"w.weight_packed": words(ROWS, COLUMNS // 8)}
            shape = "I64", np.array([ROWS, COLUMNS], np.int64)
            scale = floats(*groups, dtype="F16")
            return write(path, {**tensors, "w.weight_scale": scale, "w.weight_shape": shape})
        case "mxfp4-pack-quantized":
            return write(path, {"w.weight_packed": nibbles, "w.weight_scale": exponents})
        case "mxfp8-quantized":
            return write(path, {"w.weight": fp8(), "w.weight_scale": exponents})
        case "int-quantized":
            codes = "I8", random_bytes(ROWS, COLUMNS).view(np.int8)
            return write(path, {"w.weight": codes, "w.weight_scale": floats(ROWS, 1)})
        case "torchao nvfp4":
            tensors = {"w._weight_qdata": nibbles, "w._weight_scale": e4m3}
            scale = "F32", np.asarray(scalar[1][0])
            return write(path, {**tensors, "w._weight_per_tensor_scale": scale})
        case "torchao mx":
            scale = "F8_E8M0", exponents[1]
            return write(path, {"w._weight_qdata": fp8(), "w._weight_scale": scale})
        case "torchao integers":
            codes = "I8", random_bytes(ROWS, COLUMNS, high=16).view(np.int8) - np.int8(8)
            zeros = "I8", random_bytes(*groups, high=8).view(np.int8)
            tensors = {"w._weight_qdata": codes, "w._weight_scale": floats(*groups)}
            return write(path, {**tensors, "w._weight_zero_point": zeros})
        case "torchao fp8":
            return write(path, {"w._weight_qdata": fp8(), "w._weight_scale": floats(ROWS, 1)})
        case "torchao int4":
            codes = "I8", nibbles[1].view(np.int8)
            tensors = {"w._weight_qdata": codes, "w._weight_scale": floats(*groups[::-1])}
            zeros = "F32", np.zeros(groups[::-1], np.float32)
            return write(path, {**tensors, "w._weight_zero_point": zeros})
        case "torchao int4, words":
            tensors = {"w._weight_qdata": words(ROWS, COLUMNS // 8)}
            tensors["w._weight_scale"] = floats(*groups[::-1], dtype="F16")
            zeros = "I8", random_bytes(*groups[::-1], high=16).view(np.int8)
            return write(path, {**tensors, "w._weight_zero_point": zeros})
        case "awq":
            tensors = {"w.qweight": words(COLUMNS, ROWS // 8), "w.qzeros": words(2, ROWS // 8)}
            tensors["w.scales"] = floats(2, ROWS, dtype="F16")
            return write(path, tensors, {"quant_method": "awq", "bits": 4})
        case "gptq":
            tensors = {"w.qweight": words(COLUMNS // 8, ROWS), "w.qzeros": words(2, ROWS // 8)}
            tensors["w.qzeros"][1][:] = 0x77777777
            tensors["w.scales"] = floats(2, ROWS, dtype="F16")
            return write(path, tensors, {"quant_method": "gptq", "bits": 4})
        case "gguf Q8_0":
            blocks = random_bytes(*groups, 34)
            blocks[..., :2] = floats(*groups, 1, dtype="F16")[1].view(np.uint8)
            return gguf(folder / "model.gguf", 8, blocks)
        case "gguf MXFP4":
            blocks = random_bytes(*groups, 17)
            blocks[..., 0] = exponents[1]
            return gguf(folder / "model.gguf", 39, blocks)
    raise ValueError(layout)


HELD = {
    "gpt-oss mxfp4": ("e2m1", "e8m0", 32),
    "deepseek fp8": None,
    "deepseek fp8, E8M0": ("e4m3", "e8m0", 64),
    "nvfp4-pack-quantized": ("e2m1", "e4m3", 16),
    "modelopt nvfp4": ("e2m1", "e4m3", 16),
    "modelopt mxfp4": ("e2m1", "e8m0", 32),
    "modelopt int4": None,
    "pack-quantized": None,
    "mxfp4-pack-quantized": ("e2m1", "e8m0", 32),
    "mxfp8-quantized": ("e4m3", "e8m0", 32),
    "int-quantized": ("int8", None, 0),
    "int-quantized, tiles": None,
    "torchao nvfp4": ("e2m1", "e4m3", 16),
    "torchao mx": ("e4m3", "e8m0", 32),
    "torchao integers": None,
    "torchao fp8": ("e4m3", None, 0),
    "torchao int4": None,
    "torchao int4, words": None,
    "awq": None,
    "gptq": None,
    "gguf Q8_0": None,
    "gguf MXFP4": ("e2m1", "e8m0", 32),
}
"""Element format, scale format and block that units take as they are; None for values."""
