"""`mxdot compare units`: what units cost and what they do to the result."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...model.errors import one_line
from ...synth import SYNTHESES
from ..terminal import console
from .running import (
    add_clock_option,
    add_cost_options,
    add_run_options,
    backend,
    run_resumable,
    synthesis_options,
)
from .study import add_accuracy_options, add_unit_options, study_of

DEFAULT_SORT = "area"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot compare`."""
    parser = subparsers.add_parser(
        "units",
        help="accumulators and other parts of dot units",
        description="Synthesise units and evaluate their accuracy: a table here; files, plots and "
        "a report in the output directory. Without options, the default study. Sweeps are texts "
        "such as exact,aligned:6..25/2,fixed:24..48/8:-12; see docs/compare.md.",
    )
    add_unit_options(parser)
    parser.add_argument(
        "--extra", type=Path, metavar="FILE", help="add units in other Verilog, described in TOML"
    )
    add_cost_options(parser)
    add_clock_option(parser)
    add_accuracy_options(parser)
    group = add_run_options(parser)
    group.add_argument("--sort", help="area (default), delay, sqnr or total")
    parser.set_defaults(run=run, needs="compare")


def run(args: argparse.Namespace) -> int:
    """Compare; 0 when every point was measured and within its bounds, 1 when not."""
    return run_resumable(args, _compare)


def _compare(args: argparse.Namespace) -> int:
    from ...compare.studies import compare, write
    from ...compare.studies.clock_table import crossings, estimates, show_clocked, show_notes
    from ...compare.studies.rows import MISSED
    from ...compare.studies.table import check_sort, show
    from ...util.progress import display

    sort = check_sort(args.sort or DEFAULT_SORT)
    study = _study(args)
    study.points()  # refuses what cannot be done before a cluster is asked
    how, screen = backend(args), console()
    with display(screen) as observer:
        options = {"cache_dir": SYNTHESES, "fresh": args.fresh, "before": estimates(screen)}
        comparison = compare(study, args.output, how, observer, **options)
    show_clocked(screen, comparison.rows)
    for line in crossings(comparison.rows):
        screen.print(line, highlight=False, soft_wrap=True)
    others = [row for row in comparison.rows if row.clock_mhz is None]
    if others:
        show(screen, replace(comparison, rows=tuple(others)), sort)
    else:
        show_notes(screen, comparison.notes)
    files = write(comparison, args.output)
    places = f"report: {files.report}; tables and plots: {args.output}/"
    screen.print(one_line(places), soft_wrap=True)
    missed = [row for row in comparison.failed if row.clock_mhz and row.status == MISSED]
    return 1 if len(comparison.failed) > len(missed) else 0  # a missed clock is an answer


def _study(args: argparse.Namespace) -> Any:
    """The study of units, with what it costs to synthesise them and other Verilog beside them."""
    from ...compare.studies.extra import load_extra

    study = study_of(args)
    if args.extra is not None:
        study = replace(study, extra=(*study.extra, *load_extra(args.extra)))
    energy = {"energy": False} if args.no_energy else {}
    options = synthesis_options(args)
    if "flow" in options:  # it wins over the sweeps' too
        sweeps = tuple(replace(sweep, process=None, clock=None) for sweep in study.sweeps)
        study = replace(study, sweeps=sweeps)
    elif "clock" in options:
        sweeps = tuple(replace(sweep, clock=None) for sweep in study.sweeps)
        study = replace(study, sweeps=sweeps)
    return replace(study, synthesis=replace(study.synthesis, **options, **energy))
