"""The option of results as JSON."""

import argparse
import json
from pathlib import Path
from typing import Any

from ..model.errors import one_line
from ..util.tables import strict, write_json
from .places import is_device, output_file

END = ".json"
"""End of the names of files, so that `--json` takes no operand that follows it."""
PRINTED = Path("-")
"""File that is the standard output."""


def add_json_option(parser: argparse._ActionsContainer, what: str) -> None:
    """Add `--json FILE`."""
    parser.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=PRINTED,
        metavar="FILE",
        help=f"write {what} as JSON to a file {END}; without a file, print it instead of text",
    )


def add_json_file_option(parser: argparse._ActionsContainer, what: str) -> None:
    """Add `--json FILE` to a command that prints as it goes."""
    parser.add_argument(
        "--json", type=_file, metavar="FILE", help=f"write {what} as JSON to a file {END}"
    )


def _file(text: str) -> Path:
    if Path(text) == PRINTED:
        raise argparse.ArgumentTypeError(f"json must end with {END}, not {text}")
    return Path(text)


def is_json_printed(args: argparse.Namespace) -> bool:
    """Whether JSON takes the place of text on the standard output."""
    return args.json == PRINTED


def json_file(args: argparse.Namespace) -> Path | None:
    """File of `--json`; None where JSON is printed, and without the option."""
    return None if is_json_printed(args) else args.json


def check_json_file(args: argparse.Namespace) -> None:
    """ValueError, for the start of a command, unless `--json` can be written."""
    path = json_file(args)
    output_file("json", path)
    if path is not None and not path.name.endswith(END) and not is_device(path):
        raise ValueError(f"json must end with {END}, not {path}")


def write_json_file(args: argparse.Namespace, content: Any) -> None:
    """Print or write `content` as `--json` says, and say where; nothing without the option."""
    if args.json is None:
        return
    if is_json_printed(args):
        print(json.dumps(strict(content), indent=1, allow_nan=False))
        return
    check_json_file(args)
    print(one_line(str(write_json(args.json, content))))
