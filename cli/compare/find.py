"""`mxdot compare find`: the narrowest accumulators that are accurate enough."""

import argparse

from ..terminal import console
from .running import add_run_options, backend, run_resumable
from .study import add_accuracy_options, add_unit_options, study_of


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot compare`."""
    parser = subparsers.add_parser(
        "find",
        help="the narrowest accumulators that meet a target",
        description="Search the smallest F of aligned:F and fused:F, and the smallest fixed:W:L, "
        "that meet a target on data; see docs/compare.md. Nothing is synthesised.",
    )
    add_unit_options(parser, "formats", "lanes")
    group = parser.add_argument_group("target")
    group.add_argument("--sqnr", type=float, metavar="DB", help="so many dB")
    group.add_argument("--match", metavar="A", help="as good as this accumulator")
    group.add_argument(
        "--quality", help="which SQNR counts: accumulator (default), or total, with the format"
    )
    add_accuracy_options(parser)
    add_run_options(parser)
    parser.set_defaults(run=run, needs="compare")


def run(args: argparse.Namespace) -> int:
    """Search; 0 when every search ended, 1 when not."""
    return run_resumable(args, _search)


def _search(args: argparse.Namespace) -> int:
    from ...compare.studies import Target, search
    from ...compare.studies.table import show_found
    from ...util.progress import display

    target = Target(args.sqnr, args.match, args.quality or "accumulator")
    study = study_of(args)
    how, screen = backend(args), console()
    with display(screen) as observer:
        found = search(study, target, args.output, how, observer)
    show_found(screen, found)
    return 1 if any(result.error for result in found) else 0
