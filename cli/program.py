"""How `mxdot` was called, for commands to paste."""

import shutil
import sys
from pathlib import Path


def program() -> str:
    """What to type for `mxdot`: the script that runs, where it is not on the path."""
    called = Path(sys.argv[0])
    if called.name != "mxdot" or shutil.which("mxdot") == str(called):
        return "mxdot"
    inside = called.is_relative_to(Path.cwd())
    return str(called.relative_to(Path.cwd()) if inside else called)
