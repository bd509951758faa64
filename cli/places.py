"""Checks of the places where commands write, before any work."""

import os
from pathlib import Path


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
    is_device = target.exists() and not target.is_file()
    if not os.access(target if is_device else _first_there(target.parent), os.W_OK):
        raise ValueError(f"{name} must be a file that can be written, not {path}")


def _first_there(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if place.exists())
