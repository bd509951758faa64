"""`mxdot sim`: simulate units against the golden model."""

import argparse
from pathlib import Path

from ..model.errors import choice, one_line
from ..model.plugins import assignment
from ..model.units import KINDS, DotConfig
from . import soak
from .backends import add_backend_options, backend, check_backend, listing
from .output import add_json_file_option, check_json_file
from .program import program, quoted
from .refusals import refuse_results
from .simulators import SIMULATORS, is_alternative, supported_units
from .unit_options import add_kinds, unit_of

REGRESSION = "regression"
NETLIST = "mxdot.synth.gate_level:unit_netlist"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "sim",
        help="simulate units against the golden model",
        description="Simulate one unit of a kind, or the regression where none is named.",
    )
    parser.otherwise = REGRESSION
    what = parser.add_subparsers(dest="kind", metavar="WHAT", required=True)
    every = "the units of the regression matrix"
    regression = what.add_parser(REGRESSION, help=every, description=f"Simulate {every}.")
    group = regression.add_argument_group("matrix")
    group.add_argument("--full", action="store_true", help="the full matrix (hours)")
    group.add_argument(
        "--only", action="append", metavar="NAME", help="this unit of the matrix (patterns: *)"
    )
    _run_options(regression)
    add_kinds(what, _run_options)
    parser.set_defaults(run=run)
    soak.add_parsers(what)


def _run_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("run")
    group.add_argument("--list", action="store_true", help="print what would be run and exit")
    group.add_argument(
        "--seed",
        type=int,
        help="repeat the run of this seed (default: an interrupted run's, else random)",
    )
    group.add_argument("--count", type=int, help="dot products in bulk mode, for each unit")
    group.add_argument("--traffic", type=int, help="dot products cycle by cycle, for each unit")
    group.add_argument(
        "--waves", action="store_true", help="record FST waves (in bulk mode up to --count 5000)"
    )
    add_backend_options(group, "units")
    add_json_file_option(group, "what was compared in each unit, and its failures,")
    group.add_argument(
        "--fresh", action="store_true", help="begin anew instead of an interrupted run's rest"
    )
    group.add_argument(
        "--netlist",
        metavar="PROCESS",
        help="simulate what synthesis makes of the units, of the cells of a process: sky130, ihp, "
        "asap7, gt2n or gates (needs mxdot[compare])",
    )
    group.add_argument(
        "--simulator",
        metavar="NAME",
        help="verilator; cxxrtl or, of units whose items share no state, bitsliced: bulk mode "
        "alone, of small units, with --full of all but matrix units (needs mxdot[compare])",
    )
    group.add_argument(
        "--tensors",
        type=Path,
        metavar="FILE",
        help="real tensors, .safetensors, .npz or .npy; "
        "or a checkpoint with quantised weights, also .gguf or a directory",
    )
    group.add_argument(
        "--name",
        nargs="+",
        default=[],
        metavar="TENSOR",
        help="one or two tensors of the file; rows of the first meet rows of the second",
    )


def run(args: argparse.Namespace) -> int:
    """Simulate; 0 when every unit passed, 1 when not."""
    _check(args)
    from ..sim.engine.regression import (
        BUILD,
        QUICK_TRAFFIC,
        TRAFFIC,
        Settings,
        run_regression,
        select,
        unit_processes,
    )
    from ..sim.engine.regression_units import (
        Unit,
        default_matrix,
        full_matrix,
        smoke_matrix,
        stream_matrix,
    )
    from ..sim.engine.toolchain import ToolError

    second = args.simulator if is_alternative(args) else None
    if args.kind != REGRESSION:
        units = [Unit(unit_of(KINDS[args.kind], args))]
    else:
        if second:
            units = stream_matrix() if args.full else smoke_matrix()
        else:
            units = full_matrix() if args.full else default_matrix()
        if args.only:
            units = select(units, args.only)
    units = supported_units(args.simulator, units)
    if args.list:
        for unit in units:
            print(f"{unit.name:48} {unit.config}")
        return 0
    config = units[0].config
    if args.tensors is not None and len(units) == 1 and isinstance(config, DotConfig):
        from ..sim.dot.tensors import weights_note

        note = weights_note(args.tensors, tuple(args.name), config)
        if note is not None:
            print(one_line(note))
    quick = args.kind == REGRESSION and not args.full
    traffic = args.traffic or (QUICK_TRAFFIC if quick else TRAFFIC)
    settings = Settings(
        seed=args.seed,
        fresh=args.fresh,
        traffic=0 if second else traffic,
        bulk=args.count,
        waves=args.waves,
        tensors=args.tensors,
        tensor_names=tuple(args.name),
        generator=None if args.netlist is None else (NETLIST, args.netlist),
        simulator=SIMULATORS[args.simulator or "verilator"],
        directory=Path("-".join([str(BUILD), *filter(None, [args.netlist, second])])),
        repeat=_repeat(args),
        json=args.json,
    )
    try:
        with listing():
            chosen = backend(args, unit_processes(args.jobs))
            return 0 if run_regression(units, settings, chosen) else 1
    except ToolError as error:
        raise ValueError(str(error)) from None
    return 0


def _check(args: argparse.Namespace) -> None:
    check_backend(args)
    refuse_results(args)
    check_json_file(args)
    for name, low, high in (("seed", 0, 2**63 - 1), ("count", 1, 10**8), ("traffic", 1, 10**6)):
        value = getattr(args, name)
        if value is not None and not low <= value <= high:
            raise ValueError(f"{name} must be from {low} to {high}, not {value}")
    if args.netlist is not None:
        from ..synth.processes import NAMES
        from ..synth.tools import yosys_version

        args.needs = "compare"
        choice("netlist", args.netlist, NAMES)
        yosys_version()  # ModuleNotFoundError before any work
    if is_alternative(args):
        _check_second(args)
    if len(args.name) > 2:
        raise ValueError(f"name must give one or two tensors, not {len(args.name)}")
    if args.name and args.tensors is None:
        raise ValueError("name needs a file of tensors: --tensors FILE")


def _check_second(args: argparse.Namespace) -> None:
    """Refuse what a second simulator does not do."""
    for name in ("waves", "traffic", "netlist"):
        if getattr(args, name):
            raise ValueError(f"simulator must be verilator with --{name}, not {args.simulator}")
    if args.kind == "matmul":
        raise ValueError(f"simulator must be verilator for matrix units, not {args.simulator}")


def _repeat(args: argparse.Namespace) -> str:
    """The command that repeats one unit of this run; {name} and {seed} stand for its own."""
    words = [program(), "sim"]
    if args.kind != REGRESSION:
        words.append(args.kind)
        for option in KINDS[args.kind].options().values():
            value = getattr(args, option.argument)
            words += [] if value is None else option.spelled(value)
    else:
        words += ["--full"] * args.full + ["--only", "{name}"]
    for name in ("count", "traffic", "tensors", "netlist", "simulator"):
        if getattr(args, name) is not None:
            words += [f"--{name}", str(getattr(args, name))]
    words += ["--seed", "{seed}"]
    words += ["--waves"] * (args.simulator in (None, "verilator"))
    if args.name:
        words += ["--name", *args.name]
    command = " ".join(word if word in ("{name}", "{seed}") else quoted(word) for word in words)
    return assignment() + command
