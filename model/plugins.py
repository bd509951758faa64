"""Modules of users, which add formats and accumulators."""

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "MXDOT_PLUGINS"
"""Environment variable: names of modules, with commas; simulators' processes have it too."""


def plugin_files() -> list[Path]:
    """Files on which results with plugins may depend: the modules and those next to them."""
    names = filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(",")))
    specs = filter(None, map(find_spec, names))
    folders = {Path(spec.origin).parent for spec in specs if spec.origin}
    return sorted(path for folder in folders for path in folder.glob("*.py"))


def load_plugins() -> None:
    """Import the modules of `VARIABLE`, once; ValueError names one that cannot be imported."""
    _load(os.environ.get(VARIABLE, ""))


@cache
def _load(names: str) -> None:
    for name in filter(None, map(str.strip, names.split(","))):
        try:
            import_module(name)
        except ImportError as error:
            raise ValueError(
                f"{VARIABLE} must name modules on PYTHONPATH, not {name!r}: {error}"
            ) from None
