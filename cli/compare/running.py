"""Options that all comparisons share, and the way they run."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import backends
from ..backends import add_backend_options, check_backend
from ..places import output_directory
from ..refusals import refuse
from ..synthesis import add_synthesis_options

OUTPUT = Path("build/compare")


def add_cost_options(parser: argparse.ArgumentParser) -> None:
    """How units are synthesised."""
    group = parser.add_argument_group("cost")
    add_synthesis_options(
        group,
        "gates, cells, xilinx, xilinx-dsp, ecp5, ecp5-dsp, or none (default: gates, and what a "
        "study says)",
        several=True,
    )
    group.add_argument("--no-energy", action="store_true", help="leave the energy out")


def add_clock_option(parser: argparse._ActionsContainer) -> None:
    """The clock at which the smallest units are searched."""
    parser.add_argument(
        "--clock",
        metavar="F,...",
        help="the smallest unit of each accumulator at a clock of the --process: 1GHz, 200MHz, "
        "750ps, lists and ranges; stages and products in flight are chosen",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="measure again what is kept or comes with the package"
    )


def add_run_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options of results, and of what runs the work."""
    group = parser.add_argument_group("run")
    group.add_argument(
        "-o", "--output", type=Path, default=OUTPUT, metavar="DIR", help="default: %(default)s"
    )
    add_backend_options(group, "points")
    return group


def synthesis_options(args: argparse.Namespace) -> dict[str, Any]:
    """Values of the options of cost for a `Synthesis`, without energy."""
    from ...compare.studies.clocks import clock_list
    from ...compare.studies.flows import NONE, with_processes
    from ...util.sweep import number_list

    given = {
        "flow": with_processes(args.flow, args.process),
        "liberty": None if args.liberty is None else tuple(args.liberty),
        "effort": args.effort,
        "wires": args.wires,
    }
    if given["flow"] == NONE:
        unused = ["liberty", "effort", "wires", "target-ps", "target-levels"]
        unused += ["clock"] * hasattr(args, "clock")
        refuse(args, unused, f"with --flow {NONE}")
    for name in ("target_ps", "target_levels"):
        text = getattr(args, name)
        given[name] = None if text is None else number_list(text, name.replace("_", "-"))
    if getattr(args, "clock", None) is not None:
        given["clock"] = clock_list(args.clock)
    return {name: value for name, value in given.items() if value is not None}


def backend(args: argparse.Namespace) -> Any:
    """Workers for the points."""
    from ...util.workers import processes

    return backends.backend(args, processes(args.jobs))


def run_resumable(args: argparse.Namespace, work: Callable[[argparse.Namespace], int]) -> int:
    """The exit status of `work`; Ctrl-C and SIGTERM end it with what is done kept."""
    check_backend(args)
    output_directory("output", args.output)
    return backends.run_resumable(lambda: work(args), args.output)
