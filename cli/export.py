"""`mxdot export`: write the rule of an accumulator in C, SystemVerilog or Sail."""

import argparse
import sys
from pathlib import Path

from ..model.accumulators import accumulator, warn_of_operands
from ..model.errors import one_line
from ..model.formats import FORMATS
from ..model.formats.table import format_pairs
from ..model.units import DotConfig
from ..util.files import write_file
from .places import output_file
from .unit_options import add_option

_LANGUAGES = {
    "c": "a C99 header without dependencies",
    "sv": "a SystemVerilog package for benches",
    "sail": "a fragment of Sail, RISC-V's specification language",
}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "export",
        help="write an accumulator's rule in C, SystemVerilog or Sail",
        description="Write a function that computes the result bits and flags of dot products, "
        "by the rule of one accumulator or machine.",
    )
    language = parser.add_mutually_exclusive_group(required=True)
    for name, text in _LANGUAGES.items():
        language.add_argument(
            f"--{name}", dest="language", action="store_const", const=name, help=text
        )
    parser.add_argument(
        "--format",
        default="e4m3",
        metavar="F",
        help=f"element format: {', '.join(FORMATS)}, or a pair such as e5m2xe4m3 (default: e4m3)",
    )
    add_option(parser, DotConfig.options()["accumulator"])
    parser.add_argument("--name", help="name of the function (default: from the rule and formats)")
    parser.add_argument(
        "-o", "--output", type=Path, help="file to write (default: standard output)", metavar="FILE"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file; the exit status."""
    from ..model.export import default_name, export

    rule = accumulator(args.accumulator or DotConfig.options()["accumulator"].default)
    pairs = format_pairs(args.format)
    if len(pairs) != 1:
        raise ValueError(f"format must be one format or pair, not {args.format!r}")
    name = default_name(rule, *pairs[0]) if args.name is None else args.name
    text = export(args.language, rule, *pairs[0], name=name)
    warn_of_operands(rule, pairs)
    output_file("output", args.output)
    if args.output is None:
        sys.stdout.write(text)
        return 0
    write_file(args.output, text)
    print(f"{one_line(str(args.output))}: {name}, {args.format} {rule}")
    return 0
