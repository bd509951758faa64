"""How `mxdot` reads its command line: errors of one line, words left out, spellings of before."""

import argparse
import shlex
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


class Renamed(argparse.Action):
    """An option of before: refused in a line that names the `new` spelling; {} is its value."""

    def __init__(self, option_strings: Sequence[str], dest: str, new: str, **options: Any) -> None:
        super().__init__(option_strings, dest, help=argparse.SUPPRESS, **options)
        self.new = new

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None
    ) -> None:
        """End with status 2."""
        value = "" if values in (None, []) else shlex.quote(values)
        parser.exit(2, renamed(f"{option} {value}".rstrip(), self.new.format(value)))


def renamed(old: str, new: str) -> str:
    """The line that says so."""
    return f"mxdot: error: {one_line(old)} is spelled {one_line(new.rstrip())} now\n"
