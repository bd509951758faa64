"""Options that several subcommands share, and the output of files."""

import argparse
import os
import tempfile
from pathlib import Path

from ..model.accumulators import KINDS, PRESETS
from ..model.config import DotConfig
from ..model.formats import FORMATS


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Options that describe one unit; defaults are those of `DotConfig`."""
    group = parser.add_argument_group("unit")
    group.add_argument(
        "--format",
        default="e4m3",
        metavar="F[,F...]",
        help=f"element formats: {', '.join(FORMATS)}, pairs such as e5m2xe4m3, or a list that the "
        "mode input selects from (default: %(default)s)",
    )
    group.add_argument(
        "--accumulator",
        default="aligned:13",
        metavar="A",
        help=f"{', '.join(kind.syntax for kind in KINDS.values())}, or a preset: "
        f"{', '.join(PRESETS)} (default: %(default)s)",
    )
    group.add_argument(
        "--lanes", type=int, default=32, help="block size, 4 to 128 (default: %(default)s)"
    )
    group.add_argument(
        "--stages", type=int, help="registers, and so latency (default: 4 or the nearest possible)"
    )
    group.add_argument(
        "--result",
        default="float32",
        metavar="FORMAT",
        help="float32, bfloat16, float16; of int32 sums int32, or an integer format requantised by "
        "a multiplier and a shift or by a shift: int8_full:multiply, int8_full:shift, and so on "
        "for int8_symmetric, uint8, int4_full, int4_symmetric (default: %(default)s)",
    )
    group.add_argument(
        "--scales",
        metavar="FORMAT",
        help="scales of blocks; e8m0, and for integer results none or u2 to u8 (default: e8m0, "
        "or none for integer results)",
    )
    group.add_argument(
        "--zero-points",
        default="none",
        metavar="OPERANDS",
        help="operands with a zero point, for integer results: a, b, ab (default: %(default)s)",
    )
    group.add_argument(
        "--micro", action="store_true", help="a micro-exponent for every two elements"
    )
    group.add_argument("--no-status", action="store_true", help="leave the flag outputs out")
    group.add_argument("--no-c", action="store_true", help="leave the input in_c out")


def config_of(args: argparse.Namespace) -> DotConfig:
    """The DotConfig of the options of `add_config_options`."""
    return DotConfig(
        formats=args.format,
        lanes=args.lanes,
        accumulator=args.accumulator,
        stages=args.stages,
        out=args.result,
        status=not args.no_status,
        load_c=not args.no_c,
        scales=args.scales,
        zero_points=args.zero_points,
        micro=args.micro,
    )


def write_text(path: Path, text: str) -> None:
    """Write `text` beside `path` and rename: the file is whole or is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
