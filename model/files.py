"""Files of users, read whole: OSError for a pipe, a device, or more bytes than the caller takes."""

import errno
import os
from io import BufferedReader
from os import PathLike
from stat import S_ISREG

CHUNK = 2**20


def open_file(path: str | PathLike[str], limit: int | None) -> BufferedReader:
    """A regular file to read; `limit`: its most bytes, None where it is not read whole."""
    waiting = getattr(os, "O_NONBLOCK", 0)  # or a pipe would wait for its writer
    file = os.fdopen(os.open(path, os.O_RDONLY | waiting), "rb")
    facts = os.fstat(file.fileno())
    if S_ISREG(facts.st_mode) and (limit is None or facts.st_size <= limit):
        return file
    file.close()
    raise _too_large(path, limit or 0) if S_ISREG(facts.st_mode) else _no_file(path)


def check_file(path: str | PathLike[str]) -> None:
    """OSError unless a library that opens files by itself may open this one."""
    open_file(path, None).close()


def read_bytes(path: str | PathLike[str], limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    data = bytearray()
    with open_file(path, limit) as file:
        while part := file.read(CHUNK):
            data += part
            if len(data) > limit:  # files of /proc, and one that grows, are longer than they say
                raise _too_large(path, limit)
    return bytes(data)


def read_text(path: str | PathLike[str], limit: int, errors: str = "strict") -> str:
    """The text, in UTF-8, of a regular file of at most `limit` bytes, with line feeds alone."""
    text = read_bytes(path, limit).decode(errors=errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _no_file(path: str | PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, "it must be a regular file, not a pipe or device", str(path))


def _too_large(path: str | PathLike[str], limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it must have at most {limit} bytes", str(path))
