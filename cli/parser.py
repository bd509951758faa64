"""Parser of the command line: errors of one line, subcommands that may be left out."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from ..model.errors import one_line

HELP = ("-h", "--help")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line.

    otherwise: the subcommand that is meant where none is named, as in ``mxdot verilog --lanes 8``.
    """

    otherwise: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # type: ignore[override]  # its overloads
        """The arguments, and no others: these are an error, which names the help of this parser."""
        if self.otherwise is not None and args is not None and _names_none(args):
            args = [self.otherwise, *args]
        found, others = super().parse_known_args(args, namespace)
        if others:  # said here, and not by the parser above, whose help has not the options
            self.error(f"unrecognized arguments: {' '.join(others)}")
        return found, others

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(2, f"mxdot: error: {one_line(message)} (see {self.prog} --help)\n")


def _names_none(args: Sequence[str]) -> bool:
    return not args or (args[0].startswith("-") and args[0] not in HELP)
