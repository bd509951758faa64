"""`mxdot verify`: proofs, mutants and coverage of the RTL, and simulation for hours."""

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from . import soak
from .backends import add_backend_options, backend, check_backend, run_resumable
from .output import add_json_file_option, check_json_file, write_json_file
from .places import output_directory
from .refusals import refuse_results

if TYPE_CHECKING:
    from ..verify.command import Session


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand and its own to those of `mxdot`."""
    parser = subparsers.add_parser(
        "verify",
        help="prove, mutate, cover and soak the RTL",
        description="Checks beyond `mxdot sim`; docs/evidence.md has results.",
    )
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    _add_formal(what)
    _add_mutate(what)
    _add_coverage(what)
    soak.add_parsers(what)


def _add(
    what: argparse._SubParsersAction, name: str, things: str, text: str
) -> argparse.ArgumentParser:
    """Parser of one check, with what chooses among `things` and lists them."""
    parser = what.add_parser(name, help=text, description=f"Check: {text}.")
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help=f"{things} with this name, or text in their names",
    )
    parser.add_argument("--list", action="store_true", help=f"print the names of {things} and exit")
    group = parser.add_argument_group("run")
    add_backend_options(group, "tasks")
    add_json_file_option(group, "what each task has shown")
    group.add_argument(
        "--fresh", action="store_true", help="begin anew instead of from kept results"
    )
    return parser


def _run(args: argparse.Namespace, directory: Path, check: Callable[["Session"], int]) -> int:
    """Run `check`; `directory` keeps its results."""
    from ..synth.tools import yosys_version
    from ..util.workers import processes
    from ..verify.command import Session

    check_backend(args)
    refuse_results(args)
    check_json_file(args)
    if not (args.list or args.dry_run):
        output_directory("results", directory)
    yosys_version()  # ModuleNotFoundError before any work
    local = processes(args.jobs)

    def work() -> int:
        session = Session(directory, backend(args, local), args.fresh)
        status = check(session)
        results = [asdict(outcome) for outcome in session.seen]
        write_json_file(args, {"check": args.what, "passed": status == 0, "results": results})
        return status

    return run_resumable(work, directory)


def _add_markdown(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--markdown", action="store_true", help="rows of docs/evidence.md")


def _add_seconds(parser: argparse.ArgumentParser, name: str, default: float, text: str) -> None:
    text += " (default: %(default)g)"
    parser.add_argument(name, type=float, default=default, metavar="SECONDS", help=text)


def _add_formal(what: argparse._SubParsersAction) -> None:
    parser = _add(
        what, "formal", "claims", "claims about the RTL are proved, and refuted with a seeded bug"
    )
    _add_seconds(parser, "--limit", 300.0, "for each tool that runs")
    _add_markdown(parser)
    parser.set_defaults(run=_run_formal, needs="compare")


def _run_formal(args: argparse.Namespace) -> int:
    from ..verify.formal.run import BUILD, run

    options = {"list_only": args.list, "limit": args.limit, "markdown": args.markdown}
    return _run(args, BUILD, lambda session: run(args.only, session, **options))


def _add_mutate(what: argparse._SubParsersAction) -> None:
    parser = _add(
        what,
        "mutate",
        "subjects",
        "bench and tests kill mutants of the RTL and of modules in Python",
    )
    parser.add_argument(
        "--count", type=int, default=40, help="mutants of each subject (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the sample and the bench (default: %(default)s)"
    )
    _add_seconds(parser, "--limit", 20.0, "for each proof of equivalence")
    _add_seconds(parser, "--longer", 120.0, "for each proof that the limit ends")
    _add_markdown(parser)
    parser.set_defaults(run=_run_mutate, needs="compare")


def _run_mutate(args: argparse.Namespace) -> int:
    from ..verify.mutate.equivalence import Limits
    from ..verify.mutate.run import run
    from ..verify.mutate.tasks import BUILD, Sample

    sample, limits = Sample(args.count, args.seed), Limits(args.limit, args.longer)
    options = {"list_only": args.list, "markdown": args.markdown}
    return _run(args, BUILD, lambda session: run(args.only, sample, limits, session, **options))


def _add_coverage(what: argparse._SubParsersAction) -> None:
    parser = _add(
        what,
        "coverage",
        "units",
        "the bench reaches every line, branch and toggle of the Verilog, or a reason says why not",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the bench (default: %(default)s)")
    parser.set_defaults(run=_run_coverage, needs="compare")


def _run_coverage(args: argparse.Namespace) -> int:
    from ..verify.coverage.run import BUILD, run

    options = {"list_only": args.list}
    return _run(args, BUILD, lambda session: run(args.only, args.seed, session, **options))
