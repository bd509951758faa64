"""`mxdot evaluate`: what quantising a network does to its layers and to what it returns."""

import argparse
from importlib.util import find_spec
from pathlib import Path

from .compare.scheme_options import add_scheme_options, chosen, names_in
from .places import output_directory
from .refusals import refuse
from .terminal import console

OUTPUT = Path("build/evaluate")
LENGTH = 128
ENCODER = "encoder"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "evaluate",
        help="what quantising a network does, layer by layer and end to end",
        description="Quantise the linear layers of a network by recipes, and write how far every "
        "layer and the whole are from float32 as a table, CSV and SVG; see docs/gpu.md.",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a directory with config.json and model.safetensors, of an architecture that "
        "transformers knows, or encoder, that of mxdot[real]",
    )
    parser.add_argument(
        "--recipe",
        default="mxfp8",
        metavar="R,...",
        help="recipes of docs/recipes.md (mxfp8, nvfp4, w8a8, ...), schemes of mxdot compare "
        "errors, or weights/activations, of which activations may be bfloat16 "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--skip",
        default="",
        metavar="NAME,...",
        help="layers that stay in high precision, with wildcards, as lm_head or *.0.*",
    )
    parser.add_argument(
        "--metric",
        default="sqnr",
        metavar="M",
        help="sqnr, cosine or mse, of the picture and of layers in the model "
        "(default: %(default)s)",
    )
    add_scheme_options(parser)
    group = parser.add_argument_group("inputs")
    group.add_argument(
        "--text", type=Path, metavar="FILE", help="read by the directory's tokenizer.json"
    )
    group.add_argument(
        "--tokens", type=Path, metavar="FILE", help=".npy of integers (sequences, length)"
    )
    group.add_argument(
        "--sequences", type=int, default=8, metavar="N", help="at most (default: %(default)s)"
    )
    group.add_argument(
        "--length",
        type=int,
        metavar="N",
        help=f"of a sequence of --text or random tokens (default: {LENGTH})",
    )
    group.add_argument("--seed", type=int, help="of random tokens, without a file (default: 0)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument(
        "-o", "--output", type=Path, default=OUTPUT, metavar="DIR", help="default: %(default)s"
    )
    parser.set_defaults(run=run, needs="nn")


def run(args: argparse.Namespace) -> int:
    """Evaluate, print and write; 0."""
    for name in ("torch", "transformers", "pyarrow", "vl_convert"):
        if find_spec(name) is None:  # said before work starts
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    from ..model.errors import choice, one_line
    from ..nn.evaluate import METRICS
    from ..nn.networks import evaluate_network, load_network, recipes, write

    choice("metric", args.metric, METRICS)
    _refuse_unused(args)
    output_directory("output", args.output)
    named = recipes(*chosen(args, args.recipe))
    network = load_network(
        args.model,
        device=args.device,
        text=args.text,
        tokens=args.tokens,
        sequences=args.sequences,
        length=LENGTH if args.length is None else args.length,
        seed=0 if args.seed is None else args.seed,
    )
    screen = console(200)
    found = evaluate_network(
        network,
        named,
        skip=names_in(args.skip),
        metric=args.metric,
        told=lambda line: screen.print(
            one_line(line), style="yellow", highlight=False, soft_wrap=True
        ),
    )
    for name, evaluation in found.items():
        print(f"{name}, {one_line(network.inputs)}:\n{evaluation}\n")
    for path in write(found, args.output):
        print(one_line(str(path)))
    return 0


def _refuse_unused(args: argparse.Namespace) -> None:
    """ValueError for options of random tokens or texts where there are none."""
    if args.model == ENCODER:
        refuse(args, ["seed", "length"], f"with {ENCODER}, which reads its sentences")
    elif args.tokens is not None:
        refuse(args, ["seed", "length"], "with tokens of a file")
    elif args.text is not None:
        refuse(args, ["seed"], "with text of a file")
