"""Options of the subcommands that compare schemes: names, scale rules and block sizes."""

import argparse


def add_scheme_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that vary every scheme."""
    group = parser.add_argument_group("variants")
    group.add_argument(
        "--scale-rule",
        default="recommended",
        metavar="R,...",
        help="of scales that are powers of two: floor, ceil, even, twice, or recommended, what "
        "loses least (default: %(default)s); NAME:floor is one scheme's own",
    )
    group.add_argument(
        "--block",
        metavar="N,...",
        help="elements in a block, for schemes that have blocks (default: each scheme's own); "
        "NAME:b16 is one scheme's own",
    )


def chosen(args: argparse.Namespace, text: str) -> tuple[list[str], list[str], tuple[int, ...]]:
    """Names in `text`, rules and sizes of blocks. ValueError where there are none."""
    from ...util.sweep import number_list

    names, rules = names_in(text), names_in(args.scale_rule)
    if not names:
        raise ValueError("scheme must name at least one scheme, not none")
    if not rules:
        raise ValueError("scale-rule must name at least one rule, not none")
    return names, rules, () if args.block is None else number_list(args.block, "block")


def names_in(text: str) -> list[str]:
    """The names of a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
