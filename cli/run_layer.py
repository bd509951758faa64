"""`mxdot run-layer`: a real linear layer through the simulated matrix unit."""

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.quantize import SCALE_RULES
from ..model.units import MatmulConfig
from ..util.files import write_file
from .output import add_json_file_option, check_json_file
from .refusals import refuse
from .terminal import console
from .unit_options import add_options, unit_of

if TYPE_CHECKING:
    from ..sim.matmul.layer import LayerRun, Progress

BUILD = Path("build/layer")
CLOCK = 500.0  # MHz
SENTENCES = 8


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "run-layer",
        help="stream a real linear layer through the simulated matrix unit",
        description="Quantise linear layers of a sentence encoder (extra `real`), or two tensors "
        "of a file, stream them through a matrix unit under Verilator, compare every result with "
        "the model's bits, and report cycles, utilisation and bytes; docs/matmul.md has results.",
    )
    add_options(parser, MatmulConfig)
    group = parser.add_argument_group("layer")
    group.add_argument(
        "--layer",
        action="append",
        metavar="NAME",
        help="a linear layer of the encoder, once or more (default: query and MLP of layer 3, "
        "384 x 384 and 384 x 1536)",
    )
    group.add_argument(
        "--sentences",
        type=int,
        help=f"real sentences whose tokens are the rows, of the encoder (default: {SENTENCES})",
    )
    group.add_argument(
        "--tensors",
        type=Path,
        metavar="FILE",
        help="activations and weight of a file, .safetensors, .npz or .npy, or a weight of a "
        "checkpoint, instead of the encoder",
    )
    group.add_argument(
        "--name", nargs=2, default=[], metavar="TENSOR", help="activations and weight in the file"
    )
    group.add_argument(
        "--shape",
        metavar="M,N,K",
        help="instead of a layer normal random numbers: (M, K) by (K, N), of --seed",
    )
    group.add_argument(
        "--scale-rule",
        metavar="R",
        help=f"of E8M0 scales: {', '.join(SCALE_RULES)} (default: {SCALE_RULES[0]}); "
        "E4M3 scales have amax",
    )
    group.add_argument("--mode", type=int, default=0, help="format pair (default: %(default)s)")
    group = parser.add_argument_group("simulation")
    group.add_argument(
        "--gap", type=int, default=0, help="chance in 256 that an operand is late (default: 0)"
    )
    group.add_argument(
        "--stall", type=int, default=0, help="chance in 256 that C is not taken (default: 0)"
    )
    group.add_argument("--seed", type=int, default=1, help="of all random numbers (default: 1)")
    group.add_argument(
        "--clock",
        type=float,
        default=CLOCK,
        metavar="MHZ",
        help="the clock of the projected time (default: %(default)s)",
    )
    add_json_file_option(group, "the figures")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the layers; 0 when every result and flag is the model's, 1 when not."""
    from ..model.errors import integer, one_line

    if not 0 < args.clock < 1e6:
        raise ValueError(f"clock must be above 0 and below 1000000 MHz, not {args.clock:g}")
    for name in ("gap", "stall"):
        integer(name, getattr(args, name), 0, 255)
    integer("seed", args.seed, 0, 2**31 - 1)
    check_json_file(args)
    config = unit_of(MatmulConfig, args)
    integer("mode", args.mode, 0, len(config.dot.formats) - 1)
    from ..sim.matmul.layer import build_for, run_layer, scale_rule_of
    from ..util.data.tensors import modes_taking

    scale_rule = scale_rule_of(config, args.scale_rule)
    layers = list(_layers(args))
    for _, activations, weight in layers:
        modes = modes_taking(config.dot, activations, weight)
        if args.mode not in modes:
            raise ValueError(f"mode must be one of {modes} for these tensors, not {args.mode}")

    screen = console(120)
    screen.print(f"unit: {config}", highlight=False)
    with screen.status("building the simulation"):
        build = build_for(config, BUILD / _directory(config))
    runs = []
    with layer_directory(BUILD / "runs") as directory:
        for name, activations, weight in layers:
            with _progress(screen, one_line(name)) as progress:
                layer = run_layer(
                    config,
                    build,
                    name,
                    activations,
                    weight,
                    directory,
                    mode=args.mode,
                    scale_rule=scale_rule,
                    gap=args.gap,
                    stall=args.stall,
                    seed=args.seed,
                    progress=progress,
                )
            runs.append(layer)
            for line in describe(layer, args.clock):
                screen.print(one_line(line), highlight=False)
    if args.json is not None:
        write_file(args.json, json.dumps([r.to_dict(args.clock) for r in runs], indent=1) + "\n")
    return int(not all(layer.right for layer in runs))


def _layers(args: argparse.Namespace) -> Iterator[tuple[str, Any, Any]]:
    """(name, activations, weight) of the layers that the options name."""
    given = [name for name in ("layer", "tensors", "shape") if getattr(args, name)]
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} are two things to multiply: give one of them")
    if args.name and args.tensors is None:
        raise ValueError("name needs a file of tensors: --tensors FILE")
    if given and given != ["layer"]:
        refuse(args, ["sentences"], f"with {given[0]}: it is for layers of the encoder")
    if args.tensors is not None:
        from ..util.data.tensors import load_tensors

        yield args.tensors.stem, *load_tensors(args.tensors, tuple(args.name))
    elif args.shape is not None:
        yield "random", *_random(args.shape, args.seed)
    else:
        yield from _encoder(args)


def _random(shape: str, seed: int) -> tuple[Any, Any]:
    """Normal random (M, K) and (N, K)."""
    import numpy as np

    sizes = shape.split(",")
    if len(sizes) != 3 or not all(size.isdecimal() and 0 < int(size) <= 65536 for size in sizes):
        raise ValueError(f"shape must be M,N,K, each from 1 to 65536, not {shape!r}")
    m, n, k = map(int, sizes)
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, k), np.float32), rng.standard_normal((n, k), np.float32)


def _encoder(args: argparse.Namespace) -> Iterator[tuple[str, Any, Any]]:
    """Layers of the sentence encoder."""
    from ..model.errors import integer
    from ..util.data.encoder import MLP_UP, QUERY, linear_layers
    from ..util.data.sentences import SENTENCES as ALL

    count = SENTENCES if args.sentences is None else args.sentences
    integer("sentences", count, 1, len(ALL))
    for layer in linear_layers(args.layer or (QUERY, MLP_UP), ALL[:count]):
        yield layer.name, layer.activations, layer.weight


def describe(layer: "LayerRun", clock: float) -> Iterable[str]:
    """The figures of a layer, a line at a time."""
    seconds = layer.seconds_at(clock)
    verdict = "every bit is the model's" if not layer.wrong else f"{layer.wrong:,} are WRONG"
    if layer.flags != layer.model_flags:
        verdict += f", FLAGS are {layer.flags:05b}, the model's {layer.model_flags:05b}"
    yield (
        f"{layer.name}: {layer.tokens} x {layer.length} by {layer.length} x {layer.outputs}, "
        f"{layer.results:,} results: {verdict}"
    )
    yield (
        f"  {layer.cycles:,} cycles, {layer.counters['STEPS']:,} steps: {layer.utilisation:.2%} of "
        f"the cycles, {layer.useful:.2%} of all products that the unit could do"
    )
    lost = {k: v for k, v in layer.counters.items() if k.startswith(("WAIT", "TAIL"))}
    yield "  without a step: " + ", ".join(f"{name} {count:,}" for name, count in lost.items())
    moved = [
        f"{side.upper()} {count:,} ({count / seconds / 1e9:.2f} GB/s)"
        for side, count in layer.bytes_moved.items()
    ]
    yield f"  bytes: {', '.join(moved)}"
    yield (
        f"  at {clock:g} MHz: {seconds * 1e6:,.1f} us, "
        f"{layer.products / seconds / 1e9:,.1f} G products/s"
    )
    yield (
        f"  simulated in {layer.simulation_seconds:.1f} s, the model took "
        f"{layer.model_seconds:.1f} s"
    )


@contextmanager
def layer_directory(parent: Path) -> Iterator[Path]:
    """A run's own directory; it stays after a simulation that failed, whose error names it."""
    from ..sim.engine.verilator import SimulationError
    from ..util.runs import own_directory

    with own_directory(parent) as directory:
        try:
            yield directory
        except SimulationError as error:
            what, *log = str(error).splitlines()
            raise SimulationError("\n".join([f"{what} (files: {directory})", *log])) from None
        except BaseException:
            shutil.rmtree(directory)
            raise
        shutil.rmtree(directory)


@contextmanager
def _progress(screen: Any, name: str) -> Iterator["Progress"]:
    """How much of C has come, shown while it comes; a line now and then without a terminal."""
    from rich.markup import escape
    from rich.progress import Progress as Bar

    if not sys.stdout.isatty():
        shown = [0]

        def say(done: int, total: int) -> None:
            tenth = 10 * done // total
            if tenth > shown[0] and done < total:
                shown[0] = tenth
                print(f"{name}: {tenth * 10}% of C", flush=True)

        yield say
        return
    with Bar(console=screen, transient=True) as bar:
        task = bar.add_task(escape(name), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _directory(config: Any) -> str:
    from ..sim.engine.regression_units import file_name

    return file_name(config.name)
