"""Parser of the command line: errors of one line, subcommands that may be left out."""

import argparse
import re
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from ..model.errors import nearest, one_line

HELP = ("-h", "--help")
CHOICE = re.compile(r"invalid choice: '(.*?)' \(choose from (.*)\)")
NAMES = re.compile(r"must be one of (.*), not '([^']*)'$")
EXAMPLE = "example: "
"""Beginning of the text below the options, which is a command to paste."""


def with_nearest(message: str) -> str:
    """A message, with the nearest of the names that it lists."""
    names = NAMES.search(message)
    return message if names is None else message + nearest(names[2], names[1].split(", "))


class Formatter(argparse.HelpFormatter):
    """Help whose names are whole and whose examples are one line."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(EXAMPLE):
            return indent + text
        return super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line.

    otherwise: the subcommand that is meant where none is named, as in ``mxdot verilog --lanes 8``.
    """

    otherwise: str | None = None
    _given: Sequence[str] = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": Formatter, **options})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # type: ignore[override]  # its overloads
        """The arguments, and no others: these are an error, which names the help of this parser."""
        if self.otherwise is not None and args is not None and _names_none(args):
            args = [self.otherwise, *args]
        self._given = args or ()
        found, others = super().parse_known_args(args, namespace)
        if others:  # said here, and not by the parser above, whose help has not the options
            options = [flag for action in self._actions for flag in action.option_strings]
            near = nearest(others[0].partition("=")[0], options)
            self.error(f"unrecognized arguments: {' '.join(others)}{near}")
        return found, others

    def error(self, message: str) -> NoReturn:
        """End with status 2; a wrong choice is told what is near."""
        choice = CHOICE.search(message)
        if choice is not None:
            message += nearest(choice[1], re.findall(r"'(.*?)'", choice[2]))
        if "required: FILE" in message:
            message += self._taken()
        message = with_nearest(message)
        self.exit(2, f"mxdot: error: {one_line(message)} (see {self.prog} --help)\n")

    def _taken(self) -> str:
        """Name of the option that may have taken the files; empty text without one."""
        greedy = {
            flag
            for action in self._actions
            if action.nargs == "+"
            for flag in action.option_strings
        }
        flag = next((word for word in self._given if word in greedy), None)
        return "" if flag is None else f"; {flag} takes all words after it, so FILE comes first"


def _names_none(args: Sequence[str]) -> bool:
    return not args or (args[0].startswith("-") and args[0] not in HELP)
