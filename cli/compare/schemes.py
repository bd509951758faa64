"""`mxdot compare schemes`: schemes by error, bits and the area of their units."""

import argparse
from typing import Any

from ...model.errors import one_line
from ...model.units import DotConfig
from ...synth import SYNTHESES
from ..refusals import refuse
from ..terminal import console
from ..unit_options import add_option
from .running import add_cost_options, add_run_options, backend, run_resumable, synthesis_options
from .scheme_options import add_scheme_options, chosen

ROWS = 128  # of matrices of data; real ones have their own


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot compare`."""
    parser = subparsers.add_parser(
        "schemes",
        help="block-scaling schemes on layers of a network",
        description="Error of schemes on layers of the encoder (--encoder), or else of --data, "
        "bits per element, and the area of the matching unit.",
    )
    parser.add_argument(
        "schemes",
        metavar="S,...",
        help="schemes of mxdot compare errors (or all), or weights/activations, of which "
        "activations may be bfloat16",
    )
    add_scheme_options(parser)
    add_option(parser, DotConfig.options()["accumulator"])
    add_cost_options(parser)
    group = parser.add_argument_group("accuracy")
    group.add_argument("--data", metavar="DATA,...", help="data of mxdot compare (default: real)")
    group.add_argument("--lengths", metavar="N", help="of a row; real has its own (default: 1024)")
    group.add_argument("--seed", type=int, default=1, help="of the data (default: %(default)s)")
    group.add_argument(
        "--encoder",
        type=int,
        default=0,
        metavar="N",
        help="sentences, 1 to 40, through a real encoder with the scheme in every linear layer "
        "(default: 0, none; needs mxdot[real])",
    )
    add_run_options(parser)
    parser.set_defaults(run=run, needs="compare")


def run(args: argparse.Namespace) -> int:
    """Measure, print and write; 0 when every pairing was measured, 1 when not."""
    return run_resumable(args, _compare)


def _compare(args: argparse.Namespace) -> int:
    from ...compare.schemes import comparison
    from ...compare.schemes.outputs import show_comparison, write_comparison
    from ...model import accumulator
    from ...model.schemes.pairing import pairings
    from ...util.progress import display

    pairs = pairings(*chosen(args, args.schemes))
    rule = accumulator(args.accumulator or "aligned:13")
    flow = _flow(args)
    layers = _layers(args)
    how, screen = backend(args), console(240)
    with display(screen) as observer:
        rows = comparison.compare_schemes(
            pairs,
            layers,
            flow,
            args.output,
            how,
            observer,
            rule=rule,
            energy=not args.no_energy,
            cache_dir=SYNTHESES,
        )
    show_comparison(screen, rows)
    for path in write_comparison(rows, args.output):
        screen.print(one_line(str(path)), soft_wrap=True, highlight=False)
    return 1 if any(row.error for row in rows) else 0


def _flow(args: argparse.Namespace) -> Any:
    from ...compare.studies.flows import Synthesis

    flows = Synthesis(**synthesis_options(args)).flows()
    if len(flows) > 1:
        raise ValueError(f"flow must be one, with one target, for schemes, not {len(flows)}")
    return flows[0]


def _layers(args: argparse.Namespace) -> Any:
    from ...compare.schemes.comparison import Layers
    from ...compare.schemes.data import matrices
    from ...compare.studies.study import data_names
    from ...model.errors import integer
    from ...util.data.sentences import SENTENCES
    from ...util.sweep import number_list

    sentences = integer("encoder", args.encoder, 0, len(SENTENCES))
    if sentences:
        if args.data is not None or args.lengths is not None:
            option = "data" if args.data is not None else "lengths"
            raise ValueError(f"{option} and encoder exclude each other")
        return Layers(sentences, seed=args.seed)
    data = ("real",) if args.data is None else tuple(data_names(args.data))
    if set(data) == {"real"}:
        refuse(args, ["lengths"], "with real data, which have their own")
    lengths = (1024,) if args.lengths is None else number_list(args.lengths, "lengths")
    if len(lengths) != 1:
        raise ValueError(f"lengths must be one length for schemes, not {len(lengths)}")
    matrices(data, rows=ROWS, length=lengths[0], seed=args.seed)  # refuses what cannot be drawn
    return Layers(0, data, ROWS, lengths[0], args.seed)
