"""mxdot.cli: the command line. A bad argument is one line on standard error and exit status 2."""

import os
import sys
from collections.abc import Sequence

INTERRUPTED = 130
"""Exit status after Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `mxdot` with `arguments` (those of the process when None); the exit status."""
    try:
        if arguments is None:
            _import()
        from .command import command  # within `try`: this import is most of the start

        return command(arguments)
    except KeyboardInterrupt:
        print("mxdot: interrupted", file=sys.stderr)
        return INTERRUPTED


def _import() -> None:
    """Import what commands need; Ctrl-C ends the process, for NumPy makes an ImportError of it."""
    import signal

    def end(*_: object) -> None:
        os.write(2, b"mxdot: interrupted\n")
        os._exit(INTERRUPTED)

    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:  # ignored, in the background of a shell
        return
    signal.signal(signal.SIGINT, end)
    from . import command as command

    signal.signal(signal.SIGINT, usual)
