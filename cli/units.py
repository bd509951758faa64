"""A subcommand with a word for each kind of unit: `mxdot verilog matmul`."""

import argparse
from collections.abc import Callable
from typing import TypeVar

from ..model.accumulators import warn_of_operands
from ..model.units import KINDS, DotConfig, UnitConfig
from .parser import Renamed
from .unit_options import add_options, given, options_of

Config = TypeVar("Config", bound=UnitConfig)


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
    return warned(kind.of_keywords(**given(args, options_of(kind))))


def warned(config: Config) -> Config:
    """`config`, after a warning where its accumulator is a machine of other operands."""
    dot = config if isinstance(config, DotConfig) else getattr(config, "dot", None)
    if isinstance(dot, DotConfig):
        warn_of_operands(dot.accumulator, dot.formats)
    return config
