"""Options of long commands: where their tasks run, or a list of them."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import one_line
from .terminal import console

if TYPE_CHECKING:
    from ..util.jobs import Backend


def add_backend_options(group: argparse._ArgumentGroup, things: str) -> None:
    """Add the options of `backend`; `things` are what runs side by side."""
    group.add_argument("--jobs", type=int, help=f"{things} at a time (default: all cores)")
    group.add_argument("--scheduler", metavar="ADDRESS", help="run on this Dask cluster")
    group.add_argument(
        "--slurm",
        metavar="partition=NAME[,KEY=VALUE...]",
        help="run as Slurm jobs with these options of sbatch (needs mxdot[slurm])",
    )
    group.add_argument(
        "--dry-run", action="store_true", help="list what would run, and roughly how long"
    )


def check_backend(args: argparse.Namespace) -> None:
    """ValueError for options of `backend` that cannot be used."""
    if args.jobs is not None and not 1 <= args.jobs <= 1024:
        raise ValueError(f"jobs must be from 1 to 1024, not {args.jobs}")
    if args.scheduler is not None and args.slurm is not None:
        raise ValueError("scheduler and slurm exclude each other")


def backend(args: argparse.Namespace, local: "Backend") -> "Backend":
    """The backend that the options choose; `local` without one."""
    from ..util.workers import dask, slurm

    chosen = local
    if args.scheduler is not None:
        args.needs = "compare"
        chosen = dask(args.scheduler)
    elif args.slurm is not None:
        args.needs = "slurm"
        chosen = slurm(args.slurm, args.jobs)
    return replace(chosen, only_lists=args.dry_run)


def run_resumable(work: Callable[[], int], directory: Path) -> int:
    """The exit status of `work`; Ctrl-C and SIGTERM end it, and `directory` keeps what is done."""
    from ..util.children import terminate_as_interrupt

    try:
        with terminate_as_interrupt(), listing():
            return work()
    except KeyboardInterrupt:
        kept = one_line(str(directory))
        console(200).print(f"interrupted; results are kept in {kept}, run it again to go on")
        return 130
    return 0


@contextmanager
def listing() -> Iterator[None]:
    """Print what a dry run in the block would run; the block ends there."""
    from ..util.jobs import DryRun
    from ..util.progress import show_plan

    try:
        yield
    except DryRun as plan:
        show_plan(console(200), plan)
