"""`mxdot verilog`: write one dot unit as Verilog."""

import argparse
import sys
from pathlib import Path

from .options import add_config_options, config_of, write_text


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "verilog", help="write one dot unit as Verilog", description=__doc__
    )
    add_config_options(parser)
    parser.add_argument("--top", default="mxdot_dot", help="top module (default: %(default)s)")
    parser.add_argument(
        "-o", "--output", type=Path, help="file to write (default: standard output)", metavar="FILE"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file; the exit status."""
    config = config_of(args)
    if args.output is not None and args.output.is_dir():
        raise ValueError(f"output must be a file, not the directory {args.output}")
    from ..hw.verilog import generate  # Amaranth: only when a unit is built

    text = generate(config, args.top)
    if args.output is None:
        sys.stdout.write(text)
        return 0
    write_text(args.output, text)
    print(
        f"{args.output}: {args.top}, {config}, latency {config.latency}, interval {config.interval}"
    )
    return 0
