"""Results on disk, by the hash of everything that they depend on."""

import gzip
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from ..util.files import write_file

FORMAT = 1
"""Of the entries; a change of what they mean makes all old ones unknown."""


class Cache:
    """A directory of JSON files that any number of processes may share.

    An entry is written beside and renamed: it is whole, or it is not there. What cannot be read is
    made again.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)

    @staticmethod
    def key(*parts: Any) -> str:
        """The key of plain JSON values."""
        return hashlib.sha256(json.dumps([FORMAT, *parts], sort_keys=True).encode()).hexdigest()

    def read(self, key: str, kind: str) -> Any:
        """The entry, None when there is none. `kind` tells several entries of a key apart."""
        try:
            return json.loads(gzip.decompress(self._path(key, kind).read_bytes()))
        except (OSError, EOFError, RecursionError, ValueError, zlib.error):
            return None

    def write(self, key: str, kind: str, value: Any) -> None:
        """Keep a value of plain JSON types."""
        path = self._path(key, kind)
        write_file(path, gzip.compress(json.dumps(value).encode(), mtime=0))

    def _path(self, key: str, kind: str) -> Path:
        return self.directory / key[:2] / f"{key}.{kind}.json.gz"
