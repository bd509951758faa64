"""`mxdot compare find`: the narrowest accumulators that are accurate enough."""

import argparse
from dataclasses import replace

from ...synth import SYNTHESES
from ..refusals import refuse
from ..synthesis import add_wires_option
from ..terminal import console
from .running import add_clock_option, add_run_options, backend, run_resumable
from .study import add_accuracy_options, add_unit_options, study_of


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot compare`."""
    parser = subparsers.add_parser(
        "find",
        help="the narrowest accumulators that meet a target",
        description="Search the smallest F of aligned:F and fused:F, and the smallest fixed:W:L, "
        "that meet a target on data; see docs/compare.md. Nothing is synthesised without --clock, "
        "which ranks these, exact, float32, int32 and what --match names by their smallest units.",
    )
    add_unit_options(parser, "formats", "lanes")
    group = parser.add_argument_group("target")
    group.add_argument("--sqnr", type=float, metavar="DB", help="so many dB")
    group.add_argument("--match", metavar="A", help="as good as this accumulator")
    group.add_argument(
        "--quality", help="which SQNR counts: accumulator (default), or total, with the format"
    )
    group = parser.add_argument_group("cost")
    group.add_argument("--process", metavar="P,...", help="sky130, ihp, asap7 or gt2n")
    add_wires_option(group)
    group.add_argument("--no-energy", action="store_true", help="leave the energy out")
    add_clock_option(group)
    add_accuracy_options(parser)
    add_run_options(parser)
    parser.set_defaults(run=run, needs="compare")


def run(args: argparse.Namespace) -> int:
    """Search; 0 when every search ended, 1 when not."""
    at_clock = args.clock is not None or args.process is not None
    return run_resumable(args, _rank if at_clock else _search)


def _search(args: argparse.Namespace) -> int:
    from ...compare.studies import Target, search
    from ...compare.studies.table import show_found
    from ...model import format_pairs
    from ...util.data.sets import weights_note
    from ...util.progress import display

    refuse(args, ["wires", "no-energy"], "without --clock")
    target = Target(args.sqnr, args.match, args.quality or "accumulator")
    study = study_of(args)
    how, screen = backend(args), console()
    with display(screen) as observer:
        found = search(study, target, args.output, how, observer, fresh=args.fresh)
    show_found(screen, found)
    for name, fmt, lanes in dict.fromkeys((r.data, r.format, r.lanes) for r in found):
        if (note := weights_note(name, format_pairs(fmt)[0][1], lanes)) is not None:
            screen.print(note, highlight=False, soft_wrap=True)
    return 1 if any(result.error for result in found) else 0


def _rank(args: argparse.Namespace) -> int:
    """One table of the smallest units at the clock; 0 when all were measured."""
    from ...compare.studies import Target
    from ...compare.studies.as_good import rank
    from ...compare.studies.clock_table import estimates, show_clocked, show_notes
    from ...compare.studies.clocks import clock_list
    from ...compare.studies.flows import Synthesis
    from ...util.progress import display

    if args.clock is None or args.process is None:
        missing, given = ("clock", "process") if args.clock is None else ("process", "clock")
        raise ValueError(f"{given} needs --{missing} with it, to compare units at a clock")
    target = Target(args.sqnr, args.match, args.quality or "accumulator")
    study = study_of(args)
    clock, energy = clock_list(args.clock), not args.no_energy
    synthesis = Synthesis(args.process, clock=clock, energy=energy, wires=args.wires)
    study = replace(study, synthesis=synthesis)
    sweeps = tuple(replace(sweep, process=None, clock=None) for sweep in study.sweeps)
    study = replace(study, sweeps=sweeps)
    how, screen = backend(args), console(200)
    with display(screen) as observer:
        options = {"cache_dir": SYNTHESES, "fresh": args.fresh, "before": estimates(screen)}
        ranking = rank(study, target, args.output, how, observer, **options)
    screen.print(f"Accumulators that meet the target, {target}:", highlight=False)
    show_clocked(screen, ranking.rows, ranking.matched)
    show_notes(screen, ranking.notes)
    return 1 if any(row.status == "failed" for row in ranking.rows) else 0
