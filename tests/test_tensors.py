"""Real tensors from files: what is read, and how a bad file is refused."""

import re

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from mxdot.sim.bench.tensors import REAL_FILE, load_tensors

X = np.arange(12, dtype=np.float32).reshape(3, 4)
Y = np.ones((2, 5, 4), np.float16)


@pytest.fixture
def files(tmp_path):
    arrays = {"bias": np.ones(4, np.float32), "x": X, "y": Y, "n": np.ones((2, 4), np.int32)}
    np.savez(tmp_path / "t.npz", **arrays)
    save_file(arrays | {"b": X.astype(ml_dtypes.bfloat16)}, tmp_path / "t.safetensors")
    return [tmp_path / "t.npz", tmp_path / "t.safetensors"]


def test_the_first_two_that_fit(files):
    for path in files:
        first, second = load_tensors(path)
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
        (("n",), "n: x must be float32, float16, bfloat16 or float64, not int32"),
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
    np.save(tmp_path / "t.npy", X)
    with pytest.raises(ValueError, match="not a single npy array"):
        load_tensors(tmp_path / "t.npy")
