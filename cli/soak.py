"""`mxdot sim soak` and `mxdot sim replay`: fresh seeds for hours, and what failed once."""

import argparse
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..model.units import KINDS, UnitConfig
from .program import program, quoted
from .simulators import SIMULATORS, is_alternative, supported_units
from .unit_options import unit_of

DEFAULT_HOURS = 1.0
LARGEST_HOURS = 10_000
RANDOM_COUNT = 300
REPLAY = Path("build/replay")


def add_parsers(what: argparse._SubParsersAction) -> None:
    """Add both to the subcommands of `mxdot sim`."""
    text = "units in bulk mode again and again, each time with a fresh seed"
    soak = what.add_parser(
        "soak",
        help=text,
        description=f"Simulate {text}. Counts add up in build/soak, whoever is interrupted; what "
        "fails is made as small as can be and kept in build/soak/failures.",
    )
    soak.add_argument(
        "--hours", type=float, help=f"after these no run begins (default: {DEFAULT_HOURS:g})"
    )
    soak.add_argument("--full", action="store_true", help="units of the full matrix")
    soak.add_argument(
        "--random",
        action="store_true",
        help="units of every kind with options drawn at random, by mxdot sim; lists pairs of "
        "values that were not drawn yet",
    )
    soak.add_argument(
        "--only", action="append", metavar="NAME", help="this unit of the matrix (patterns: *)"
    )
    soak.add_argument("--seed", type=int, help="repeat the run of this seed, once for each unit")
    soak.add_argument("--count", type=int, help="dot products of a run (default: 100000)")
    soak.add_argument(
        "--rounds",
        type=int,
        help="how often a run sends them, each time with other gaps and stalls (default: 1)",
    )
    soak.add_argument(
        "--simulator",
        metavar="NAME",
        help="verilator, cxxrtl or bitsliced, as of mxdot sim; what fails is replayed by Verilator",
    )
    soak.add_argument("--jobs", type=int, help="units at a time (default: all cores)")
    soak.set_defaults(run=run_soak)
    replay = what.add_parser(
        "replay",
        help="operands that failed once",
        description="Simulate what a soak has kept: 0 when the unit gives what the model does.",
    )
    replay.add_argument("file", type=Path, help="a regression vector, .json")
    replay.add_argument("--waves", action="store_true", help="record FST waves")
    replay.set_defaults(run=run_replay)


def run_soak(args: argparse.Namespace) -> int:
    """Soak; 0 when nothing failed, 1 when something did."""
    _check(args)
    if args.random:
        return _run_random(args)
    from ..sim.engine.regression import select
    from ..sim.engine.regression_units import default_matrix, full_matrix
    from ..sim.engine.stream_unit import stream_unit_of
    from ..sim.engine.toolchain import ToolError
    from ..verify.soak.run import COUNT, Settings
    from ..verify.soak.run import run_soak as soak

    units = full_matrix() if args.full else default_matrix()
    if args.only:
        units = select(units, args.only)
    if is_alternative(args):
        units = supported_units(
            args.simulator, [unit for unit in units if stream_unit_of(unit.config)]
        )
    count = COUNT if args.count is None else args.count
    words = [program(), "sim", "soak", *["--full"] * args.full]
    words += ["--only", "{name}", "--seed", "{seed}", "--count", str(count)]
    words += [] if args.rounds is None else ["--rounds", str(args.rounds)]
    words += [] if args.simulator is None else ["--simulator", args.simulator]
    settings = Settings(
        hours=DEFAULT_HOURS if args.hours is None else args.hours,
        seed=args.seed,
        count=count,
        rounds=1 if args.rounds is None else args.rounds,
        workers=args.jobs,
        simulator=SIMULATORS[args.simulator or "verilator"],
        repeat=" ".join(words),
        replay=f"{program()} sim replay {{file}} --waves",
    )
    try:
        return 0 if soak(units, settings) else 1
    except ToolError as error:
        raise ValueError(str(error)) from None


def _run_random(args: argparse.Namespace) -> int:
    """Units drawn at random; 0 when nothing failed, 1 when something did."""
    from ..sim.engine.regression import unit_processes
    from ..sim.engine.toolchain import ToolError
    from ..verify.soak import random_units

    for name in ("full", "only", "seed", "rounds", "simulator"):
        value = getattr(args, name)
        if value is not None and value is not False:
            raise ValueError(f"{name} must be left out with random")
    settings = random_units.Settings(
        hours=DEFAULT_HOURS if args.hours is None else args.hours,
        count=RANDOM_COUNT if args.count is None else args.count,
        unit_of=_unit_of,
        program=program(),
    )
    try:
        return 0 if random_units.run(settings, unit_processes(args.jobs)) else 1
    except ToolError as error:
        raise ValueError(str(error)) from None


def _unit_of(words: Sequence[str]) -> UnitConfig:
    """The unit of a command; ValueError where the command line refuses it."""
    args = _parser().parse_args(words)
    return unit_of(KINDS[args.kind], args)


@cache
def _parser() -> argparse.ArgumentParser:
    from .command import build_parser

    return build_parser()


def _check(args: argparse.Namespace) -> None:
    is_alternative(args)  # refused before any work
    if args.seed is not None and args.hours is not None:
        raise ValueError("hours and seed exclude each other: a seed is one run")
    for name, low, high in (
        ("hours", 0, LARGEST_HOURS),
        ("seed", 0, 2**63 - 1),
        ("count", 1, 10**8),
        ("rounds", 1, 1000),
        ("jobs", 1, 1024),
    ):
        value = getattr(args, name)
        if value is not None and not low <= value <= high:
            raise ValueError(f"{name} must be from {low} to {high}, not {value}")


def run_replay(args: argparse.Namespace) -> int:
    """Replay; 0 when every result is the model's, 1 when not."""
    from ..sim.engine.job import UnitJob
    from ..sim.engine.regression_units import file_name
    from ..sim.engine.toolchain import ToolError
    from ..util.runs import own_directory
    from ..verify.soak import vector

    try:
        kept = vector.load(args.file)
        name = file_name(kept.config.name)
        builds = REPLAY / "builds" / name
        repeat = f"{program()} sim replay {quoted(str(args.file))} --waves"
        with own_directory(REPLAY / "runs") as directory:
            job = UnitJob(
                name, kept.config, 0, directory, waves=args.waves, builds=builds, repeat=repeat
            )
            replayed, report = vector.replay(kept, job)
    except ToolError as error:
        raise ValueError(str(error)) from None
    right = f"{len(replayed.want)} {kept.config.items}: every bit is the model's"
    print(report or (f"{right}; files in {directory}" if args.waves else right))
    return 1 if report else 0
