"""Checkpoints of hand-made bytes: what is read, and what is refused in one line."""

import json
import os
import re
import struct

import ml_dtypes
import numpy as np
import pytest
from safetensors import SafetensorError, safe_open

from checkpoint_files import COLUMNS, ROWS, floats, fp8, make, random_bytes, read, words, write
from mxdot.model.checkpoints import (
    Checkpoint,
    awq,
    gptq,
    int_quantized,
    modelopt_nvfp4,
    nvfp4_packed,
    torchao_int4,
)

FP8 = {"w.weight": fp8(256, 384), "w.weight_scale": floats(2, 1, 3, 1)}
PACKED = {
    "w.weight_packed": words(ROWS, COLUMNS // 4),
    "w.weight_scale": floats(ROWS, 2, dtype="F16"),
    "w.weight_shape": ("I64", np.array([ROWS, COLUMNS], np.int64)),
}
INT4 = {"w.weight": ("U8", random_bytes(ROWS // 2, COLUMNS)), "w.weight_scale": floats(ROWS, 2)}
GPTQ = {
    "w.qweight": words(COLUMNS // 8, ROWS),
    "w.qzeros": words(2, ROWS // 8),
    "w.scales": floats(2, ROWS, dtype="F16"),
}
I8 = ("I8", random_bytes(4, 128).view(np.int8))
TORCHAO = {"w._weight_qdata": I8, "w._weight_scale": floats(4, 4)}
ZEROS = {"w._weight_zero_point": ("F32", np.zeros((4, 4), np.float32))}


def file(tmp_path, tensors, config=None, about=None):
    """A safetensors file, and what it says about its tensors."""
    path = write(tmp_path / "model.safetensors", tensors, config)
    if about is not None:
        data = path.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start]) | {"__metadata__": about}
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[start:])
    return path


def named(kind, **options):
    return {"w.weight": json.dumps({"_type": kind, "_data": options}, separators=(",", ":"))}


def refused(path, message):
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(f'{path}: {message}')}"):
        Checkpoint(path)["w"]


def test_groups_under_a_scale_of_zero_are_zeros():
    """The scale is the least of its format; codes and zero points are zero."""
    packed = np.full((2, 16), 0x77, np.uint8)
    e4m3 = np.array([[0, 0x38], [0x38, 0x38]], np.uint8).view(ml_dtypes.float8_e4m3fn)
    nvfp4 = nvfp4_packed(packed, e4m3, np.ones((), np.float32))
    assert nvfp4.scales[-1].tolist() == [[1, 0x38], [0x38, 0x38]]
    weight, zero_point = np.full((2, 8), 5, np.int8), np.full((2, 2), 3, np.int8)
    half = np.array([[0, 1], [2, 0]], np.float16)
    affine = int_quantized(weight, half, zero_point)
    assert affine.scales[-1].tolist() == [[2.0**-24, 1], [2, 2.0**-24]]
    assert affine.zero_points is not None
    assert affine.zero_points.tolist() == [[0, 3], [3, 0]]
    assert affine.dequantize().tolist() == [[0] * 4 + [2] * 4, [4] * 4 + [0] * 4]
    assert not nvfp4.dequantize()[0, :16].any()
    assert nvfp4.dequantize()[:, 16:].all()


def test_a_vector_is_no_weight(tmp_path):
    path = file(tmp_path, {"w.weight": ("U8", random_bytes(ROWS)), "w.weight_scale": floats(ROWS)})
    assert not Checkpoint(path).layouts


def test_torchao_names_the_class(tmp_path):
    """Bytes that fit INT4 and INT8 are read as the class that the file names, else refused."""
    int8 = {"w._weight_zero_point": ("I8", np.zeros((4, 4), np.int8))}
    for kind, zeros, layout, columns in (
        ("Int4Tensor", ZEROS, "torchao int4", 256),
        ("IntxUnpackedToInt8Tensor", int8, "torchao integers", 128),
    ):
        checkpoint = Checkpoint(file(tmp_path, TORCHAO | zeros, about=named(kind)))
        assert checkpoint.layouts == {"w": layout}
        assert checkpoint["w"].shape == (4, columns)
    for about in (None, {"epoch": "5", "w.weight": '["_type"]'}):
        path = file(tmp_path, TORCHAO | ZEROS, about=about)
        fits = "w: scales (4, 4) of qdata (4, 128) fit INT4 and INT8"
        refused(path, f"{fits}: the file's metadata must")
    path = file(tmp_path, TORCHAO | ZEROS, about=named("IntxUnpackedToInt8Tensor"))
    refused(path, "w: zero_point must hold integers, not float32")
    by_row = TORCHAO | {"w._weight_scale": floats(4, 2)}
    by_row["w._weight_zero_point"] = "F32", np.zeros((4, 2), np.float32)
    assert not Checkpoint(file(tmp_path, by_row)).layouts


@pytest.mark.parametrize("swizzled", [True, False])
def test_kernel_order_in_any_spacing(tmp_path, swizzled):
    path = make("torchao nvfp4", tmp_path)
    path = file(tmp_path, read(path), about=named("NVFP4Tensor", is_swizzled_scales=swizzled))
    if swizzled:
        refused(path, "w.weight must have codes and scales by row, not in the order of a kernel")
    else:
        assert Checkpoint(path)["w"].shape == (ROWS, COLUMNS)


@pytest.mark.parametrize(
    ("qdata", "scale", "zeros", "message"),
    [
        ((64,), (1, 64), (1, 64), "qdata must have 2 axes (more if it is int8), not shape (64,)"),
        ((2, 4, 8), (2, 2, 4), (2, 2, 4), "qdata must have 2 axes (more if it is int8), not shape"),
        ((4, 8), (2, 4), (2, 1), "scale and zero_point of qdata (4, 8) must have shape (..., grou"),
        ((4, 8), (4, 2), (4, 2), "scale and zero_point of qdata (4, 8) must have shape (..., grou"),
    ],
)
def test_shapes_of_torchao_int4(qdata, scale, zeros, message):
    parts = np.zeros(qdata, np.int32), np.ones(scale, np.float32), np.zeros(zeros, np.int8)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        torchao_int4(*parts)


def test_unsigned_words_of_gptq():
    codes, zeros, scales = (GPTQ[f"w.{name}"][1] for name in ("qweight", "qzeros", "scales"))
    unsigned = gptq(codes, zeros.view(np.uint32), scales)
    np.testing.assert_array_equal(unsigned.dequantize(), gptq(codes, zeros, scales).dequantize())


def test_groups_of_gptq(tmp_path):
    config = {"quant_method": "gptq", "bits": 4}
    more = {"w.qzeros": words(3, ROWS // 8)}
    message = "w: qzeros must hold one zero point for each of scales (2, 8), not (3, 8)"
    g_idx = {"w.g_idx": ("I32", np.arange(COLUMNS, dtype=np.int32)[::-1] // 32)}
    for extra in ({}, g_idx):
        refused(file(tmp_path, GPTQ | more | extra, config), message)
    one_axis = {"w.qzeros": words(2)}
    refused(file(tmp_path, GPTQ | one_axis, config), "w: packed codes must have 2 axes, not shape")
    path = file(tmp_path, GPTQ, config | {"desc_act": True})
    refused(path, "w: tensors of a gptq weight with desc_act must have 'g_idx', not lack it")


def test_modelopt_w4a8(tmp_path):
    assert Checkpoint(file(tmp_path, INT4))["w"].shape == (ROWS, COLUMNS)
    path = file(tmp_path, INT4 | {"w.weight_scale_2": floats()})
    refused(path, "w: weight_scale_2 of INT4 codes must be missing: W4A8 rounds their values again")


def test_bits_of_packed_words(tmp_path):
    """INT8 without config.json, and in a second group; words of neither."""
    groups = {f"group_{bits}": {"weights": {"num_bits": bits}} for bits in (4, 8)}
    codes = PACKED["w.weight_packed"][1].view(np.uint8).reshape(ROWS, COLUMNS) ^ 128
    for config in (None, {"config_groups": groups}):
        array = Checkpoint(file(tmp_path, PACKED, config))["w"]
        np.testing.assert_array_equal(array.codes, codes)
    four = {"config_groups": {"group_0": groups["group_4"]}}
    message = "w: weight_packed of 4 bits and 64 columns must have shape (rows, 8), not (8, 16)"
    refused(file(tmp_path, PACKED, four), message)
    zeros = {"w.weight_zero_point": words(ROWS // 4, 3)}
    message = "w: weight_zero_point must hold one zero point for each of scales (8, 2), not (8, 3)"
    refused(file(tmp_path, PACKED | zeros, {}), message)


@pytest.mark.parametrize("tensors", [PACKED, FP8], ids=["words", "bytes"])
def test_order_of_activations(tmp_path, tensors):
    g_idx = {"w.weight_g_idx": ("I32", np.zeros(COLUMNS, np.int32))}
    refused(file(tmp_path, tensors | g_idx, {}), "w: weight_g_idx must be missing: groups must ho")


def test_tiles_of_modelopt(tmp_path):
    """Tiles of 128 x 128, two along the rows and three along the columns."""
    codes, scales = FP8["w.weight"][1], FP8["w.weight_scale"][1]
    values = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    want = values * scales.reshape(2, 3).repeat(128, axis=0).repeat(128, axis=1)
    np.testing.assert_array_equal(Checkpoint(file(tmp_path, FP8))["w"].dequantize(), want)


def test_two_scales_of_inputs(tmp_path):
    inputs = {f"w.{end}": floats(COLUMNS) for end in ("pre_quant_scale", "_weight_act_pre_scale")}
    path = file(tmp_path, INT4 | inputs)
    refused(path, "w: scales of inputs must be one of w.pre_quant_scale and w._weight_act_pre_sca")


def test_shapes_below_zero(tmp_path):
    path = file(tmp_path, {"w.weight": floats(2, 4)})
    path.write_bytes(path.read_bytes().replace(b"[2, 4]", b"[-2,-4]", 1))
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little") + 1
    path.write_bytes(size.to_bytes(8, "little") + data[8:])
    message = "it must be a safetensors file: w.weight must have a shape of whole numbers, not [-2,"
    refused(path, message)


def packed(numbers):
    """A word of 8 numbers of 4 bits, the first in the lowest bits, less 1 each, as GPTQ stores."""
    total = sum((n - 1) << 4 * i for i, n in enumerate(numbers))
    return np.array([[total % 2**32]], np.uint32).view(np.int32)


@pytest.mark.parametrize("zeros", [[8] * 8, [1, 9, 3, 15, 1, 7, 2, 5], [0, 9, 0, 15, 1, 0, 2, 0]])
def test_zero_points_of_gptq(zeros):
    """Whole words less 1 in each place: a zero point of 0 borrows from its neighbour."""
    codes = np.full((1, 8), 0x76543210, np.uint32).view(np.int32)  # 0 to 7 along the inputs
    array = gptq(codes, packed(zeros), np.full((1, 8), 0.5, np.float32))
    want = [[0.5 * (n - z) for n in range(8)] for z in zeros]
    np.testing.assert_array_equal(array.dequantize(), np.array(want, np.float32))


def test_the_global_scale_of_nvfp4_divides():
    codes = np.array([[0x42, 0x71, 0, 0, 0, 0, 0, 0xF6]], np.uint8)  # 1, 2, 0.5, 6, ..., 4, -6
    scale = np.array([[2.0]], ml_dtypes.float8_e4m3fn)
    values = nvfp4_packed(codes, scale, np.array([8.0], np.float32)).dequantize()[0]
    np.testing.assert_array_equal(values[[0, 1, 2, 3, 14, 15]], [0.25, 0.5, 0.125, 1.5, 1, -1.5])


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def test_options_of_gguf(tmp_path):
    """Texts, numbers and lists of both, which stand ahead of the tensors; 64-byte alignment."""
    options = [
        text("general.name") + struct.pack("<I", 8) + text("a name"),
        text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc"),
        text("ids") + struct.pack("<IIQ3i", 9, 5, 3, 1, 2, 3),
        text("general.alignment") + struct.pack("<II", 4, 64),
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(options)) + b"".join(options)
    head += text("w.weight") + struct.pack("<IQQIQ", 2, 32, 1, 8, 0)
    block = np.float16(0.5).tobytes() + np.arange(-16, 16, dtype=np.int8).tobytes()
    path = tmp_path / "model.gguf"
    path.write_bytes(head + bytes(-len(head) % 64) + block)
    want = np.arange(-16, 16, dtype=np.float32)[None] / 2
    np.testing.assert_array_equal(Checkpoint(path)["w"].dequantize(), want)


def test_order_of_awq_columns():
    """Columns 0 to 7 lie in the places 0, 4, 1, 5, 2, 6, 3, 7 of a word."""
    word = np.array([[0x75316420]], np.uint32).view(np.int32)
    array = awq(word, np.zeros((1, 1), np.int32), np.ones((1, 8), np.float16))
    np.testing.assert_array_equal(array.dequantize()[:, 0], np.arange(8))


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_bits_default_to_4(method, tmp_path):
    path = make(method, tmp_path)
    config = path.with_name("config.json")
    want = Checkpoint(path)["w"].dequantize()
    text = json.loads(config.read_text())
    assert text["quantization_config"].pop("bits") == 4
    config.write_text(json.dumps(text))
    np.testing.assert_array_equal(Checkpoint(path)["w"].dequantize(), want)


def test_names_of_tensors(tmp_path):
    more = {"v.weight": FP8["w.weight"], "v.weight_scale": FP8["w.weight_scale"]}
    path = file(tmp_path, {**FP8, **more, "w.pre_quant_scale": floats(384)})
    checkpoint = Checkpoint(path)
    assert checkpoint.tensors_of("w") == ["w.weight", "w.weight_scale", "w.pre_quant_scale"]
    assert checkpoint.tensors_of("v") == ["v.weight", "v.weight_scale"]


def test_float8_of_torchao(tmp_path):
    path = make("torchao fp8", tmp_path)
    assert Checkpoint(path)["w"].scheme.elements[0].name == "e4m3"


@pytest.mark.parametrize(("size", "is_read"), [(100_000_000, True), (100_000_001, False)])
def test_the_largest_header(tmp_path, size, is_read):
    """The limit is that of the library safetensors."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(size.to_bytes(8, "little"))
    os.truncate(path, 8 + size)
    with pytest.raises(SafetensorError, match="invalid JSON" if is_read else "too large"):
        safe_open(path, "numpy")
    kind = "it must be a safetensors file"
    refused(path, f"{kind}: Expecting value" if is_read else f"{kind}, whole, not")


def test_a_tensor_scale_of_zero():
    packed, scale = words(ROWS, 4)[1].view(np.uint8), np.ones((ROWS, 2), ml_dtypes.float8_e4m3fn)
    one = modelopt_nvfp4(packed, scale, np.array(1, np.float32))
    assert one.dequantize().any()
    for zero in (
        modelopt_nvfp4(packed, scale, np.array(0, np.float32)),
        nvfp4_packed(packed, scale, np.array(np.inf, np.float32)),
    ):
        assert not zero.codes.any()
        assert not zero.dequantize().any()


def test_zero_points_beyond_their_format_are_refused():
    weight, scale = np.zeros((2, 8), np.int8), np.ones((2, 1), np.float32)
    with pytest.raises(ValueError, match=r"^zero points must be from -128 to 127, not 4294967296$"):
        int_quantized(weight, scale, np.full((2, 1), 2**32, np.int64))
