"""`mxdot vectors`: write test vectors of one unit for other benches."""

import argparse
import shlex
from importlib.metadata import version
from pathlib import Path

from ..model.errors import one_line
from ..model.units import DotConfig
from .places import different_files, output_directory, output_file
from .unit_options import add_options, unit_of


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "vectors",
        help="write test vectors of one unit for other benches",
        description="Operands and the golden model's results and flags; see docs/vectors.md.",
    )
    add_options(parser, DotConfig)
    group = parser.add_argument_group("vectors")
    group.add_argument(
        "--count", type=int, default=1000, help="dot products (default: %(default)s)"
    )
    group.add_argument(
        "--blocks",
        type=int,
        default=8,
        help="the most blocks of a dot product; longer ones are cut (default: %(default)s)",
    )
    group.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    group.add_argument(
        "-o", "--output", "--out", dest="out", type=Path, metavar="FILE", help="write an npz file"
    )
    group.add_argument("--hex", type=Path, metavar="DIR", help="write files for $readmemh")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the npz file, the text files, or both; 0."""
    config = unit_of(DotConfig, args)
    if args.out is None and args.hex is None:
        raise ValueError("vectors needs -o FILE, --hex DIR or both")
    output_file("output", args.out)
    if args.hex is not None:
        output_directory("hex", args.hex)
    different_files(output=args.out, hex=args.hex)
    from ..sim.dot.vectors import check_hex, draw, evaluate, save, save_hex

    if args.hex is not None:
        check_hex(config)
    batches, order = draw(config, args.count, args.blocks, args.seed)
    origin = {"command": _command(config, args), "mxdot": version("mxdot")}
    vectors = evaluate([config], batches, order, origin)
    if args.out is not None:
        save(vectors, args.out)
    if args.hex is not None:
        save_hex(vectors, args.hex)
    places = " ".join(str(path) for path in (args.out, args.hex) if path is not None)
    print(
        f"{one_line(places)}: {len(vectors)} dot products, {len(vectors.scale_a)} blocks, {config}"
    )
    return 0


def _command(config: DotConfig, args: argparse.Namespace) -> str:
    """The options that decide the vectors: not where they go, nor the unit's registers."""
    names = ["formats", "accumulator", "lanes", "out"]
    names += ["scales", "scale_block"] * config.has_own_scales
    names += ["status"] * (not config.status) + ["load_c"] * (not config.load_c)
    words = ["mxdot", "vectors", *config.command_words(names)]
    words += [f"--{name}={getattr(args, name)}" for name in ("blocks", "count", "seed")]
    return shlex.join(words)
