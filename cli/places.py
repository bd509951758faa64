"""Checks of the places where commands write, before any work."""

import os
from pathlib import Path

_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))


def output_directory(name: str, path: Path) -> None:
    """ValueError unless `path` is a directory that can be written, or can be made one."""
    place = _first_there(path)
    if not (place.is_dir() and os.access(place, os.W_OK)):
        raise ValueError(f"{name} must be a directory that can be written, not {path}")


def output_file(name: str, path: Path | None) -> None:
    """ValueError unless a file can be written as `path`; None is none."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{name} must be a file, not the directory {path}")
    place = _first_there(path.parent)
    if not place.is_dir():
        raise ValueError(f"{name} must be a file in a directory, and {place} is none: {path}")
    target = Path(os.path.realpath(path))
    is_special = target.exists() and not target.is_file()
    if not os.access(target if is_special else _first_there(target.parent), os.W_OK):
        raise ValueError(f"{name} must be a file that can be written, not {path}")


def is_device(path: Path) -> bool:
    """True for a pipe, a device and an open file such as /dev/stdout."""
    return path.parent in _DEVICES or (path.exists() and not path.is_file())


def different_files(**paths: Path | None) -> None:
    """ValueError where two options, by name, write the same file; None is none."""
    names: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None or is_device(path):
            continue
        other = names.setdefault(path.resolve(), name)
        if other != name:
            raise ValueError(f"{other} and {name} must be different files, not both {path}")


def _first_there(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if place.exists())
