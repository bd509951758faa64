"""The console that subcommands print tables on."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


WIDTH = 100
"""Characters of a line without a terminal."""


def console(width: int = WIDTH) -> "Console":
    """Console that prints brackets and colons as they are; `width` without a terminal."""
    from rich.console import Console

    return Console(width=None if os.isatty(1) else width, markup=False, emoji=False)
