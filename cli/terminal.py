"""The console that subcommands print tables on."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


WIDTH = 100
"""Characters of a line without a terminal."""


def console(width: int = WIDTH, *, stderr: bool = False) -> "Console":
    """Console that prints brackets and colons as they are; `width` without a terminal."""
    from rich.console import Console

    known = os.isatty(2 if stderr else 1)
    return Console(width=None if known else width, stderr=stderr, markup=False, emoji=False)
