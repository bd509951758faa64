"""Spelling of `mxdot` in commands to paste."""

import shlex
import shutil
import sys
from pathlib import Path

from ..model.errors import one_line


def quoted(word: str) -> str:
    """Word of a command to paste, with escapes of bash and zsh for unprintable characters."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + one_line(word.replace("\\", "\\\\").replace("'", "\\'")) + "'"


def program() -> str:
    """Word to type for `mxdot`: the script that runs, where it is not on the path."""
    called = Path(sys.argv[0])
    if called.name != "mxdot" or shutil.which("mxdot") == str(called):
        return "mxdot"
    inside = called.is_relative_to(Path.cwd())
    return quoted(str(called.relative_to(Path.cwd()) if inside else called))
