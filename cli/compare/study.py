"""Study that options describe: units, and data on which they are judged."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...model.units import DotConfig
from ..refusals import refuse
from ..unit_options import add_list, given

OPTIONS = DotConfig.options()
DEFAULT_FORMATS = "e4m3,e5m2,int8"
# Around the answers bit by bit, as in compare/studies/widths.toml, for any format.
DEFAULT_ACCUMULATORS = "exact,aligned:5..12,aligned:14,aligned:18..21,float32,hopper"


def add_unit_options(parser: argparse.ArgumentParser, *keywords: str) -> None:
    """Add these options of dot units as lists, or all when none is given; and a study file."""
    group = parser.add_argument_group("units, each a list or range, in every combination")
    for keyword in keywords or OPTIONS:
        add_list(group, OPTIONS[keyword])
    group.add_argument(
        "--study",
        type=Path,
        metavar="FILE",
        help="a study in TOML instead, or widths: more accumulators, without a clock",
    )


def add_accuracy_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the data that accuracy is measured on."""
    group = parser.add_argument_group("accuracy")
    group.add_argument(
        "--data", metavar="DATA,...", help="normal, outliers, real, FILE.npz#A,B, ...; or none"
    )
    group.add_argument(
        "--tensors",
        type=Path,
        metavar="FILE",
        help="data of .safetensors or .npz; .npy, times itself; or a checkpoint, also .gguf or a "
        "directory: its quantised weights, times normal activations",
    )
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


def study_of(args: argparse.Namespace) -> Any:
    """The study of the options: a file's or the default one, with what the options change."""
    from ...compare.studies.points import Sweep
    from ...compare.studies.study import BUILT_IN, DEFAULT, Study, load_study

    options = [option for option in OPTIONS.values() if hasattr(args, option.argument)]
    units = {OPTIONS[keyword].key: value for keyword, value in given(args, options).items()}
    if args.study is not None and units:
        flag = next(o.flag for o in options if o.key in units).removeprefix("--")
        raise ValueError(f"{flag} and study exclude each other: the study names its units")
    path: Path = args.study or DEFAULT
    study: Study = load_study(BUILT_IN.get(str(path), path))
    if units:
        formats = units.setdefault("format", DEFAULT_FORMATS)
        int32 = ",int32" if "int8" in formats.split(",") else ""
        units.setdefault("accumulator", DEFAULT_ACCUMULATORS + int32)
        study = Study("Comparison", (Sweep(units),), data=study.data, sampling=study.sampling)
    study = replace(study, sampling=_sampling(args, study))
    data = _data(args)
    if data == () and not study.sampling.encoder:
        refuse(args, ["lengths", "count", "seed"], "without data")
    return study if data is None else replace(study, data=data)


def _sampling(args: argparse.Namespace, study: Any) -> Any:
    from ...util.sweep import number_list

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
    from ...compare.studies.study import data_names
    from ...util.data.tensors import check_kind

    if args.name and args.tensors is None:
        raise ValueError("name needs a file of tensors: --tensors FILE")
    if len(args.name) > 2:
        raise ValueError(f"name must give one or two tensors, not {len(args.name)}")
    names = [] if args.data is None else data_names(args.data)
    if args.tensors is not None:
        check_kind(args.tensors)
        names.append("#".join([str(args.tensors), ",".join(args.name)]).rstrip("#"))
    return tuple(names) if args.data is not None or args.tensors is not None else None
