"""Completion of names in a shell, by argcomplete where it is installed.

In bash or zsh: ``eval "$(register-python-argcomplete mxdot)"``.
"""

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Any

from ..model.accumulators import KINDS, MACHINES
from ..model.accumulators.hardware import names_with_operands
from ..model.formats import FORMATS

Names = Callable[[], Iterable[str]]


def machines() -> list[str]:
    """Machines, and hardware with operands."""
    return [*MACHINES, *names_with_operands()]


def accumulators() -> list[str]:
    """Examples of every kind, and machines."""
    examples = [text for kind in KINDS.values() for text in kind.examples]
    return list(dict.fromkeys([*KINDS, *examples, *machines()]))


def formats() -> list[str]:
    """Element formats."""
    return list(FORMATS)


def processes() -> list[str]:
    """Built-in processes."""
    from ..synth.processes import NAMES

    return list(NAMES)


OPTIONS: dict[str, Names] = {
    "--machine": machines,
    "--accumulator": accumulators,
    "--unit": accumulators,
    "--match": accumulators,
    "--format": formats,
    "--attention": formats,
    "--process": processes,
    "--netlist": processes,
}
"""Names that options take."""


def names_by_action(parser: argparse.ArgumentParser) -> None:
    """Give every action of `OPTIONS`, in subcommands too, its names, also after a comma."""
    for action in parser._actions:
        for flag in action.option_strings:
            if flag in OPTIONS:
                action.completer = _Completer(OPTIONS[flag])  # type: ignore[attr-defined]
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                names_by_action(each)


class _Completer:
    """The names that begin like the last item of a list with commas."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def __call__(self, prefix: str, **_: Any) -> list[str]:
        head, comma, last = prefix.rpartition(",")
        return [f"{head}{comma}{name}" for name in self.names() if name.startswith(last)]


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks for completions, and end; return where none asks."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    import argcomplete

    names_by_action(parser)
    argcomplete.autocomplete(parser)
