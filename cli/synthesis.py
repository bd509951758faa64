"""The options that say how something is synthesised, once or in several ways."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..synth import Flow


def add_synthesis_options(parser: argparse._ActionsContainer, flows: str, *, several: bool) -> None:
    """flows: the flows in words. several: flows and targets are texts of lists, each one a way;
    built-in processes may then stand beside flows."""
    number: dict[str, Any] = {"metavar": "N,..."} if several else {"metavar": "N", "type": int}
    parser.add_argument("--flow", metavar="FLOW,..." if several else "FLOW", help=flows)
    parser.add_argument(
        "--process",
        metavar="P,...",
        help="built in: sky130, ihp (130 nm), asap7 (7 nm), gt2n (2 nm), gates; "
        f"{'beside or ' if several else ''}instead of --flow",
    )
    parser.add_argument(
        "--liberty",
        type=Path,
        action="extend",
        nargs="+",
        metavar="FILE",
        help="cell library of the flow cells, in one file or several",
    )
    parser.add_argument(
        "--effort",
        help="what comes first where there is no target: area, speed, or for cells balanced or "
        "both: small and fast in one netlist (default: speed)",
    )
    parser.add_argument(
        "--target-levels", **number, help="smallest area of this depth, in levels (gates)"
    )
    parser.add_argument(
        "--target-ps", **number, help="smallest area of this delay, in ps (cells, ecp5)"
    )
    add_wires_option(parser)


def add_wires_option(parser: argparse._ActionsContainer) -> None:
    """The wires of a process."""
    parser.add_argument(
        "--wires",
        metavar="KIND",
        help="wires of a process in delay and energy: model, by pins and area, or placed, by "
        "Coriolis (default: none)",
    )


def flows_of(args: argparse.Namespace, kind: str, **options: Any) -> "list[Flow]":
    """The flow of each process, else of `--flow`, else `kind`; an option that is None is the flow's
    default. ValueError where options exclude each other."""
    from ..synth import Flow
    from ..util.sweep import items

    given = {name: value for name, value in options.items() if value is not None}
    if args.process is None:
        return [Flow(args.flow or kind, liberty=args.liberty or (), **given)]
    if args.flow is not None or args.liberty is not None:
        option = "flow" if args.flow is not None else "liberty"
        raise ValueError(f"{option} and process exclude each other")
    return [Flow.of_process(name, **given) for name in items(args.process, "process")]
