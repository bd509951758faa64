"""`mxdot array`: area of matrix units against the size of the array, what fits, the roofline."""

import argparse
import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..sim.engine.files import write_file
from .options import given
from .units import KINDS

if TYPE_CHECKING:
    from ..explore.matmul.area import ArrayCost
    from ..model.matmul_config import MatmulConfig

UNIT = KINDS["matmul"]
# Streams are as wide as a step: those of an array of another size would be no option's.
OPTIONS = tuple(option for option in UNIT.options if not option.flag.endswith("-bytes"))
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
        option.add(group)
    group = parser.add_argument_group("study")
    group.add_argument(
        "--sizes", default=SIZES, metavar="RxC,...", help="arrays to measure (default: %(default)s)"
    )
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
        "--cache", type=Path, default=Path("build/synth"), metavar="DIR", help="of syntheses"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=OUTPUT, metavar="DIR", help="default: %(default)s"
    )
    parser.set_defaults(run=run, needs="explore")


def run(args: argparse.Namespace) -> int:
    """Measure, print and write; 0."""
    config = UNIT.config(**given(args, OPTIONS))
    if args.place and not args.fit:
        raise ValueError("place needs --fit: it is for the array that fits")
    sizes = [_numbers("sizes", text, "x", 2) for text in args.sizes.split(",")]
    return _fit(config, args) if args.fit else _sizes(config, sizes, args)


def _numbers(name: str, text: str, separator: str, count: int) -> tuple[int, ...]:
    parts = text.strip().split(separator)
    if len(parts) != count or not all(part.strip().isdecimal() for part in parts):
        form = separator.join("N" * count)
        raise ValueError(f"{name} must be numbers like {form}, not {text.strip()!r}")
    return tuple(map(int, parts))


def _sizes(config: "MatmulConfig", sizes: list[tuple[int, ...]], args: argparse.Namespace) -> int:
    from ..explore.cost import Flow
    from ..explore.matmul.area import AreaModel, measure_array, resized
    from ..explore.matmul.plots import area_figure, roofline_figure
    from ..explore.matmul.roofline import BANDWIDTHS, SHAPES, Job
    from ..explore.schemes.plots import save_svg

    shapes = SHAPES
    if args.shape:
        found = (_numbers("shape", text, ",", 3) for text in args.shape)
        shapes = tuple((m, n, k) for m, n, k in found)
    for shape in shapes:
        Job.of(config, shape)  # refused before any synthesis
    configs = [resized(config, *size) for size in sizes]
    costs = []
    for each in configs:
        print(f"{each.rows} x {each.columns} ...", flush=True)
        costs.append(measure_array(each, Flow("gates", sections=False), args.cache))
    model = AreaModel.of(costs)
    rows = [_row(cost) for cost in costs]
    rows += [
        {"array": f"{side} x {side}", "total": round(model.area(side, side))}
        for side in LARGER
        if (side, side) not in sizes
    ]
    _print(rows)
    print(
        f"all but dot units: {model.once:.0f} {model.per_row:+.0f} rows {model.per_column:+.0f} "
        f"columns {model.per_unit:+.0f} for each dot unit; off by at most {model.error:.2%} of a "
        "measured total. Sizes without parts are the model's."
    )
    title = f"{config.dot}"
    name = f"{config.rows} x {config.columns} of {config.dot}"
    files = [
        _json(args.output / "arrays.json", {"unit": title, "arrays": rows, "model": vars(model)}),
        _csv(args.output / "arrays.csv", rows),
        save_svg(area_figure(costs, model, title), args.output / "area.svg"),
        save_svg(
            roofline_figure([(name, config)], shapes, BANDWIDTHS, "Roofline"),
            args.output / "roofline.svg",
        ),
    ]
    for path in files:
        print(path)
    return 0


def _row(cost: "ArrayCost") -> dict[str, Any]:
    return {
        "array": f"{cost.config.rows} x {cost.config.columns}",
        "dot units": round(cost.units * cost.unit.area),
        "rest": round(cost.rest.area),
        "total": round(cost.area),
        "levels": cost.depth,
        "memory bits": cost.memory_bits,
        "products/cycle": cost.products,
    }


def _fit(config: "MatmulConfig", args: argparse.Namespace) -> int:
    from ..explore.matmul.fit import DEVICE, fit

    found = fit(
        config,
        args.cache,
        place=args.place,
        progress=lambda what: print(f"{what} ...", flush=True),
    )
    row = {
        "unit": str(found.cost.config.dot),
        "array": f"{found.cost.config.rows} x {found.cost.config.columns}",
        "LUTs": round(found.luts),
        "products/cycle": found.cost.products,
        "MHz": None if found.placed is None else found.placed.fmax_mhz,
        "products/s": found.products_per_second,
    }
    _print([row])
    print(_json(args.output / f"fit-ecp5-{DEVICE}.json", row))
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
        return f"{value:.3g}" if value > 1e6 else f"{value:,.0f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _json(path: Path, content: dict[str, Any]) -> Path:
    write_file(path, json.dumps(content, indent=1) + "\n")
    return path


def _csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_file(path, text.getvalue())
    return path
