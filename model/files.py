"""Readers of files that users name, and of the arrays in npz and npy files.

A pipe, a device or a file with more bytes than the caller takes raises OSError. Arrays are read
whole, or ValueError is raised. NumPy's own reader checks no sum where a header asks for fewer bytes
than the file has, reserves memory by the header before it looks at the data, and raises any error
of zipfile and zlib.
"""

import errno
import io
import os
import struct
import tokenize
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from math import prod
from os import PathLike
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import ml_dtypes
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .errors import one_line

CHUNK = 2**20


def open_file(path: str | PathLike[str], limit: int | None) -> BufferedReader:
    """A regular file to read, of at most `limit` bytes; None for a file that is not read whole."""
    waiting = getattr(os, "O_NONBLOCK", 0)  # a pipe would wait for its writer
    opened = os.open(path, os.O_RDONLY | waiting)
    facts = os.fstat(opened)
    if S_ISREG(facts.st_mode) and (limit is None or facts.st_size <= limit):
        return os.fdopen(opened, "rb")
    os.close(opened)
    if S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _too_large(path, limit or 0) if S_ISREG(facts.st_mode) else _no_file(path)


def check_file(path: str | PathLike[str]) -> None:
    """OSError unless the file is regular, so that a library may open it by itself."""
    open_file(path, None).close()


def read_bytes(path: str | PathLike[str], limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    data = bytearray()
    with open_file(path, limit) as file:
        while part := file.read(CHUNK):
            data += part
            if len(data) > limit:  # files of /proc and growing files exceed the size they state
                raise _too_large(path, limit)
    return bytes(data)


def read_text(path: str | PathLike[str], limit: int, errors: str = "strict") -> str:
    """The UTF-8 text of a regular file of at most `limit` bytes, with line feeds as line ends."""
    text = read_bytes(path, limit).decode(errors=errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _no_file(path: str | PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, "it must be a regular file, not a pipe or device", str(path))


def _too_large(path: str | PathLike[str], limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it must have at most {limit} bytes", str(path))


_DAMAGE = (
    *(BadZipFile, EOFError, ValueError, OverflowError, KeyError, MemoryError),
    *(zlib.error, struct.error, OSError),
    NotImplementedError,  # a compression that zipfile does not know
    RuntimeError,  # an encrypted file
    *(SyntaxError, tokenize.TokenError, TypeError),  # an npy header that is not Python
)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
SUFFIX = ".npy"
ROOM = 2**28  # bytes to which arrays of any file may unpack
GAIN = 100  # largest ratio of unpacked arrays to their file, beyond ROOM


class Arrays:
    """The arrays of an open npz file, each read on demand."""

    def __init__(self, file: ZipFile, limit: int) -> None:
        self._file = file
        _check_size(file.infolist(), limit)
        self.names = [name.removesuffix(SUFFIX) for name in file.namelist()]
        if len(set(self.names)) < len(self.names):
            raise ValueError("names of arrays must differ")

    def __getitem__(self, name: str) -> NDArray:
        """The array of a name; ValueError, with the name, unless it is there whole."""
        try:
            info = self._file.getinfo(name + SUFFIX)
            with self._file.open(info) as member:
                return _array(member.read(info.file_size + 1))  # zipfile checks the sum at the end
        except _DAMAGE as error:
            raise ValueError(f"{one_line(name)} cannot be read: {_reason(error)}") from None


@contextmanager
def opened(path: Path | str, limit: int) -> Iterator[Arrays]:
    """The arrays of an npz file; ValueError for another file, OSError without a file.

    limit: the most bytes of the file, and of all its unpacked arrays.
    """
    with open_file(path, limit) as stream:
        start = stream.peek(len(npy.MAGIC_PREFIX))
        if start.startswith(npy.MAGIC_PREFIX):
            raise ValueError("must be an npz file, not a single npy array")
        if not start.startswith(b"PK"):
            raise ValueError("cannot be read as npz: it begins like no zip file")
        try:
            most = min(limit, max(ROOM, GAIN * os.fstat(stream.fileno()).st_size))
            arrays = Arrays(ZipFile(stream), most)
        except _DAMAGE as error:
            raise ValueError(f"cannot be read as npz: {_reason(error)}") from None
        yield arrays


def read_array(path: Path | str, limit: int) -> NDArray:
    """The array of an npy file of at most `limit` bytes.

    Raises ValueError for another file, OSError without a file.
    """
    data = read_bytes(path, limit)
    try:
        return _array(data)
    except _DAMAGE as error:
        raise ValueError(f"cannot be read as npy: {_reason(error)}") from None


def _check_size(members: Sequence[ZipInfo], limit: int) -> None:
    """ValueError for arrays that would fill the memory, or that NumPy does not write."""
    total = sum(member.file_size for member in members)
    if total > limit:
        raise ValueError(f"its arrays must unpack to at most {limit} bytes, not {total}")
    # Other compressions unpack thousands of bytes from each byte at a time.
    if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members):
        raise ValueError("its arrays must be stored or deflated")


def _reason(error: Exception) -> str:
    return one_line(str(error)) or type(error).__name__


_E5M2 = b"'<f1'"
"""Name of float8_e5m2 in the header of an npy file, which NumPy writes and does not read."""
_HEADER = 128
"""Bytes of an npy file that hold the name."""


def _array(data: bytes) -> NDArray:
    """The array in the bytes of an npy file."""
    is_e5m2 = _E5M2 in data[:_HEADER]
    if is_e5m2:
        data = data.replace(_E5M2, b"'|V1'", 1)
    stream = io.BytesIO(data)
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"version of npy must be 1.0 or 2.0, not {version}")
    shape, fortran, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    size = len(data) - stream.tell()
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{size} bytes are no {dtype} of shape {shape}")
    dtype = np.dtype(ml_dtypes.float8_e5m2) if is_e5m2 else dtype
    return np.ndarray(shape, dtype, bytearray(data), stream.tell(), order="F" if fortran else "C")
