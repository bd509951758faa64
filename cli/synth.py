"""`mxdot synth`: what the hardware of any Verilog costs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import reason_of
from ..model.files import read_text
from ..synth import LARGEST_VERILOG, SYNTHESES
from .output import add_json_option, check_json_file, is_json_printed, write_json_file
from .places import output_directory
from .refusals import refuse
from .synthesis import add_synthesis_options, flows_of

if TYPE_CHECKING:
    from ..synth import Cost, Flow


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "synth",
        help="area, depth and timing of any Verilog",
        description="Synthesise one module of a Verilog file (.sv: SystemVerilog) by Yosys. "
        "docs/cost.md says what the numbers mean.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="Verilog with all modules")
    parser.add_argument("--top", required=True, metavar="NAME", help="module to synthesise")
    add_synthesis_options(
        parser,
        "gates: NAND2 equivalents and levels; cells: a Liberty library; xilinx: 7 series LUTs; "
        "ecp5: placed and routed (default: gates)",
        several=False,
    )
    parser.add_argument(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the module; may be repeated",
    )
    parser.add_argument(
        "--aim-ps",
        type=int,
        metavar="N",
        help="delay in ps that --effort aims at, whatever it reaches (cells)",
    )
    parser.add_argument("--no-dsp", action="store_true", help="no multiplier blocks (xilinx, ecp5)")
    parser.add_argument(
        "--sections",
        action=argparse.BooleanOptionalAction,
        help="area of each instance in the module (default: for gates and cells)",
    )
    parser.add_argument(
        "--timing",
        help="who times cells: own (mxdot), opensta, or abc, without flip-flops (default: own)",
    )
    parser.add_argument(
        "--no-adders",
        action="store_true",
        help="loose gates for adders, where the library has cells for them",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=1800.0,
        metavar="S",
        help="seconds for one run of a tool (default: %(default)s)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=SYNTHESES,
        metavar="DIR",
        help="where results are kept (default: %(default)s)",
    )
    add_json_option(parser, "the result")
    parser.add_argument(
        "--script", action="store_true", help="print the Yosys script, and synthesise nothing"
    )
    parser.set_defaults(run=run, needs="compare")


def run(args: argparse.Namespace) -> int:
    """Synthesise, or print the script."""
    from ..synth import measure, script

    if not args.limit > 0:
        raise ValueError(f"limit must be more than 0 seconds, not {args.limit:g}")
    flows = flows_of(
        args,
        "gates",
        effort=args.effort,
        target_levels=args.target_levels,
        target_ps=args.target_ps,
        aim_ps=args.aim_ps,
        wires=args.wires,
        dsp=not args.no_dsp,
        sections=args.sections,
        timing=args.timing,
        adders=not args.no_adders,
    )
    for flow in flows:
        _refuse_unused(args, flow)
    options = {
        "parameters": dict(_parameter(text) for text in args.parameter),
        "systemverilog": args.file.suffix == ".sv",
        "source": str(args.file),
    }
    text = _read(args.file)
    if args.script:
        refuse(args, ["json"], "with --script, which synthesises nothing")
        print("\n".join(script(text, args.top, flow, **options) for flow in flows), end="")
        return 0
    check_json_file(args)
    output_directory("cache", args.cache)
    costs = []
    for flow in flows:
        cost = measure(text, args.top, flow, cache_dir=args.cache, limit=args.limit, **options)
        costs.append(cost.to_dict())
        if not is_json_printed(args):
            print(describe(args.top, cost), flush=True)
    write_json_file(args, costs[0] if len(costs) == 1 else costs)
    return 0


def _refuse_unused(args: argparse.Namespace, flow: "Flow") -> None:
    """ValueError for options that the flow does not read."""
    why = f"on the flow {flow.kind}"
    if flow.kind != "cells":
        refuse(args, ["timing", "no-adders"], why)
    if flow.kind in ("gates", "cells"):
        refuse(args, ["no-dsp"], why)
    else:
        refuse(args, ["effort"], why)
    if flow.target_levels is not None or (flow.target_ps is not None and flow.kind == "cells"):
        refuse(args, ["effort"], "with a target")


def _read(path: Path) -> str:
    try:
        return read_text(path, LARGEST_VERILOG, errors="replace")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {reason_of(error)}") from None


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"parameter must be NAME=VALUE, not {text!r}")
    return name, value


def describe(top: str, cost: "Cost") -> str:
    """A Cost in words, for people."""
    from ..synth.wires import UTILISATION

    process = cost.extra.get("process")
    wires = cost.extra.get("wires")
    where = f" in {process}" if process else ""
    where += f" with wires ({wires})" if wires else ""
    lines = [f"{top}{where}: {cost.tool}, {cost.seconds:.1f} s"]
    area = f"{cost.area:,.1f} {cost.unit}"
    if cost.unit not in ("NAND2", "LUT4", "LUT6"):
        area += f" = {cost.nand2:,.1f} NAND2"
    lines.append(_row("area", area))
    if "sequential" in cost.extra:
        share = cost.extra["sequential"] / cost.area if cost.area else 0.0
        lines.append(_row("flip-flops", f"{cost.flipflops}, {share:.1%} of the area"))
    else:
        lines.append(_row("flip-flops", str(cost.flipflops)))
        blocks = [name for name in ("carry", "dsp", "block_ram", "lut_ram") if name in cost.extra]
        lines += [_row(name, str(cost.extra[name])) for name in blocks]
    if wires:
        lines.append(
            _row("core", f"{cost.extra['core_area']:,.1f} {cost.unit} at {UTILISATION:.0%}")
        )
        lines.append(_row("wires", f"{cost.extra['wire_um']:,.0f} um"))
    if cost.depth is not None:
        lines.append(_row("depth", f"{cost.depth} levels"))
    if cost.delay_ps is not None:
        clock = f", {cost.fmax_mhz:,.1f} MHz" if cost.fmax_mhz else ""
        lines.append(_row("delay", f"{cost.delay_ps:,.0f} ps{clock}"))
    total = sum(cost.stages.values())
    if len(cost.stages) > 1:
        lines.append(_row("sections", f"{total:,.1f} when kept apart"))
        for name, part in sorted(cost.stages.items(), key=lambda item: -item[1]):
            lines.append(_row(f"  {name}", f"{part:,.1f} ({part / (total or 1):.1%})"))
    return "\n".join(lines)


def _row(name: str, text: str) -> str:
    return f"  {name:<18} {text}"
