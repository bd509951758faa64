"""The library of a flow: its files, as tools read them, and what they say."""

import gzip
import hashlib
import zlib
from functools import lru_cache
from io import BytesIO
from pathlib import Path

from ..model.files import read_bytes
from . import gates
from .errors import SynthesisError
from .flow import Flow
from .liberty import Library, merged, parse
from .processes import PROCESSES
from .scripts import library_names

LARGEST = 2**28
"""Bytes of a file, unpacked."""
KEPT = 8
"""Libraries that a process keeps in memory once they are read."""
Files = list[tuple[str, str, bytes]]


def files_of(flow: Flow) -> Files:
    """Name in a run's directory, name for people, and text of each file of a library.

    SynthesisError when there is no such file.
    """
    if flow.process is not None:
        found = [(flow.process, PROCESSES[flow.process].liberty)]
    elif flow.liberty:
        found = [(str(path), _read(path)) for path in flow.liberty]
    else:
        found = [("gates", gates.liberty_text().encode())]
    return [(name, *file) for name, file in zip(library_names(flow), found, strict=True)]


def _read(path: Path) -> bytes:
    try:
        text = read_bytes(path, LARGEST)
        if path.suffix == ".gz":
            with gzip.open(BytesIO(text)) as packed:
                text = packed.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise SynthesisError(f"the Liberty file {path} cannot be read: {reason}") from None
    if len(text) > LARGEST:
        raise SynthesisError(f"the Liberty file {path} must have at most {LARGEST} bytes")
    return text


def library_of(flow: Flow) -> Library:
    """The library of a flow; SynthesisError for files that are wrong."""
    return _library(tuple((source, text) for _, source, text in files_of(flow)))


def digest_of(flow: Flow) -> str:
    """A hash of a library's texts."""
    digest = hashlib.sha256()
    for _, _, text in files_of(flow):
        digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()


@lru_cache(KEPT)
def _library(files: tuple[tuple[str, bytes], ...]) -> Library:
    return merged([parse(text.decode(errors="replace"), source) for source, text in files])
