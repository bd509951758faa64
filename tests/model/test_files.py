"""Files that are none, and files that would fill the memory: refused at once, in one line."""

import io
import os
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fuzz import refusal
from mxdot.model import files
from mxdot.model.files import ROOM, opened, read_array
from mxdot.model.schemes import load as load_scheme
from mxdot.sim.dot.vectors import load as load_vectors
from mxdot.util.data.tensors import load_tensors
from mxdot.verify.soak.state import State
from mxdot.verify.soak.vector import load as load_failure

READERS = {
    "x.npy": lambda path: read_array(path, 2**20),
    "scheme.npz": load_scheme,
    "tensors.npz": load_tensors,
    "tensors.safetensors": load_tensors,
    "vectors.npz": load_vectors,
    "failure.json": load_failure,
    "state.json": lambda path: State(path.parent).load(),
}
pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_text(tmp_path):
    (tmp_path / "a.v").write_bytes("é\r\n\rb\n".encode())
    (tmp_path / "link").symlink_to("a.v")
    assert files.read_text(tmp_path / "link", 7) == "é\n\nb\n"
    assert files.read_bytes(tmp_path / "a.v", 7) == "é\r\n\rb\n".encode()


@pytest.mark.parametrize("read", [files.read_bytes, files.read_text, files.open_file])
def test_a_file_beyond_its_limit(tmp_path, read):
    (tmp_path / "a.v").write_bytes(b"1234567")
    with pytest.raises(OSError, match=r"it must have at most 6 bytes: '.*a.v'"):
        read(tmp_path / "a.v", 6)


def test_a_file_that_is_longer_than_it_says():
    """Files of /proc have 0 bytes until they are read."""
    path = Path("/proc/self/status")
    assert files.read_text(path, 2**20).startswith("Name:")
    with pytest.raises(OSError, match="it must have at most 6 bytes"):
        files.read_bytes(path, 6)


def test_pipes_devices_and_directories(pipe):
    for path in (pipe, Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(OSError, match="it must be a regular file, not a pipe or device"):
            files.read_bytes(path, 2**20)
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(IsADirectoryError, match=re.escape(str(pipe.parent))):
        files.read_bytes(pipe.parent, 2**20)
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_for_each_reader(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises((OSError, ValueError), match="must be a regular file, not a pipe") as error:
        READERS[name](tmp_path / name)
    refusal(error.value)


@pytest.mark.parametrize("name", READERS)
def test_a_device_for_each_reader(tmp_path, name):
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises((OSError, ValueError), match="must be a regular file, not a pipe"):
        READERS[name](tmp_path / name)


def zeros(count):
    """The start of an npy file of `count` zeros."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f4", "fortran_order": False, "shape": (count // 1024, 1024)}
    )
    return buffer.getvalue()


def bomb(path, count, way=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", way) as file, file.open("x.npy", "w") as member:
        member.write(zeros(count))
        for _ in range(count // 2**18):
            member.write(bytes(2**20))


def test_arrays_that_unpack_to_far_more_than_their_file(tmp_path):
    path = tmp_path / "bomb.npz"
    bomb(path, 2**27)
    assert path.stat().st_size < ROOM // 100
    for read in (load_scheme, load_tensors, load_vectors):
        with pytest.raises(ValueError, match=r"arrays must unpack to at most \d+ bytes, not 5368"):
            read(path)


def test_arrays_that_unpack_to_a_little_more(tmp_path):
    path = tmp_path / "sparse.npz"
    np.savez_compressed(path, x=np.zeros((4, 2**20), np.float32))
    assert path.stat().st_size < 2**15
    x, y = load_tensors(path, ("x",))
    assert x.shape == y.shape == (4, 2**20)


def test_an_array_that_says_less_than_it_unpacks_to(tmp_path):
    """The directory of the zip says how long it is: no more is unpacked than that."""
    path = tmp_path / "liar.npz"
    bomb(path, 2**20)
    data = path.read_bytes()
    whole = struct.pack("<I", 2**22 + len(zeros(2**20)))
    assert data.count(whole) == 2
    path.write_bytes(data.replace(whole, struct.pack("<I", 4096)))
    with pytest.raises(ValueError, match="x cannot be read: Bad CRC-32"):
        load_tensors(path, ("x",))


@pytest.mark.parametrize("way", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_ways_to_compress_that_numpy_does_not_write(tmp_path, way):
    bomb(tmp_path / "odd.npz", 2**20, way)
    with pytest.raises(ValueError, match="its arrays must be stored or deflated"):
        load_tensors(tmp_path / "odd.npz", ("x",))


def test_a_limit_of_the_caller(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros(2**20, np.float32))
    with (
        pytest.raises(ValueError, match="arrays must unpack to at most 100000 bytes, not 4194432"),
        opened(tmp_path / "x.npz", 100_000),
    ):
        pass
