"""Options of units as arguments of commands, and a subcommand for each kind of unit."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..model.accumulators import warn_of_operands
from ..model.units import KINDS, DotConfig, Option, UnitConfig

Config = TypeVar("Config", bound=UnitConfig)


def add_option(parser: argparse._ActionsContainer, option: Option) -> None:
    """Add the option; None when it is not given."""
    default = f" (default: {option.default_text})" if option.default_text else ""
    text = option.help.replace("%", "%%") + default
    if option.is_switch:
        _add_switch(parser, option)
    else:
        parser.add_argument(option.flag, help=text, metavar=option.metavar, type=option.parse)


def add_list(parser: argparse._ActionsContainer, option: Option) -> None:
    """Add the option as the text of a list of its values."""
    if option.is_switch:
        _add_switch(parser, option)
    else:
        metavar = f"{(option.metavar or 'N').removesuffix('[,F...]')},..."
        parser.add_argument(option.flag, help=option.help, metavar=metavar)


def _add_switch(parser: argparse._ActionsContainer, option: Option) -> None:
    value = not option.default
    parser.add_argument(option.flag, help=option.help, action="store_const", const=value)


def add_options(parser: argparse.ArgumentParser, kind: type[UnitConfig]) -> None:
    """Add a group of the options that describe one unit of `kind`."""
    group = parser.add_argument_group("unit")
    for option in kind.options().values():
        add_option(group, option)


def add_kinds(
    subparsers: argparse._SubParsersAction, add: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Add a parser for each kind, with its options and those that `add` adds."""
    for name, kind in KINDS.items():
        parser = subparsers.add_parser(name, help=kind.title, description=kind.title)
        add_options(parser, kind)
        add(parser)


def given(args: argparse.Namespace, options: Iterable[Option]) -> dict[str, Any]:
    """Values of the options that are on the command line, by keyword."""
    values = {option.keyword: getattr(args, option.argument) for option in options}
    return {keyword: value for keyword, value in values.items() if value is not None}


def unit_of(kind: type[Config], args: argparse.Namespace) -> Config:
    """Unit of the options of `add_options`; warns of a machine with operands of another one."""
    values = given(args, kind.options().values())
    config = kind.of_options(**values)
    _refuse_unused(kind, config, values)
    dot = config if isinstance(config, DotConfig) else getattr(config, "dot", None)
    if isinstance(dot, DotConfig):
        warn_of_operands(dot.accumulator, dot.formats)
    return config


def _refuse_unused(kind: type[UnitConfig], config: UnitConfig, values: dict[str, Any]) -> None:
    """ValueError for an option without which the unit is the same, unless it is the default."""
    for keyword, value in values.items():
        others = {name: other for name, other in values.items() if name != keyword}
        try:
            plain = kind.of_options(**others)
        except (ValueError, TypeError):  # the unit needs it
            continue
        if plain != config and str(plain) == str(config):
            option = kind.options()[keyword]
            name = option.argument.replace("_", "-")
            raise ValueError(f"{name} has no effect on this unit, {config}: leave out {value!r}")
