"""Modules of users, which add formats and accumulators."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from types import FrameType

VARIABLE = "MXDOT_PLUGINS"
"""Environment variable: names of modules, with commas; simulators' processes have it too."""


def plugin_files() -> list[Path]:
    """Files on which results with plugins may depend: the modules and those next to them."""
    folders = set()
    for name in _names(os.environ.get(VARIABLE, "")):
        with _naming(name):  # the packages that a module is in are imported
            spec = find_spec(name)
        if spec is not None and spec.origin:
            folders.add(Path(spec.origin).parent)
    return sorted(path for folder in folders for path in folder.glob("*.py"))


def assignment() -> str:
    """Beginning of a command to paste that sets `VARIABLE` as here; empty where it is not set."""
    names = os.environ.get(VARIABLE)
    return f"{VARIABLE}={shlex.quote(names)} " if names else ""


def load_plugins() -> None:
    """Import the modules of `VARIABLE`, once; ValueError names one that raises an exception."""
    _load(os.environ.get(VARIABLE, ""))


@cache
def _load(names: str) -> None:
    for name in _names(names):
        with _naming(name):
            import_module(name)


def _names(text: str) -> list[str]:
    return [name for name in map(str.strip, text.split(",")) if name]


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Make a ValueError that names the module of what importing it raises."""
    try:
        yield
    except Exception as error:
        text = f"names {name!r}, which raises {type(error).__name__}: {error}{_place(error)}"
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            text = f"must name modules on PYTHONPATH, not {name!r}: {error}"
        raise ValueError(f"{VARIABLE} {text}") from error


def _place(error: Exception) -> str:
    """File and line outside this package and Python's importing; empty text for a syntax error."""

    def outside(frame: FrameType) -> bool:
        return not frame.f_globals.get("__name__", "").startswith(("mxdot.", "importlib"))

    place = _last_line(error, outside)
    return f" ({place})" if place else ""


def place_in_plugin(error: Exception) -> str:
    """Innermost file and line of `plugin_files` that the error passed; empty text for none."""
    files = {str(path) for path in plugin_files()}
    return _last_line(error, lambda frame: frame.f_code.co_filename in files)


def _last_line(error: Exception, wanted: Callable[[FrameType], bool]) -> str:
    places = [
        f"{frame.f_code.co_filename}, line {line}"
        for frame, line in walk_tb(error.__traceback__)
        if wanted(frame)
    ]
    return places[-1] if places else ""
