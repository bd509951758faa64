"""Commands of `mxdot`, and what becomes of their errors."""

import argparse
import io
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..model import OperandsWarning
from ..model.errors import OUTSIDE, one_line, reason_of
from ..model.plugins import place_in_plugin
from ..util.runs import own_temporary
from .completion import complete
from .examples import add_examples
from .parser import Parser, with_nearest

COMMANDS = (
    *("compute", "machines", "sim", "verilog", "export", "vectors", "run-layer"),
    *("synth", "compare", "array", "probe", "verify", "evaluate"),
    "energy",
)


def _version() -> str:
    try:
        return version("mxdot")
    except PackageNotFoundError:
        return "(source tree)"


def build_parser() -> Parser:
    """The parser of `mxdot` and its subcommands."""
    parser = Parser(prog="mxdot", description="Bit-accurate MX dot-product units.")
    parser.add_argument("--version", action="version", version=f"mxdot {_version()}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        module = name.replace("-", "_")
        import_module(f".{module}", __package__).add_parser(subparsers)
    add_examples(parser)
    return parser


def command(arguments: Sequence[str] | None) -> int:
    """Run `mxdot` with `arguments`, those of the process when None; the exit status."""
    if sys.stdout is None:
        print("mxdot: error: standard output must be open, not closed", file=sys.stderr)
        return 2
    if arguments is None:  # this process does nothing else
        own_temporary()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
    parser = build_parser()
    complete(parser)
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help()
        return 0
    with warnings.catch_warnings():
        warnings.showwarning = _in_one_line
        return _run(args)


def _in_one_line(message: Warning | str, category: type[Warning], *place: Any) -> None:
    """Show a warning like `warnings.showwarning`, but one for users in a line without a place."""
    if issubclass(category, OperandsWarning):
        print(f"mxdot: warning: {one_line(str(message))}", file=sys.stderr)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, *place[:2]))


def _run(args: argparse.Namespace) -> int:
    from ..util.children import terminate_as_interrupt

    if os.environ.get("MXDOT_TRACEBACK"):  # for a report of a defect
        return args.run(args)
    try:
        with terminate_as_interrupt():
            return args.run(args)
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception as error:
        text = _message(error, args)
        if not text:
            raise
        print(f"mxdot: error: {one_line(text)}", file=sys.stderr)
    return 2


def _message(error: Exception, args: argparse.Namespace) -> str:
    """Message for the user; empty text for a defect of this package."""
    place = ""
    if not isinstance(error, ValueError):
        with suppress(ValueError):  # names of plugins that are no modules
            place = place_in_plugin(error)
    if place:
        return f"{place}: {type(error).__name__}: {error}"
    if isinstance(error, ValueError | TypeError):
        return with_nearest(str(error))
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        return (
            f"{args.command} needs the Python package {package}, which is not installed: "
            f"pip install 'mxdot[{getattr(args, 'needs', 'sim')}]'"
        )
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".removesuffix(": ")
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {reason_of(error)}"
    if isinstance(error, OUTSIDE):
        return (str(error).splitlines() or [type(error).__name__])[0]
    return ""
