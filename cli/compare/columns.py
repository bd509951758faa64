"""`mxdot compare columns`: what the columns of a comparison's files mean."""

import argparse

from ..output import add_json_option, check_json_file, is_json_printed, write_json_file


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot compare`."""
    parser = subparsers.add_parser(
        "columns",
        help="what each column of compare.csv, .json and .parquet means",
        description="Print name, type, unit and meaning of each column. In JSON an infinite number "
        'is the text "inf"; CSV leaves out the last two columns. An empty value does not apply, is '
        "not known, or failed.",
    )
    add_json_option(parser, "the columns")
    parser.set_defaults(run=run, needs="compare")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from ...compare.studies.outputs import schema, schema_markdown

    check_json_file(args)
    if not is_json_printed(args):
        print(schema_markdown(), end="")
    write_json_file(args, schema())
    return 0
