"""`mxdot compare`: units, schemes and what they do to data, side by side."""

import argparse

from . import columns, errors, find, schemes, units


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand and its own to those of `mxdot`."""
    parser = subparsers.add_parser(
        "compare",
        help="compare what units or schemes cost and what they do to the result",
        description="Compare units, by the default study where nothing is named, or schemes. "
        "`mxdot compare units --help` lists the options of units.",
    )
    parser.otherwise = "units"
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    for each in (units, find, schemes, errors, columns):
        each.add_parser(what)
