"""`mxdot compare errors`: what block-scaling schemes do to data, beside the bits they take."""

import argparse
from pathlib import Path

from ...model.errors import one_line
from ..places import output_directory
from ..terminal import console
from .scheme_options import add_scheme_options, chosen, names_in

OUTPUT = Path("build/schemes")


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot compare`."""
    parser = subparsers.add_parser(
        "errors",
        help="error against bits per element of block-scaling schemes",
        description="Quantise data by the schemes of docs/numerics.md, 6, and write their error "
        "beside the bits per element as a table, CSV and SVG; docs/schemes.md has results.",
    )
    parser.add_argument(
        "schemes",
        nargs="?",
        default="all",
        metavar="S,...",
        help="schemes by name (default: %(default)s)",
    )
    add_scheme_options(parser)
    parser.add_argument(
        "--data",
        metavar="D,...",
        help="data sets of mxdot compare (default: normal,student-t,outliers,real)",
    )
    parser.add_argument(
        "--accumulator",
        metavar="A",
        help="of mxdot sim, for products by it too; some minutes (default: none, float64)",
    )
    parser.add_argument("--rows", type=int, default=128, help="of a matrix (default: %(default)s)")
    parser.add_argument(
        "--length", type=int, default=1024, help="of a row; real has its own (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the data (default: %(default)s)")
    parser.add_argument(
        "--calibrate",
        default="int8_tensor,int4_tensor",
        metavar="S,...",
        help="schemes with a scale per tensor for error against clipping, or none "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=OUTPUT, metavar="DIR", help="default: %(default)s"
    )
    parser.set_defaults(run=run, needs="compare")


def run(args: argparse.Namespace) -> int:
    """Measure, print and write; 0. ValueError where no scheme takes data and accumulator."""
    from ...compare.schemes import DEFAULT_DATA, clip, matrices, measure
    from ...compare.schemes.outputs import show, write
    from ...model import accumulator
    from ...model.schemes import scheme as find
    from ...model.schemes.pairing import schemes

    output_directory("output", args.output)
    data = DEFAULT_DATA if args.data is None else names_in(args.data)
    swept = schemes(*chosen(args, args.schemes))
    calibrated = [] if args.calibrate == "none" else names_in(args.calibrate)
    for name in calibrated:
        find(name)
    rule = None if args.accumulator is None else accumulator(args.accumulator)
    pairs = list(matrices(data, rows=args.rows, length=args.length, seed=args.seed))
    clipped = clip(pairs, calibrated)
    rows = measure(pairs, swept, rule)
    if all(row.reason for row in rows):
        raise ValueError(rows[0].reason)
    show(console(200), rows, clipped)
    for path in write(rows, clipped, args.output):
        print(one_line(str(path)))
    return 0
