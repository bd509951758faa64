"""`mxdot probe`: find out from results alone what a matrix unit computes."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..util.files import write_file
from .output import add_json_option, check_json_file, is_json_printed, json_file
from .places import different_files, output_file
from .refusals import refuse

if TYPE_CHECKING:
    from ..model import Accumulator
    from ..verify.probe import MatrixUnit

DEVICE = "cuda:"
MODEL_FORMATS = "e5m2"  # the widest products show the most


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "probe",
        help="find out from results alone what a matrix unit computes",
        description="Characterise a matrix unit as a black box and name the accumulator or preset "
        "that fits, or the rules that it breaks; see docs/probe.md.",
    )
    parser.add_argument(
        "--unit",
        required=True,
        metavar="U",
        help="an accumulator of the model (aligned:13, ...), one of `mxdot machines` (hopper, "
        "h100-fp8, ...), or a unit of this computer's GPU (cuda:fp8, ...; --unit cuda:list names "
        "them)",
    )
    parser.add_argument(
        "--format",
        metavar="F",
        help="element format or pair, such as e5m2xe4m3 (default: the unit's widest)",
    )
    parser.add_argument(
        "--lanes",
        type=int,
        help="block size of a unit of the model, a power of two from 4 to 128 (default: 32)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random data (default: 0)")
    parser.add_argument(
        "--rows",
        type=int,
        default=256,
        help="random dot products of each class and length (default: %(default)s)",
    )
    add_json_option(parser, "the report")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the report here")
    parser.set_defaults(run=run, needs="gpu")


def run(args: argparse.Namespace) -> int:
    """Print what was found; 0 when something of the model fits, 1 when nothing does."""
    from ..model.errors import integer
    from ..verify.probe import probe

    integer("seed", args.seed, 0)
    integer("rows", args.rows, 1, 10**6)
    if args.unit == f"{DEVICE}list":
        refuse(args, ["format", "lanes", "json", "output"], f"with {args.unit}")
        from ..gpu.hardware.black_boxes import UNITS

        print("\n".join(f"{name:20} {unit.summary}" for name, unit in UNITS.items()))
        return 0
    output_file("output", args.output)
    check_json_file(args)
    different_files(output=args.output, json=json_file(args))
    report = probe(_unit(args), args.seed, args.rows)
    as_json = json.dumps(report.as_json(), indent=1)
    text = as_json if is_json_printed(args) else "\n".join(report.lines())
    if args.output is not None:
        write_file(args.output, text + "\n")
    else:
        print(text)
    if args.json is not None and not is_json_printed(args):
        write_file(args.json, as_json + "\n")
    return 0 if report.fits else 1


def _unit(args: argparse.Namespace) -> "MatrixUnit":
    if args.unit.startswith(DEVICE):
        if args.lanes is not None:
            raise ValueError(f"lanes is for units of the model, not for {args.unit}")
        from ..gpu.hardware.black_boxes import cuda_unit

        return cuda_unit(args.unit, args.format)
    from ..model import accumulator
    from ..model.units.base import block_size
    from ..verify.probe import ModelUnit

    rule = accumulator(args.unit)
    formats = args.format or ("int8" if rule.takes_integers else _formats(rule))
    lanes = 32 if args.lanes is None else block_size("lanes", args.lanes)
    return ModelUnit(rule, formats, lanes)


def _formats(rule: "Accumulator") -> str:
    """Formats for a unit of the model; a machine that is no preset takes its own operands."""
    from ..model import PRESETS, Machine

    if not isinstance(rule, Machine) or str(rule) in PRESETS or MODEL_FORMATS in rule.operands:
        return MODEL_FORMATS
    return rule.operands[0]
