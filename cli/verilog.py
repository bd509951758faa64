"""`mxdot verilog`: write one unit as Verilog."""

import argparse
import sys
from pathlib import Path

from ..model.errors import one_line
from ..model.pipeline.advice import advice
from ..model.units import KINDS, DotConfig
from ..util.files import write_file
from .places import output_file
from .unit_options import add_kinds, unit_of


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "verilog",
        help="write one unit as Verilog",
        description="Write one unit as Verilog: of a kind, or a dot unit where none is named.",
    )
    parser.otherwise = "dot"
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    add_kinds(kinds, _output_options)
    parser.set_defaults(run=run, needs="hw")


def _output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--top", help="top module (default: mxdot_ and the kind of unit)")
    group.add_argument(
        "-o", "--output", type=Path, help="file to write (default: standard output)", metavar="FILE"
    )
    group.add_argument(
        "--assertions",
        action="store_true",
        help="write assertions to bind too, next to FILE: of build/dot.v build/dot_assertions.sv",
    )


def run(args: argparse.Namespace) -> int:
    """Write the file; the exit status."""
    config = unit_of(KINDS[args.kind], args)
    output_file("output", args.output)
    bound = _assertions_file(args) if args.assertions else None
    from ..hw.verilog import default_top, generate  # Amaranth: only when a unit is built

    top = default_top(config) if args.top is None else args.top
    try:
        text = generate(config, top)
    except KeyboardInterrupt:
        _silence()
        raise
    if args.output is None:
        sys.stdout.write(text)
        return 0
    write_file(args.output, text)
    if bound is not None:
        from ..hw.verilog.assertions import assertions

        write_file(bound, assertions(config, top))
    print(f"{one_line(str(args.output))}: {top}, {config}, {config.timing}")
    line = advice(config) if isinstance(config, DotConfig) else None
    if line is not None:
        print(f"note: {line}", file=sys.stderr)
    return 0


def _silence() -> None:
    """Let Amaranth give no warnings of the half of a unit that nothing uses."""
    from amaranth.hdl import UnusedElaboratable

    UnusedElaboratable._MustUse__silence = True  # type: ignore[attr-defined]  # as its tests do


def _assertions_file(args: argparse.Namespace) -> Path:
    """File of the assertions; ValueError without an output file."""
    if args.output is None:
        raise ValueError("assertions need the output in a file: give -o FILE")
    path = args.output.with_name(f"{args.output.stem}_assertions.sv")
    output_file("assertions", path)
    return path
