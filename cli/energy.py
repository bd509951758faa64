"""`mxdot energy`: femtojoules of a product in a dot unit, and milliwatts of the unit."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import DotConfig
from ..synth import SYNTHESES
from ..util.files import write_file
from .output import (
    add_json_option,
    check_json_file,
    is_json_printed,
    json_file,
    write_json_file,
)
from .places import different_files, output_directory, output_file
from .synthesis import add_synthesis_options, flows_of
from .unit_options import add_options, unit_of

if TYPE_CHECKING:
    from ..synth import Energy, Flow


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "energy",
        help="femtojoules a product and milliwatts of a dot unit",
        description="Synthesise a dot unit and simulate it with the delays of its cells. "
        "docs/cost.md says what the numbers mean.",
        epilog="example: mxdot energy --format e4m3 --accumulator exact --lanes 32 --process asap7",
    )
    add_options(parser, DotConfig)
    add_synthesis_options(parser, "cells: a Liberty library (default)", several=False)
    parser.add_argument(
        "--clock-ps",
        type=float,
        metavar="PS",
        help="clock period (default: the unit's longest path)",
    )
    parser.add_argument(
        "--sections",
        action="store_true",
        help="the energy of each section too, by a second synthesis; with wires for --effort area "
        "without a target",
    )
    parser.add_argument(
        "--data", default="normal", help="data set or FILE.npz with tensors (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(default: %(default)s)")
    parser.add_argument(
        "--cache",
        type=Path,
        default=SYNTHESES,
        metavar="DIR",
        help="where results are kept (default: %(default)s)",
    )
    parser.add_argument(
        "--component",
        type=Path,
        metavar="FILE",
        help="write the unit as a component model of hwcomponents, a Python file",
    )
    add_json_option(parser, "the result")
    parser.set_defaults(run=run, needs="compare")


def run(args: argparse.Namespace) -> int:
    """Measure, print, and write the component; the exit status."""
    from ..hw.verilog import default_top, generate
    from ..synth import energy, measure
    from ..synth.asic import check_sections
    from ..synth.component import component

    config = unit_of(DotConfig, args)
    output_file("component", args.component)
    check_json_file(args)
    different_files(component=args.component, json=json_file(args))
    output_directory("cache", args.cache)
    flows = flows_of(
        args,
        "cells",
        effort=args.effort,
        target_levels=args.target_levels,
        target_ps=args.target_ps,
        wires=args.wires,
        sections=False,
    )
    if len(flows) > 1:
        raise ValueError(f"process must be one, not {args.process}")
    (flow,) = flows
    if args.clock_ps is not None:
        if flow.kind == "gates":
            raise ValueError("clock_ps is for the flow cells, and must be None for gates")
        if not 1 <= args.clock_ps < 1e9:
            raise ValueError(f"clock_ps must be from 1 to 1e9, not {args.clock_ps:g}")
    if args.component is not None and flow.kind != "cells":
        raise ValueError("a component needs a process or a library, not the flow gates")
    if args.sections:
        check_sections(flow, "speed" if flow.target_ps else flow.effort)
    result = energy(
        config,
        flow,
        cache_dir=args.cache,
        data=args.data,
        seed=args.seed,
        clock_ps=args.clock_ps,
        sections=args.sections,
    )
    if args.component is not None:
        top = default_top(config)
        cost = measure(generate(config, top), top, flow, cache_dir=args.cache)
        write_file(args.component, component(config, flow, cost, result))
    if not is_json_printed(args):
        print(describe(config, flow, result))
    write_json_file(args, result.to_dict())
    return 0


def describe(config: DotConfig, flow: "Flow", result: "Energy") -> str:
    """An Energy in words."""
    where = flow.process or flow.kind
    where += f" with wires ({result.wires})" if result.wires else ""
    made = f"{result.tool}, data {result.data}, {result.seconds:.1f} s"
    lines = [f"{config} in {where}: {made}"]
    error = f" +- {result.error:,.1f}" if result.error else ""
    lines.append(_row("energy", f"{result.per_product:,.1f}{error} {result.unit} a product"))
    lines += [_row(f"  {name}", f"{value:,.2f}") for name, value in result.parts.items()]
    if result.glitches is not None:
        share = result.glitches / result.per_product
        lines.append(_row("glitches", f"{result.glitches:,.1f} of it, {share:.0%}"))
    if not result.has_internal:
        lines.append(_row("internal", "not in it: the library has no internal power"))
    if result.clock_ps is not None and result.milliwatts is not None:
        clock = f"{result.clock_ps:,.1f} ps = {1e6 / result.clock_ps:,.1f} MHz"
        lines.append(_row("clock", clock))
        lines.append(_row("power", f"{result.milliwatts:,.3f} mW"))
        lines += [_row(f"  {name}", f"{value:,.3f} mW") for name, value in result.idle.items()]
        lines.append(_row("clock tree", f"{result.clock_buffers} buffers, estimated"))
    if result.sections:
        lines.append(_row("sections, kept apart", f"{sum(result.sections.values()):,.1f}"))
        lines += [_row(f"  {name}", f"{value:,.2f}") for name, value in result.sections.items()]
    return "\n".join(lines)


def _row(name: str, value: str) -> str:
    return f"  {name:26} {value}"
