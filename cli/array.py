"""`mxdot array`: area of matrix units against the size of the array, what fits, the roofline."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.errors import one_line
from ..model.units import MatmulConfig
from ..synth import SYNTHESES
from .places import output_directory
from .refusals import refuse
from .unit_options import add_option, given

if TYPE_CHECKING:
    from ..synth import Flow
    from ..synth.arrays import ArrayCost

# Streams are as wide as a step: other widths would not fit arrays of other sizes.
OPTIONS = [o for o in MatmulConfig.options().values() if not o.flag.endswith("-bytes")]
OUTPUT = Path("build/array")
SIZES = "1x1,2x2,2x4,4x2,4x4,8x8"
LARGER = (16, 32, 64)  # sides of squares that the model gives


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "array",
        help="area of a matrix unit against its array, and its roofline",
        description="Synthesise matrix units part by part, one dot unit and all around them, fit "
        "a model to the sizes and extrapolate it; or find the largest array that fits an ECP5-85k. "
        "Writes a table, JSON and plots; docs/matmul.md has results.",
    )
    group = parser.add_argument_group("unit (--rows and --columns are those of the roofline)")
    for option in OPTIONS:
        add_option(group, option)
    group = parser.add_argument_group("study")
    group.add_argument("--sizes", metavar="RxC,...", help=f"arrays to measure (default: {SIZES})")
    group.add_argument(
        "--fit", action="store_true", help="instead, the largest array on an ECP5-85k"
    )
    group.add_argument(
        "--place",
        action="store_true",
        help="with --fit, the largest of up to 55%% of the LUTs, placed and routed (an hour)",
    )
    group.add_argument(
        "--shape",
        action="append",
        metavar="M,N,K",
        help="a product on the roofline, once or more (default: layers of an encoder, 1024^3)",
    )
    group.add_argument(
        "--process",
        metavar="P,...",
        help="sky130, ihp (130 nm), asap7 (7 nm), gt2n (2 nm), gates (default: gates)",
    )
    group.add_argument("--cache", type=Path, default=SYNTHESES, metavar="DIR", help="of syntheses")
    parser.add_argument(
        "-o", "--output", type=Path, default=OUTPUT, metavar="DIR", help="default: %(default)s"
    )
    parser.set_defaults(run=run, needs="compare")


def run(args: argparse.Namespace) -> int:
    """Measure, print and write; 0."""
    config = MatmulConfig.of_options(**given(args, OPTIONS))
    output_directory("output", args.output)
    if args.place and not args.fit:
        raise ValueError("place needs --fit: it is for the array that fits")
    if args.process is not None and args.fit:
        raise ValueError("process and fit exclude each other: fit is for an ECP5-85k")
    if args.fit:
        refuse(args, ["sizes", "shape", "rows", "columns"], "with --fit, which finds the array")
    text = SIZES if args.sizes is None else args.sizes
    sizes = [_numbers("sizes", size, "x", 2) for size in text.split(",")]
    return _fit(config, args) if args.fit else _sizes(config, sizes, args)


def _numbers(name: str, text: str, separator: str, count: int) -> tuple[int, ...]:
    parts = text.strip().split(separator)
    if len(parts) != count or not all(part.strip().isdecimal() for part in parts):
        form = separator.join("N" * count)
        raise ValueError(f"{name} must be numbers like {form}, not {text.strip()!r}")
    return tuple(map(int, parts))


def _sizes(config: MatmulConfig, sizes: list[tuple[int, ...]], args: argparse.Namespace) -> int:
    from ..synth import Flow
    from ..synth.arrays import resized
    from ..synth.roofline import BANDWIDTHS, SHAPES, Job, roofline
    from ..util.charts import save
    from ..util.charts.palette import BLUE
    from ..util.sweep import items

    processes = items(args.process or "gates", "process")
    flows = {name: Flow.of_process(name, sections=False) for name in processes}
    shapes = SHAPES
    if args.shape:
        found = (_numbers("shape", text, ",", 3) for text in args.shape)
        shapes = tuple((m, n, k) for m, n, k in found)
    for shape in shapes:
        Job.of(config, shape)  # refused before any synthesis
    configs = [resized(config, *size) for size in sizes]
    files = []
    for name, flow in flows.items():
        files += _measured(configs, name if len(flows) > 1 else "", flow, args)
    name = f"{config.rows} x {config.columns} of {config.dot}"
    picture = roofline([(name, config, BLUE)], shapes, BANDWIDTHS, "Roofline")
    for path in [*files, *save(picture, args.output / "roofline", ["svg"])]:
        print(one_line(str(path)))
    return 0


def _measured(
    configs: list[MatmulConfig], name: str, flow: "Flow", args: argparse.Namespace
) -> list[Path]:
    """Measure, print and write the arrays in one process; `name` tells its files from others."""
    from ..synth.arrays import AreaModel, measure_array
    from ..synth.roofline import area
    from ..util.charts import save
    from ..util.tables import lines, write_csv, write_json

    costs = []
    for each in configs:
        print(f"{f'{name}: ' if name else ''}{each.rows} x {each.columns} ...", flush=True)
        costs.append(measure_array(each, flow, args.cache))
    model = AreaModel.of(costs)
    sizes = [(each.rows, each.columns) for each in configs]
    rows = [_row(cost) for cost in costs]
    rows += [
        {"array": f"{side} x {side}", "total": _area(model.area(side, side), costs[0])}
        for side in LARGER
        if (side, side) not in sizes
    ]
    _print(rows)
    unit = costs[0].unit.unit
    print(
        f"all but dot units, in {unit}: {model.once:.0f} {model.per_row:+.0f} rows "
        f"{model.per_column:+.0f} columns {model.per_unit:+.0f} for each dot unit; off by at most "
        f"{model.error:.2%} of a measured total. Sizes without parts are the model's."
    )
    title = f"{configs[0].dot}{f', {flow.process}' if flow.process else ''}"
    end = f"-{name}" if name else ""
    content = {"unit": title, "process": flow.process or "gates", "area": unit, "arrays": rows}
    return [
        write_json(args.output / f"arrays{end}.json", content | {"model": vars(model)}),
        write_csv(args.output / f"arrays{end}.csv", lines(list(rows[0]), rows)),
        *save(area(costs, model, title), args.output / f"area{end}", ["svg"]),
    ]


def _area(value: float, cost: "ArrayCost") -> float:
    """Whole gates, or three digits of a square micrometre."""
    return round(value) if cost.unit.unit == "NAND2" else round(value, 3)


def _row(cost: "ArrayCost") -> dict[str, Any]:
    return {
        "array": f"{cost.config.rows} x {cost.config.columns}",
        "dot units": _area(cost.units * cost.unit.area, cost),
        "rest": _area(cost.rest.area, cost),
        "total": _area(cost.area, cost),
        "levels": cost.depth,
        **({} if cost.delay_ps is None else {"ps": round(cost.delay_ps)}),
        "memory bits": cost.memory_bits,
        "products/cycle": cost.products,
    }


def _fit(config: MatmulConfig, args: argparse.Namespace) -> int:
    from ..synth.arrays import DEVICE, fit
    from ..util.tables import write_json

    found = fit(
        config, args.cache, place=args.place, progress=lambda what: print(f"{what} ...", flush=True)
    )
    row = {
        "unit": str(found.cost.config.dot),
        "array": f"{found.cost.config.rows} x {found.cost.config.columns}",
        "LUTs": round(found.luts),
        "multipliers": found.cost.multipliers,
        "products/cycle": found.cost.products,
        "MHz": None if found.placed is None else found.placed.fmax_mhz,
        "products/s": found.products_per_second,
    }
    _print([row])
    path = write_json(args.output / f"fit-ecp5-{DEVICE}.json", row)
    print(one_line(str(path)))
    return 0


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in rows[0]))
    Console(width=160).print(table)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if value > 1e8 else f"{value:,.0f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
