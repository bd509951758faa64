"""`mxdot compare`: what accumulators cost and what they do to the result, side by side."""

import argparse
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..model.accumulators import KINDS, PRESETS
from ..model.formats import FORMATS
from .terminal import console

SWITCHES = ("no_status", "no_c", "micro")
SWEEP = ("format", "accumulator", "lanes", "stages", "result", "scales", "zero_points")
DEFAULT_FORMATS = "e4m3,e5m2,int8"
# Around the answers bit by bit, as in explore/compare/default.toml, for any format.
DEFAULT_ACCUMULATORS = "exact,aligned:5..12,aligned:14,aligned:18..21,float32,hopper"
DEFAULT_SORT = "area"
OUTPUT = Path("build/compare")


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "compare",
        help="compare what accumulators cost and what they do to the result",
        description="Synthesise units and evaluate their accuracy: a table here; files, plots and "
        "a report in the output directory. Without options, the default study. Sweeps are texts "
        "such as exact,aligned:6..25/2,fixed:24..48/8:-12; see docs/compare.md.",
    )
    _unit_options(parser.add_argument_group("units, each a list or range, in every combination"))
    _scheme_options(parser.add_argument_group("block-scaling schemes instead of units"))
    _cost_options(parser.add_argument_group("cost"))
    _accuracy_options(parser.add_argument_group("accuracy"))
    _search_options(parser.add_argument_group("narrowest accumulator"))
    _run_options(parser.add_argument_group("run"))
    parser.set_defaults(run=run, needs="explore")


def _unit_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--format", metavar="F,...", help=f"{', '.join(FORMATS)}, pairs as e5m2xe4m3"
    )
    group.add_argument(
        "--accumulator",
        metavar="A,...",
        help=", ".join([*(k.syntax for k in KINDS.values()), *PRESETS]),
    )
    group.add_argument("--lanes", metavar="N,...", help="block sizes, 4 to 128 (default: 32)")
    group.add_argument("--stages", metavar="N,...", help="registers (default: 4)")
    group.add_argument(
        "--result", metavar="FORMAT,...", help="float32, bfloat16, float16; int8_full:shift, ..."
    )
    group.add_argument(
        "--micro", action="store_true", help="a micro-exponent for every two elements"
    )
    group.add_argument("--scales", metavar="FORMAT,...", help="of integer results: none, u2 to u8")
    group.add_argument("--zero-points", metavar="OPERANDS,...", help="none, a, b, ab")
    group.add_argument("--no-status", action="store_true", help="leave the flag outputs out")
    group.add_argument("--no-c", action="store_true", help="leave the input in_c out")
    group.add_argument("--study", type=Path, metavar="FILE", help="a study in TOML instead")
    group.add_argument(
        "--extra", type=Path, metavar="FILE", help="add units in other Verilog, described in TOML"
    )


def _scheme_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--scheme",
        metavar="S,...",
        help="schemes of mxdot schemes (or all), or weights/activations: error on layers of the "
        "encoder (--encoder), or else of --data, bits, and the area of the matching unit; "
        "activations may be bfloat16",
    )


def _cost_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--flow",
        metavar="FLOW,...",
        help="gates, cells, xilinx, xilinx-dsp, ecp5, ecp5-dsp, or none (default: gates)",
    )
    group.add_argument(
        "--process",
        metavar="P,...",
        help="sky130, ihp (130 nm), asap7 (7 nm), gt2n (2 nm), gates: built in, beside or instead "
        "of --flow",
    )
    group.add_argument(
        "--liberty",
        type=Path,
        action="extend",
        nargs="+",
        metavar="FILE",
        help="cell library of flow cells, in one file or several",
    )
    group.add_argument("--effort", help="speed or area, where there is no target (default: speed)")
    group.add_argument(
        "--target-ps", metavar="N,...", help="delay targets of cells and ecp5, in ps"
    )
    group.add_argument("--no-energy", action="store_true", help="leave the energy proxy out")
    group.add_argument("--target-levels", metavar="N,...", help="depth targets of gates")


def _accuracy_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--data", metavar="DATA,...", help="normal, outliers, real, FILE.npz#A,B, ...; or none"
    )
    group.add_argument("--tensors", type=Path, metavar="FILE", help="data of .npz or .safetensors")
    group.add_argument(
        "--name", nargs="+", default=[], metavar="TENSOR", help="one or two tensors of that file"
    )
    group.add_argument("--lengths", metavar="N,...", help="of dot products (default: 32,512,4096)")
    group.add_argument("--count", type=int, help="dot products of each length (default: 256)")
    group.add_argument("--seed", type=int, help="of the data (default: 1)")
    group.add_argument(
        "--encoder",
        type=int,
        metavar="N",
        help="sentences, 1 to 40, through a real encoder with the accumulator in every linear "
        "layer (default: 0, none; needs mxdot[real])",
    )


def _search_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--find", choices=("narrowest",), help="search the smallest F and W:L that meet a target"
    )
    group.add_argument("--sqnr", type=float, metavar="DB", help="the target, in dB")
    group.add_argument("--match", metavar="A", help="the target: as good as this accumulator")
    group.add_argument(
        "--quality", help="which SQNR counts: accumulator (default), or total, with the format"
    )


def _run_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-o", "--output", type=Path, default=OUTPUT, metavar="DIR", help="default: %(default)s"
    )
    group.add_argument("--sort", help="area (default), delay, sqnr or total")
    group.add_argument("--jobs", type=int, help="points at a time (default: all cores)")
    group.add_argument("--scheduler", metavar="ADDRESS", help="run on this Dask cluster")


def run(args: argparse.Namespace) -> int:
    """Compare or search; 0 when every point was measured and within its bounds, 1 when not."""
    if args.jobs is not None and not 1 <= args.jobs <= 1024:
        raise ValueError(f"jobs must be from 1 to 1024, not {args.jobs}")
    from .compare_schemes import compare_schemes

    _check_output(args.output)
    try:
        with _terminate_as_interrupt():
            return _compare_units(args) if args.scheme is None else compare_schemes(args)
    except KeyboardInterrupt:
        console(200).print(f"interrupted; results are kept in {args.output}, run it again to go on")
        return 130


def _compare_units(args: argparse.Namespace) -> int:
    """Compare or search units."""
    from ..explore.compare import Target
    from ..explore.compare.table import check_sort
    from ..explore.run.workers import dask, processes

    check_sort(args.sort or DEFAULT_SORT)
    target = None
    if args.find is not None:
        target = Target(args.sqnr, args.match, args.quality or "accumulator")
    elif (args.sqnr, args.match, args.quality) != (None, None, None):
        raise ValueError("sqnr, match and quality are targets of --find narrowest")
    study = _study(args)
    if target is None:
        study.points()  # refuses what cannot be done before a cluster is asked
    backend = processes(args.jobs) if args.scheduler is None else dask(args.scheduler)
    command = _compare if target is None else _search
    return command(args, study, backend, console(200), target)


def _compare(args: Any, study: Any, backend: Any, screen: Any, _: Any) -> int:
    from ..explore.compare import compare, write
    from ..explore.compare.table import show
    from ..explore.run.progress import display

    with display(screen) as observer:
        comparison = compare(study, args.output, backend, observer, cache_dir=_cache())
    show(screen, comparison, args.sort or DEFAULT_SORT)
    files = write(comparison, args.output)
    screen.print(f"report: {files.report}; tables and plots: {args.output}/", soft_wrap=True)
    return 1 if comparison.failed else 0


def _search(args: Any, study: Any, backend: Any, screen: Any, target: Any) -> int:
    from ..explore.compare import search
    from ..explore.compare.table import show_found
    from ..explore.run.progress import display

    with display(screen) as observer:
        found = search(study, target, args.output, backend, observer)
    show_found(screen, found)
    return 1 if any(result.error for result in found) else 0


def _check_output(directory: Path) -> None:
    """ValueError unless `directory` can be written, or made where it is to be."""
    place = next(p for p in (directory, *directory.absolute().parents) if p.exists())
    if not (place.is_dir() and os.access(place, os.W_OK)):
        raise ValueError(f"output must be a directory that can be written, not {directory}")


def _cache() -> Path:
    """Where all syntheses keep their results."""
    return Path("build/synth")


def _study(args: argparse.Namespace) -> Any:
    """The study of the options: a file's or the default one, with what the options change."""
    from ..explore.compare.extra import load_extra
    from ..explore.compare.points import Sweep
    from ..explore.compare.study import DEFAULT, Study, load_study

    given = {name: getattr(args, name) for name in SWEEP if getattr(args, name) is not None}
    switches = args.no_status or args.no_c or args.micro
    if args.study is not None and (given or switches):
        option = next(name for name in (*given, *SWITCHES) if name in given or getattr(args, name))
        option = option.replace("_", "-")
        raise ValueError(f"{option} and study exclude each other: the study names its units")
    study: Study = load_study(args.study or DEFAULT)
    if given or switches:
        formats = given.setdefault("format", DEFAULT_FORMATS)
        int32 = ",int32" if "int8" in formats.split(",") else ""
        given.setdefault("accumulator", DEFAULT_ACCUMULATORS + int32)
        sweep = Sweep(**given, status=not args.no_status, load_c=not args.no_c, micro=args.micro)
        study = replace(study, title="Comparison", sweeps=(sweep,))
    if args.extra is not None:
        study = replace(study, extra=(*study.extra, *load_extra(args.extra)))
    study = replace(study, synthesis=_synthesis(args, study), sampling=_sampling(args, study))
    data = _data(args)
    return study if data is None else replace(study, data=data)


def _synthesis(args: argparse.Namespace, study: Any) -> Any:
    from ..explore.compare.study import number_list

    changes = synthesis_options(args)
    if args.no_energy:
        changes["energy"] = False
    for name in ("target_ps", "target_levels"):
        text = getattr(args, name)
        if text is not None:
            changes[name] = number_list(text, name.replace("_", "-"))
    return replace(study.synthesis, **changes)


def synthesis_options(args: argparse.Namespace) -> dict[str, Any]:
    """What the options say of a `Synthesis`."""
    from ..explore.compare.flows import with_processes

    given = {
        "flow": with_processes(args.flow, args.process),
        "liberty": None if args.liberty is None else tuple(args.liberty),
        "effort": args.effort,
    }
    return {name: value for name, value in given.items() if value is not None}


def _sampling(args: argparse.Namespace, study: Any) -> Any:
    from ..explore.compare.study import number_list

    changes = {
        name: getattr(args, name)
        for name in ("count", "seed", "encoder")
        if getattr(args, name) is not None
    }
    if args.lengths is not None:
        changes["lengths"] = number_list(args.lengths, "lengths")
    return replace(study.sampling, **changes)


def _data(args: argparse.Namespace) -> tuple[str, ...] | None:
    """The data sets that the options name; None when they name none."""
    from ..explore.compare.study import data_names

    if args.name and args.tensors is None:
        raise ValueError("name needs a file of tensors: --tensors FILE")
    if len(args.name) > 2:
        raise ValueError(f"name must give one or two tensors, not {len(args.name)}")
    names = [] if args.data is None else data_names(args.data)
    if args.tensors is not None:
        names.append("#".join([str(args.tensors), ",".join(args.name)]).rstrip("#"))
    return tuple(names) if args.data is not None or args.tensors is not None else None


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM keeps what is done, as Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
