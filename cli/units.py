"""A subcommand with a word for each kind of unit: `mxdot verilog matmul`."""

import argparse
from collections.abc import Callable

from ..model.units import KINDS, UnitConfig
from .parser import Renamed
from .unit_options import add_options, given, options_of


def add_kinds(
    subparsers: argparse._SubParsersAction, add: Callable[[argparse.ArgumentParser], None]
) -> None:
    """A parser for each kind, with its options and those that `add` adds."""
    for name, kind in KINDS.items():
        parser = subparsers.add_parser(name, help=kind.title, description=kind.title)
        add_options(parser, options_of(kind))
        add(parser)


def refuse_unit(parser: argparse.ArgumentParser, command: str) -> None:
    """`--unit KIND`, as it was before kinds were words."""
    parser.add_argument("--unit", action=Renamed, new=f"mxdot {command} {{}}")


def unit_config(args: argparse.Namespace) -> UnitConfig:
    """The configuration of the options of `add_kinds`."""
    kind = KINDS[args.kind]
    return kind.of_keywords(**given(args, options_of(kind)))
