"""Tensor files from strangers: what was written, or ValueError in one line; never another value."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save as safetensors_bytes

from compare import generator
from fuzz import damaged, fuzz, misspelt, outcome
from mxdot.model.files import read_array
from mxdot.model.schemes import Limits, load, save
from mxdot.model.schemes import quantize as quantize_scheme
from mxdot.sim.dot.vectors import load as load_vectors
from mxdot.util.data.tensors import load_tensors
from scheme_cases import assert_same

GOLDEN = Path(__file__).parents[1] / "vectors"

X = generator("fuzz").standard_normal((3, 64), np.float32)
Y = np.arange(640).reshape(10, 64).astype(np.float16)
VALUES = {
    name: quantize_scheme(X, name)
    for name in ("mxfp4", "nvfp4", "int4_affine_g128:b32", "mixed4", "mx9")
} | {"limits": Limits(-np.ones(3), np.ones(3))}
PLAIN = pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file")


def npz(compressed=False, **arrays):
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def parts_of(value, folder):
    save(folder / "whole.npz", value)
    data = (folder / "whole.npz").read_bytes()
    with np.load(io.BytesIO(data)) as file:
        return data, dict(file)


def check(value, want):
    if isinstance(want, Limits):
        np.testing.assert_array_equal([value.low, value.high], [want.low, want.high])
    else:
        assert_same(value, want)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@PLAIN
@fuzz(60)
@given(damaged([npy(X)]) | st.sampled_from([b"", b"PK\x03\x04", npy(X).replace(b"{", b"{{", 1)]))
def test_npy(tmp_path, data):
    """Nothing sums up a file of one array: what comes has the size that its header says."""
    path = tmp_path / "t.npy"
    path.write_bytes(data)
    array = outcome(read_array, path, 2**20, errors=ValueError)
    assert array is None or array.nbytes <= len(data)
    assert [each.name for each in tmp_path.iterdir()] == ["t.npy"]


@PLAIN
@fuzz(60)
@given(damaged([npz(x=X, y=Y), npz(True, x=X, y=Y)]))
def test_npz(tmp_path, data):
    """Names are under no sum of the file's; arrays are what was written, or refused."""
    path = tmp_path / "t.npz"
    path.write_bytes(data)
    for array in outcome(load_tensors, path, errors=ValueError) or ():
        assert isinstance(array, np.ndarray)
        assert any(np.array_equal(array, want) for want in (X, Y))
    assert [each.name for each in tmp_path.iterdir()] == ["t.npz"]


@fuzz(60)
@given(damaged([safetensors_bytes({"x": X, "y": Y})]))
def test_safetensors(tmp_path, data):
    """The format has no sums: a flipped bit is another number, but shapes are those of bytes."""
    path = tmp_path / "t.safetensors"
    path.write_bytes(data)
    for array in outcome(load_tensors, path, errors=ValueError) or ():
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float32
        assert array.nbytes <= 4 * len(data)


@PLAIN
@pytest.mark.parametrize("name", VALUES)
@fuzz(15)
@given(st.data())
def test_schemes(tmp_path, name, data):
    whole, _ = parts_of(VALUES[name], tmp_path)
    path = tmp_path / "odd.npz"
    path.write_bytes(data.draw(damaged([whole])))
    arrays = outcome(load, path, errors=ValueError)
    if arrays is not None:
        check(arrays, VALUES[name])


@pytest.mark.parametrize("name", VALUES)
@fuzz(30)
@given(st.data())
def test_descriptions_of_schemes(tmp_path, name, data):
    """An array that can be read is written and read again unchanged."""
    _, parts = parts_of(VALUES[name], tmp_path)
    header = data.draw(misspelt([str(parts.pop("header"))]))
    path = tmp_path / "odd.npz"
    path.write_bytes(npz(header=np.array(header), **parts))
    arrays = outcome(load, path, errors=ValueError)
    if arrays is not None and outcome(lambda: save(path, arrays) or True, errors=ValueError):
        check(load(path), arrays)


@PLAIN
@fuzz(20)
@given(damaged([(GOLDEN / "e2m1.npz").read_bytes()]))
def test_vectors(tmp_path, data):
    path = tmp_path / "v.npz"
    path.write_bytes(data)
    vectors = outcome(load_vectors, path, errors=ValueError)
    if vectors is not None:
        want = load_vectors(GOLDEN / "e2m1.npz")
        for name, array in want.arrays.items():
            np.testing.assert_array_equal(vectors.arrays[name], array)


@fuzz(40)
@given(st.data())
def test_manifests_of_vectors(tmp_path, data):
    with np.load(GOLDEN / "e2m1.npz") as file:
        parts = dict(file)
    path = tmp_path / "v.npz"
    text = data.draw(misspelt([str(parts.pop("manifest"))]))
    path.write_bytes(npz(manifest=np.array(text), **parts))
    outcome(load_vectors, path, errors=ValueError)


ODD_HEADERS = {
    "fewer bytes": ((3, 32), "3, 32"),
    "more bytes": ((10**15, 64), "1000000000000000, 64"),
    "beyond an integer": ((10**30,), "1000000000000000000000000000000,"),
    "negative": ((-3, -64), "-3, -64"),
}


def with_header(text):
    """x under a header that asks for another shape, the zip's sum made anew."""
    buffer, out = io.BytesIO(npz(x=X)), io.BytesIO()
    with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(out, "w") as target:
        member = source.read("x.npy")
        start = member[:10] + member[10:128].replace(b"(3, 64)", b"(%s)" % text.encode())
        target.writestr("x.npy", start[:127].rstrip().ljust(127) + b"\n" + member[128:])
    return out.getvalue()


@pytest.mark.parametrize("text", [text for _, text in ODD_HEADERS.values()], ids=ODD_HEADERS)
def test_a_shape_that_is_not_that_of_the_bytes(tmp_path, text):
    (tmp_path / "t.npz").write_bytes(with_header(text))
    with pytest.raises(ValueError, match=r"t.npz: x cannot be read: 768 bytes are no float32 of"):
        load_tensors(tmp_path / "t.npz", ("x",))


def test_a_shape_changed_under_the_sum(tmp_path):
    """NumPy reads the 4 rows of a header that asks for so many, and never gets to the sum."""
    data = npz(x=np.ones((5, 64), np.float32), y=Y)
    (tmp_path / "t.npz").write_bytes(data.replace(b"(5, 64)", b"(4, 64)"))
    with pytest.raises(ValueError, match=r"t.npz: x cannot be read: Bad CRC-32 for file 'x.npy'"):
        load_tensors(tmp_path / "t.npz", ("x",))


def test_an_array_that_is_there_twice(tmp_path):
    (tmp_path / "t.npz").write_bytes(npz(x=X))
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(tmp_path / "t.npz", "a") as file,
    ):
        file.writestr("x.npy", b"")
    with pytest.raises(ValueError, match="names of arrays must differ"):
        load_tensors(tmp_path / "t.npz", ("x",))
