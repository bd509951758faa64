"""The kinds of units that `--unit` chooses from."""

import argparse

from ..model.errors import choice
from ..model.units import KINDS, UnitConfig
from .options import OPTIONS, Option, given, options_of

UNIT = Option("--unit", "unit", f"kind of unit: {', '.join(KINDS)} (default: dot)", "KIND")
UNIT_OPTIONS = (UNIT, *OPTIONS)


def add_unit_options(parser: argparse.ArgumentParser) -> None:
    """Options that describe one unit of any kind."""
    UNIT.add(parser.add_argument_group("unit"))
    added: set[Option] = set()
    for name, kind in KINDS.items():
        options = options_of(kind)
        shared = [option.flag for option in options if option in added]
        beside = f", beside {', '.join(shared)}" if shared else ""
        group = parser.add_argument_group(f"options of --unit {name}{beside}")
        for option in options:
            if option not in added:
                option.add(group)
        added.update(options)


def unit_config(args: argparse.Namespace) -> UnitConfig:
    """The configuration of the options of `add_unit_options`."""
    name = choice("unit", "dot" if args.unit is None else args.unit, KINDS)
    options = options_of(KINDS[name])
    for option in OPTIONS:
        if option not in options and getattr(args, option.name) is not None:
            raise ValueError(f"{option.flag} is no option of --unit {name}")
    return KINDS[name].of_keywords(**given(args, options))
