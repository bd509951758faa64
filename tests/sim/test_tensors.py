"""Real tensors from files: what is read, and how a bad file is refused."""

import json
import re

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from mxdot.cli import main
from mxdot.model import DotConfig, QuantizeConfig
from mxdot.model.formats import E4M3, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.sim.dot.tensors import tensor_traffic
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.matmul.unit import bulk_products
from mxdot.sim.quantize.stimulus import tensor_traffic as quantizer_traffic
from mxdot.util.data.sets import data_set
from mxdot.util.data.tensors import REAL_FILE, code_format, load_array, load_tensors, load_values
from mxdot.util.keys import data_digest

ALLOWED = (
    "float32, float16, bfloat16, float64, "
    "or in safetensors F8_E4M3, F8_E5M2, F8_E4M3FNUZ, F8_E5M2FNUZ"
)
X = np.arange(12, dtype=np.float32).reshape(3, 4)
Y = np.ones((2, 5, 4), np.float16)


FLOAT8 = {
    E4M3: "F8_E4M3",
    E5M2: "F8_E5M2",
    E4M3FNUZ: "F8_E4M3FNUZ",
    E5M2FNUZ: "F8_E5M2FNUZ",
    E8M0: "F8_E8M0",
}


def write_float8(path, tensors):
    """A safetensors file of codes, (format, codes) by name."""
    header, data = {}, b""
    for name, (fmt, codes) in tensors.items():
        offsets = [len(data), len(data) + codes.size]
        header[name] = {"dtype": FLOAT8[fmt], "shape": codes.shape, "data_offsets": offsets}
        data += codes.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.fixture
def files(tmp_path):
    arrays = {"bias": np.ones(4, np.float32), "x": X, "y": Y, "n": np.ones((2, 4), np.int32)}
    np.savez(tmp_path / "t.npz", **arrays)
    save_file(arrays | {"b": X.astype(ml_dtypes.bfloat16)}, tmp_path / "t.safetensors")
    return [tmp_path / "t.npz", tmp_path / "t.safetensors"]


def test_the_first_two_that_fit(files):
    for path in files:
        first, second = load_tensors(path)
        assert isinstance(first, np.ndarray)
        assert isinstance(second, np.ndarray)
        assert {first.shape, second.shape} <= {(3, 4), (10, 4)}
        assert first.dtype == second.dtype == np.float32


def test_by_name(files):
    for path in files:
        first, second = load_tensors(path, ("y", "x"))
        assert first.shape == (10, 4)
        np.testing.assert_array_equal(second, X)
        np.testing.assert_array_equal(*load_tensors(path, ("x",)))


def test_bfloat16(files):
    np.testing.assert_array_equal(load_tensors(files[1], ("b", "x"))[0], X)


def test_the_captured_slice():
    first, second = load_tensors(REAL_FILE)
    assert first.shape[1] == second.shape[1] == 384


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("z",), "name must be one of "),
        (("n",), f"n must be {ALLOWED}, not int32"),
        (("bias", "x"), None),
    ],
)
def test_names_refused(files, names, message):
    for path in files:
        if message is None:
            assert load_tensors(path, names)[0].shape == (1, 4)
            continue
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            load_tensors(path, names)
        assert str(caught.value).startswith(f"{path}: ")


def test_lengths_refused(tmp_path):
    np.savez(tmp_path / "t.npz", x=X, z=np.ones((2, 8), np.float32))
    with pytest.raises(ValueError, match="x and z must have equal last axes, not 4 and 8"):
        load_tensors(tmp_path / "t.npz", ("x", "z"))
    with pytest.raises(ValueError, match="must hold two float arrays of equal last axis"):
        load_tensors(tmp_path / "t.npz")


@pytest.mark.parametrize("name", ["t.npz", "t.safetensors"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "missing", "corrupt"])
def test_bad_files(files, name, damage):
    path = next(p for p in files if p.name == name)
    whole = path.read_bytes()
    damaged = {
        "truncated": whole[: len(whole) // 2],
        "empty": b"",
        "text": b"not a tensor file\n" * 9,
        "corrupt": b"\xff" * 64 + whole[64:],
    }
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(damaged[damage])
    with pytest.raises(ValueError, match=re.escape(f"{path}: ")) as caught:
        load_tensors(path, ("x",))
    assert "\n" not in str(caught.value)


def test_corrupt_compressed_data(tmp_path):
    path = tmp_path / "t.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).standard_normal((64, 64)))
    data = bytearray(path.read_bytes())
    data[2000:2040] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(ValueError, match="x cannot be read"):
        load_tensors(path, ("x",))


def test_a_single_array(tmp_path):
    """Against itself, of any name or that of its file."""
    path = tmp_path / "t.npy"
    np.save(path, X)
    for names in ((), ("t",)):
        for rows in load_tensors(path, names):
            np.testing.assert_array_equal(rows, X)
    with pytest.raises(ValueError, match="name must be one of t, not 'x'"):
        load_tensors(path, ("x",))


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_elements_of_no_name_are_refused(tmp_path, suffix):
    """NumPy stores FP8 of ml_dtypes without its name."""
    path, float8 = tmp_path / f"x{suffix}", X.astype(ml_dtypes.float8_e4m3fn)
    if suffix == ".npy":
        np.save(path, float8)
    else:
        np.savez(path, x=float8)
    with pytest.raises(ValueError, match=re.escape(f"{path}: x must be {ALLOWED}, not |V1")):
        load_tensors(path, ("x",))


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e5m2, ml_dtypes.bfloat16])
def test_types_that_numpy_stores_in_its_own_way(tmp_path, suffix, dtype):
    path, array = tmp_path / f"x{suffix}", X.astype(dtype)
    if suffix == ".npy":
        np.save(path, array)
    else:
        np.savez(path, x=array)
    read, name = load_array(path)
    assert (read.dtype, name) == (array.dtype, "x")
    np.testing.assert_array_equal(read, array)
    np.testing.assert_array_equal(load_values(path)[0], array.astype(np.float32))


def test_one_array_as_the_file_holds_it(files):
    for path in files:
        for name, want in (("x", X), ("y", Y), ("bias", np.ones(4, np.float32))):
            read, _ = load_array(path, name)
            assert read.dtype == want.dtype
            np.testing.assert_array_equal(read, want)
        with pytest.raises(ValueError, match="name must choose one of"):
            load_array(path)
        with pytest.raises(ValueError, match="not 'bia'; nearest: bias"):
            load_array(path, "bia")


@pytest.mark.parametrize("fmt", [E4M3, E5M2, E4M3FNUZ, E5M2FNUZ], ids=str)
def test_float8(tmp_path, fmt):
    path = tmp_path / "t.safetensors"
    codes = np.arange(256).astype(np.uint8).reshape(4, 64)
    write_float8(path, {"x": (fmt, codes)})
    x, y = load_tensors(path)
    assert code_format(x) == code_format(y) == fmt
    assert isinstance(x, np.ndarray)
    np.testing.assert_array_equal(x.view(np.uint8), codes)
    values, _ = load_values(path)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, fmt.values[codes])


def test_scales_of_a_checkpoint_are_no_operand(tmp_path):
    path = tmp_path / "t.safetensors"
    codes = np.ones((2, 32), np.uint8)
    write_float8(path, {"a_scale": (E8M0, codes), "x": (E4M3, codes), "y": (E5M2, codes)})
    assert {code_format(rows) for rows in load_tensors(path)} == {E4M3, E5M2}
    message = f"{path}: a_scale must be {ALLOWED}, not F8_E8M0"
    with pytest.raises(ValueError, match=re.escape(message)):
        load_tensors(path, ("a_scale",))


@pytest.mark.parametrize("scales", ["e8m0", "e4m3"])
def test_a_unit_takes_codes_as_they_are(tmp_path, scales):
    """Under scales of one; values beside them are quantised."""
    path, rng = tmp_path / "t.safetensors", np.random.default_rng(1)
    codes = rng.integers(0, 256, (3, 40)).astype(np.uint8)
    write_float8(path, {"w": (E4M3, codes)})
    config = DotConfig("e5m2,e4m3", 16, "fused:13", scales=scales)
    job = UnitJob("unit", config, 1, tmp_path, tensors=path, all_tensors=True)
    (batch,) = tensor_traffic(job, None)
    assert batch.mode == 1
    assert len(batch) == 9
    np.testing.assert_array_equal(batch.a[::3].reshape(3, 48)[:, :40], codes)
    assert not batch.a.reshape(9, 48)[:, 40:].any()
    assert set(batch.scale_a.flat) == {0x38 if scales == "e4m3" else 127}


def test_a_unit_of_other_formats_refuses_codes(tmp_path, capsys):
    path = tmp_path / "t.safetensors"
    write_float8(path, {"w": (E5M2, np.ones((2, 32), np.uint8))})
    assert main(["sim", "dot", "--format", "e4m3,int8", "--tensors", str(path)]) == 2
    message = "tensors must hold values, or codes of e4m3,int8, not e5m2 and e5m2"
    assert capsys.readouterr().err == f"mxdot: error: {message}\n"


def test_a_quantiser_takes_the_values_of_codes(tmp_path):
    path = tmp_path / "t.safetensors"
    codes = np.arange(64).astype(np.uint8).reshape(2, 32)
    write_float8(path, {"w": (E4M3, codes)})
    config = QuantizeConfig("e4m3", 32)
    job = UnitJob("unit", config, 1, tmp_path, tensors=path, all_tensors=True)
    (batch,) = quantizer_traffic(job)
    np.testing.assert_array_equal(batch.bits.view(np.float32)[:2], E4M3.values[codes])


def test_a_matrix_unit_takes_codes_as_they_are(tmp_path):
    path, rng = tmp_path / "t.safetensors", np.random.default_rng(1)
    codes = rng.integers(0, 256, (3, 40)).astype(np.uint8)
    write_float8(path, {"w": (E5M2, codes)})
    config = MatmulConfig(DotConfig("e4m3,e5m2", 4), 1, 1, depth=16)
    job = UnitJob("unit", config, 1, tmp_path, bulk=20, tensors=path, all_tensors=True)
    product = bulk_products(job)[0]
    assert (product.name, product.mode) == ("real", 1)
    np.testing.assert_array_equal(product.a.codes, codes)


def test_data_of_a_comparison(tmp_path):
    """Values of the codes, and of a single array."""
    path = tmp_path / "t.safetensors"
    codes = np.arange(64).astype(np.uint8).reshape(2, 32)
    write_float8(path, {"w": (E4M3, codes)})
    np.save(tmp_path / "t.npy", E4M3.values[codes].astype(np.float32))
    for file in (path, tmp_path / "t.npy"):
        x, _ = data_set(str(file)).draw(np.random.default_rng(1), 4, 32, 32)
        assert {*x.flat} <= {*E4M3.values[codes].flat}
        assert data_digest(str(file))
