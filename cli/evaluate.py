"""`mxdot evaluate`: what formats, machines and accumulators do to a network."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.errors import one_line
from .backends import run_resumable
from .compare.scheme_options import add_scheme_options, chosen, names_in
from .output import add_json_option, check_json_file, is_json_printed, write_json_file
from .places import output_directory
from .refusals import refuse
from .terminal import console

if TYPE_CHECKING:
    from ..nn import Recipe
    from ..nn.networks import Network

OUTPUT = Path("build/evaluate")
LENGTH = 128
ENCODER = "encoder"
RECIPE = "mxfp8"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "evaluate",
        help="what formats, machines and accumulators do to a network, layer by layer and whole",
        description="Quantise the linear layers of a network by recipes, and write how far every "
        "layer and the whole are from float32 as a table, CSV and SVG; or run the network with the "
        "bits of machines, or of accumulators; see docs/gpu.md.",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a directory with config.json and model.safetensors, of an architecture that "
        "transformers knows, with quantised weights too, which are decoded; or encoder, that of "
        "mxdot[real]",
    )
    parser.add_argument(
        "--recipe",
        metavar="R,...",
        help="recipes of docs/recipes.md (mxfp8, nvfp4, w8a8, ...), bf16 or fp16, schemes of mxdot "
        "compare errors, or weights/activations, of which activations may be bfloat16 "
        f"(default: {RECIPE})",
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--machine",
        metavar="M,...",
        help="machines of `mxdot machines` (a100-bf16,h100-bf16,mi300x-bf16): each layer of the "
        "others against the first machine's, and the first token that differs",
    )
    who.add_argument(
        "--accumulator",
        metavar="A,...",
        help="accumulators and ranges (aligned:6..14,hopper,exact) for the formats of --recipe, "
        "end to end; results are kept, and a run that was cut off goes on",
    )
    parser.add_argument(
        "--attention",
        metavar="FORMAT",
        help="attention's products take part, with operands of this format (e4m3, bf16, ...)",
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
    add_json_option(parser, "errors")
    parser.add_argument(
        "--fresh", action="store_true", help="compute kept results of --machine, --accumulator anew"
    )
    parser.set_defaults(run=run, needs="nn")


def run(args: argparse.Namespace) -> int:
    """Evaluate, print and write; 0."""
    for name in ("torch", "transformers", "pyarrow", "vl_convert"):
        if find_spec(name) is None:  # said before work starts
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    from ..model.errors import choice
    from ..nn.evaluate import METRICS
    from ..nn.networks import accumulator_recipes, accumulators, machine_recipes, recipes

    choice("metric", args.metric, METRICS)
    _refuse_unused(args)
    output_directory("output", args.output)
    check_json_file(args)
    if args.machine is not None:
        named = _attending(args, machine_recipes(names_in(args.machine)))
        return run_resumable(lambda: _machines(args, named), args.output)
    named = recipes(*chosen(args, RECIPE if args.recipe is None else args.recipe))
    if args.accumulator is not None:
        every = _attending(args, accumulator_recipes(named, accumulators(args.accumulator)))
        return run_resumable(lambda: _accumulators(args, every), args.output)
    return _recipes(args, _attending(args, named))


def _attending(args: argparse.Namespace, named: "Mapping[str, Recipe]") -> "Mapping[str, Recipe]":
    """The recipes with the format of attention that is given."""
    if args.attention is None:
        return named
    return {name: replace(recipe, attention=args.attention) for name, recipe in named.items()}


def _recipes(args: argparse.Namespace, named: "Mapping[str, Recipe]") -> int:
    from ..nn.networks import evaluate_network, layer_lines, write

    network = _network(args)
    options = {"skip": names_in(args.skip), "metric": args.metric}
    evaluations = evaluate_network(network, named, told=_told(args), **options)
    for name, evaluation in evaluations.items():
        _say(args, f"{name}, {network.inputs}:", evaluation)
    _finish(args, network, write(evaluations, args.output), layers=layer_lines(evaluations))
    return 0


def _machines(args: argparse.Namespace, named: "Mapping[str, Recipe]") -> int:
    """Layers of each machine against those of the first, or of float32; then end to end."""
    from ..nn.networks import ORIGINAL, difference_table, evaluate_network, layer_lines, write

    network, told = _network(args), _told(args)
    first, *others = named
    against = first if others else ORIGINAL
    reference = named[first] if others else None
    evaluations = evaluate_network(
        network,
        {name: named[name] for name in others or [first]},
        skip=names_in(args.skip),
        metric=args.metric,
        told=told,
        reference=reference,
    )
    for name, evaluation in evaluations.items():
        _say(args, f"{name} against {against}, {network.inputs}:", difference_table(evaluation))
    files = write(evaluations, args.output, against)
    return _end_to_end(args, network, named, against, files, layer_lines(evaluations))


def _accumulators(args: argparse.Namespace, named: "Mapping[str, Recipe]") -> int:
    from ..nn.networks import ORIGINAL

    return _end_to_end(args, _network(args), named, ORIGINAL, [], [])


def _end_to_end(
    args: argparse.Namespace,
    network: "Network",
    named: "Mapping[str, Recipe]",
    reference: str,
    files: list[Path],
    layers: list[dict[str, Any]],
) -> int:
    """Run, print and write; 0, or 1 where a case failed."""
    from ..nn.networks import end_to_end_lines, end_to_end_table, run_cases, write_end_to_end
    from ..util.progress import display

    with display(console(200, stderr=is_json_printed(args)), "running") as observer:
        rows = run_cases(
            network,
            named,
            args.output,
            observer,
            skip=names_in(args.skip),
            reference=reference,
            told=_told(args),
            fresh=args.fresh,
        )
    _say(args, f"end to end, {network.inputs}:", end_to_end_table(rows, reference))
    files = [*files, *write_end_to_end(rows, args.output)]
    _finish(args, network, files, layers=layers, networks=end_to_end_lines(rows))
    return 1 if any(row.error is not None for row in rows) else 0


def _network(args: argparse.Namespace) -> "Network":
    from ..nn.networks import load_network

    network = load_network(
        args.model,
        device=args.device,
        text=args.text,
        tokens=args.tokens,
        sequences=args.sequences,
        length=LENGTH if args.length is None else args.length,
        seed=0 if args.seed is None else args.seed,
    )
    choose = getattr(network.model, "set_attn_implementation", None)
    if args.attention is not None and choose is not None:
        try:
            choose("sdpa")  # which recipes take part in
        except ValueError as error:
            raise ValueError(
                f"attention of the model has no sdpa: {one_line(str(error))}"
            ) from None
    return network


def _told(args: argparse.Namespace) -> Callable[[str], None]:
    screen = console(200, stderr=is_json_printed(args))
    return lambda line: screen.print(
        one_line(line), style="yellow", highlight=False, soft_wrap=True
    )


def _say(args: argparse.Namespace, title: str, table: object) -> None:
    if not is_json_printed(args):
        print(f"{one_line(title)}\n{table}\n")


def _finish(
    args: argparse.Namespace, network: "Network", files: list[Path], **content: object
) -> None:
    """Name the files that were written, and write JSON."""
    for path in [] if is_json_printed(args) else files:
        print(one_line(str(path)))
    write_json_file(args, {"model": str(args.model), "inputs": network.inputs} | content)


def _refuse_unused(args: argparse.Namespace) -> None:
    """ValueError for options that have no effect with others."""
    if args.machine is not None:
        refuse(args, ["recipe", "block"], "with machine, which has its own formats")
        if args.scale_rule != "recommended":
            raise ValueError("scale-rule has no effect with machine, which has its own formats")
    elif args.accumulator is None:
        refuse(args, ["fresh"], "without machine or accumulator")
    if args.model == ENCODER:
        refuse(args, ["seed", "length"], f"with {ENCODER}, which reads its sentences")
    elif args.tokens is not None:
        refuse(args, ["seed", "length"], "with tokens of a file")
    elif args.text is not None:
        refuse(args, ["seed"], "with text of a file")
