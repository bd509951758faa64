"""MXTensor: conversions, moves, files, packed codes, scale tiles."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compare import generator
from devices import BYTES, assert_same_blocks, bits, on_devices, tensor
from mxdot import gpu, model
from mxdot.gpu import MXTensor
from mxdot.gpu.schemes import ScaledTensor
from mxdot.model import FORMATS, MXArray
from mxdot.model.schemes import SCHEMES
from scheme_cases import assert_same, random_array, shrunk

every_format = pytest.mark.parametrize("fmt", FORMATS)


def random_blocks(fmt, shape=(6, 64), block_size=16, axis=-1, padding=0):
    rng = generator("gpu tensor", fmt, shape)
    codes = rng.integers(0, 1 << FORMATS[fmt].bits, shape).astype(FORMATS[fmt].dtype)
    scales = list(shape)
    scales[axis] //= block_size
    scales = rng.integers(0, 256, scales, dtype=np.uint8)
    return MXArray(codes, scales, fmt, block_size, axis, padding)


# The model's arrays -----------------------------------------------------------------------------


@on_devices
@every_format
def test_there_and_back(fmt, device):
    for axis in (0, 1, -2):
        x = random_blocks(fmt, (32, 64), axis=axis, padding=3)
        moved = MXTensor.from_model(x, device)
        assert_same_blocks(moved, x)
        back = moved.to_model()
        np.testing.assert_array_equal(back.codes, x.codes)
        np.testing.assert_array_equal(back.scales, x.scales)
        assert (back.format, back.axis, back.padding) == (x.format, x.axis, x.padding)


def test_codes_are_kept_not_copied():
    codes, scales = torch.zeros(2, 32, dtype=torch.uint8), torch.zeros(2, 1, dtype=torch.uint8)
    x = MXTensor(codes, scales, "e4m3")
    assert x.codes.data_ptr() == codes.data_ptr()
    assert x.scales.data_ptr() == scales.data_ptr()
    assert x.to("cpu") is x


def test_contiguous():
    x = MXTensor.from_model(random_blocks("e4m3", (32, 64), axis=0))
    turned = MXTensor(x.codes.T, x.scales.T, "e4m3", 16, axis=1)
    assert not turned.codes.is_contiguous()
    same = turned.contiguous()
    assert same.codes.is_contiguous()
    assert same.scales.is_contiguous()
    np.testing.assert_array_equal(
        bits(same.dequantize().numpy()), bits(x.dequantize().numpy().T.copy())
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_values(dtype):
    x = MXTensor.from_model(random_blocks("e5m2"))
    want = x.dequantize().to(dtype)
    result = x.dequantize(dtype)
    assert result.dtype == dtype
    assert torch.equal(result.view(torch.int16), want.view(torch.int16))


def test_on_another_device():
    x = MXTensor.from_model(random_blocks("e4m3")).to("meta")
    assert (x.device.type, x.codes.device, x.scales.device) == ("meta", x.device, x.device)
    assert x.shape == (6, 64)


def through_a_file(x):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("fmt", ["e2m1", "fp16", "tf32"])
@pytest.mark.parametrize("copied", [copy.deepcopy, through_a_file])
def test_a_copy(copied, fmt):
    x = random_blocks(fmt, axis=0, shape=(32, 5), padding=1)
    assert_same_blocks(copied(MXTensor.from_model(x)), x)


def test_a_pickle():
    """A pickle of bytes; PyTorch 2.13 pickles uint16 only in its own files."""
    x = random_blocks("e2m1", axis=0, shape=(32, 5), padding=1)
    assert_same_blocks(pickle.loads(pickle.dumps(MXTensor.from_model(x))), x)


@pytest.mark.cuda
def test_to_the_gpu_and_back():
    x = random_blocks("e4m3", axis=0, shape=(32, 5), padding=1)
    moved = MXTensor.from_model(x).to("cuda")
    assert moved.device.type == moved.scales.device.type == "cuda"
    assert_same_blocks(moved.to("cpu"), x)


# torch's floats: an implementation of the formats that is not ours --------------------------------

FLOAT8 = ("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz")


@on_devices
@pytest.mark.parametrize("fmt", FLOAT8)
def test_float8_is_the_same_value(fmt, device):
    codes = torch.arange(256, dtype=torch.uint8, device=device)
    x = MXTensor(codes, torch.full((1,), 127, dtype=torch.uint8, device=device), fmt, 256)
    elements, _ = x.to_float8()
    result, want = x.dequantize().cpu().numpy(), elements.to(torch.float32).cpu().numpy()
    np.testing.assert_array_equal(bits(result), bits(want))
    assert elements.data_ptr() == codes.data_ptr()


@on_devices
@pytest.mark.parametrize(("fmt", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_a_float_is_the_same_value(fmt, dtype, device):
    codes = torch.arange(2**16, device=device).to(torch.uint16)
    x = MXTensor(codes, torch.full((1,), 127, dtype=torch.uint8, device=device), fmt, 2**16)
    result, want = x.dequantize().cpu().numpy(), codes.view(dtype).float().cpu().numpy()
    np.testing.assert_array_equal(bits(result), bits(want))


@on_devices
def test_float8_scale_is_the_same_value(device):
    scales = torch.arange(256, dtype=torch.uint8, device=device)
    ones = torch.full((256,), 0x38, dtype=torch.uint8, device=device)
    x = MXTensor(ones, scales, "e4m3", 1)
    _, view = x.to_float8()
    result, want = x.dequantize().cpu().numpy(), view.to(torch.float32).cpu().numpy()
    np.testing.assert_array_equal(bits(result), bits(want))


@on_devices
@pytest.mark.parametrize("fmt", FLOAT8)
def test_float8_there_and_back(fmt, device):
    x = random_blocks(fmt, (32, 64), axis=0)
    back = MXTensor.from_float8(*MXTensor.from_model(x, device).to_float8(), 16, 0)
    assert_same_blocks(back, x)


# Files ------------------------------------------------------------------------------------------


def test_a_file_gives_back_what_was_saved(tmp_path):
    saved = {
        "layer.weight": random_blocks("e4m3", (4, 64), padding=2),
        "columns": random_blocks("e2m1", (32, 3), axis=0),
        "cube": random_blocks("int8", (2, 32, 3), axis=-2),
        "nothing": random_blocks("e5m2", (0, 32), 32),
        **{name: random_blocks(name) for name in FORMATS},
    }
    path = tmp_path / "x.safetensors"
    tensors = {name: MXTensor.from_model(x) for name, x in saved.items()}
    gpu.save(path, tensors | {"again": tensors["cube"]})
    loaded = gpu.load(path)
    assert set(loaded) == {*saved, "again"}
    for name, x in saved.items():
        assert_same_blocks(loaded[name], x)
    assert_same_blocks(loaded["again"], saved["cube"])


def test_a_view_is_saved_as_it_looks(tmp_path):
    x = MXTensor.from_model(random_blocks("e4m3", (32, 64), axis=0))
    turned = MXTensor(x.codes.T, x.scales.T, "e4m3", 16)
    gpu.save(tmp_path / "x", {"x": turned})
    assert_same_blocks(gpu.load(tmp_path / "x")["x"], turned.to_model())


@pytest.mark.parametrize("name", SCHEMES)
def test_a_file_gives_back_schemes(name, tmp_path):
    rng = generator("gpu files", name)
    known = random_array(rng, SCHEMES[name], 256, 256, "nan")
    own = random_array(rng, shrunk(SCHEMES[name]), 24, 48, "any")
    saved = {"known": known, "own": own}
    tensors = {key: ScaledTensor.from_model(x) for key, x in saved.items()}
    tensors["mx"] = MXTensor.from_model(random_blocks("e4m3"))
    gpu.save(tmp_path / "x", tensors)
    loaded = gpu.load(tmp_path / "x")
    assert_same_blocks(loaded.pop("mx"), random_blocks("e4m3"))
    assert list(loaded) == list(saved)
    for key, x in saved.items():
        assert isinstance(loaded[key], ScaledTensor)
        assert_same(loaded[key].to_model(), x)


@pytest.mark.cuda
def test_a_file_is_loaded_to_the_gpu(tmp_path):
    x = random_blocks("e4m3")
    gpu.save(tmp_path / "x", {"x": MXTensor.from_model(x, "cuda")})
    loaded = gpu.load(tmp_path / "x", "cuda")["x"]
    assert loaded.device.type == "cuda"
    assert_same_blocks(loaded, x)


# Packed codes -----------------------------------------------------------------------------------


@on_devices
@every_format
def test_packing_is_the_models(fmt, device):
    for shape in ((64,), (3, 64), (2, 5, 32), (0, 32), (4, 0)):
        codes = generator("gpu pack", fmt, shape).integers(0, 1 << FORMATS[fmt].bits, shape)
        codes = codes.astype(FORMATS[fmt].dtype)
        packed = gpu.pack(tensor(codes, device), fmt)
        np.testing.assert_array_equal(packed.cpu().numpy(), model.pack(codes, fmt))
        np.testing.assert_array_equal(gpu.unpack(packed, fmt).cpu().numpy(), codes)


@on_devices
@pytest.mark.parametrize("fmt", BYTES)
def test_every_packed_byte(fmt, device):
    every = np.stack(np.meshgrid(np.arange(256), [0, 0x5A, 0xFF], [0, 0xC3, 0xFF]), axis=-1)
    # Whole groups of codes of 6 bits, three bytes, and of 5 bits, five.
    every = np.ascontiguousarray(np.tile(every.reshape(-1, 3), 5), np.uint8)
    codes = gpu.unpack(tensor(every, device), fmt)
    np.testing.assert_array_equal(codes.cpu().numpy(), model.unpack(every, fmt))
    assert torch.equal(gpu.pack(codes, fmt).cpu(), torch.tensor(every))


def test_packing_by_hand():
    one_half_and_one = torch.tensor([0x1, 0x2], dtype=torch.uint8)
    assert gpu.pack(one_half_and_one, "e2m1").tolist() == [0x21]
    six = torch.tensor([0x3F, 0x00, 0x01, 0x20], dtype=torch.uint8)
    assert gpu.pack(six, "e3m2").tolist() == [0x3F, 0x10, 0x80]


@every_format
def test_an_mxtensor_packs(fmt):
    x = random_blocks(fmt, padding=4)
    y = MXTensor.from_model(x)
    assert_same_blocks(MXTensor.from_packed(y.pack(), y.scales, fmt, 16, padding=4), x)


# Scale tiles ------------------------------------------------------------------------------------


def tile_by_hand(scales):
    """The formula, one scale at a time."""
    rows, blocks = scales.shape
    across = -(-blocks // 4)
    tiled = np.zeros(-(-rows // 128) * across * 512, np.uint8)
    for row in range(rows):
        for block in range(blocks):
            r, c = row % 128, block % 4
            tile = row // 128 * across + block // 4
            tiled[tile * 512 + r % 32 * 16 + r // 32 * 4 + c] = scales[row, block]
    return tiled


SHAPES = [(128, 4), (1, 1), (127, 3), (129, 5), (256, 8), (300, 10), (32, 16), (0, 4), (5, 0)]


@on_devices
@pytest.mark.parametrize("shape", SHAPES)
def test_tiles(shape, device):
    scales = generator("gpu tiles", shape).integers(0, 256, shape, dtype=np.uint8)
    tiled = gpu.tile_scales(tensor(scales, device))
    np.testing.assert_array_equal(tiled.cpu().numpy(), tile_by_hand(scales))
    back = gpu.untile_scales(tiled, *shape)
    assert (back.shape, back.is_contiguous()) == (shape, True)
    np.testing.assert_array_equal(back.cpu().numpy(), scales)


@given(rows=st.integers(0, 400), blocks=st.integers(0, 20))
def test_any_shape_of_tiles(rows, blocks):
    scales = torch.randint(0, 256, (blocks, rows), dtype=torch.uint8).T  # not contiguous
    tiled = gpu.tile_scales(scales)
    assert int(tiled.sum()) == int(scales.sum())
    assert torch.equal(gpu.untile_scales(tiled, rows, blocks), scales)
