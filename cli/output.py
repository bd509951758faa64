"""Options of results that are written: `-o FILE` and `--json FILE`."""

import argparse
from pathlib import Path
from typing import Any

from ..model.errors import one_line
from ..util.tables import write_json
from .places import output_file


def add_json_option(parser: argparse._ActionsContainer, what: str) -> None:
    """Add `--json FILE`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help=f"write {what} as JSON")


def write_json_file(args: argparse.Namespace, content: Any) -> None:
    """Write `content` where `--json` says, and print the name; nothing without the option."""
    if args.json is None:
        return
    output_file("json", args.json)
    print(one_line(str(write_json(args.json, content))))
