"""`mxdot compare --scheme`: schemes side by side, by error, bits and the area of their units."""

import argparse
from pathlib import Path
from typing import Any

from .terminal import console

REFUSED = (
    *("format", "lanes", "stages", "result", "micro", "scales", "zero_points"),
    *("no_status", "no_c", "study", "extra", "tensors", "name", "count", "find", "sqnr"),
    *("match", "quality", "sort"),
)
"""Options of `mxdot compare` that mean nothing for schemes."""
ROWS = 128  # of matrices of data; real ones have their own


def compare_schemes(args: argparse.Namespace) -> int:
    """Measure, print and write; 0 when every pairing was measured, 1 when not."""
    from ..explore.run.progress import display
    from ..explore.run.workers import dask, processes
    from ..explore.schemes import comparison
    from ..explore.schemes.comparison_outputs import show_comparison, write_comparison
    from ..model import accumulator

    for option in REFUSED:
        value = getattr(args, option)
        if not (value is None or value is False or value == []):
            raise ValueError(f"{option.replace('_', '-')} and scheme exclude each other")
    pairs = _pairs(args.scheme)
    rule = accumulator(args.accumulator or "aligned:13")
    flow = _flow(args)
    layers = _layers(args)
    backend = processes(args.jobs) if args.scheduler is None else dask(args.scheduler)
    screen = console(240)
    with display(screen) as observer:
        rows = comparison.compare_schemes(
            pairs,
            layers,
            flow,
            args.output,
            backend,
            observer,
            rule=rule,
            energy=not args.no_energy,
            cache_dir=Path("build/synth"),
        )
    show_comparison(screen, rows)
    for path in write_comparison(rows, args.output):
        screen.print(str(path), soft_wrap=True, highlight=False)
    return 1 if any(row.error for row in rows) else 0


def _pairs(text: str) -> list[Any]:
    from ..explore.schemes.pairing import pairing
    from ..model.schemes import SCHEMES

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError("scheme must name at least one scheme, not none")
    every = [name for item in names for name in (SCHEMES if item == "all" else [item])]
    return list(dict.fromkeys(pairing(name) for name in every))


def _flow(args: argparse.Namespace) -> Any:
    """The one flow."""
    from ..explore.compare.flows import Synthesis
    from ..explore.compare.study import number_list
    from .compare import synthesis_options

    options = synthesis_options(args)
    for name in ("target_ps", "target_levels"):
        if getattr(args, name) is not None:
            options[name] = number_list(getattr(args, name), name.replace("_", "-"))
    flows = Synthesis(**options).flows()
    if len(flows) > 1:
        raise ValueError(f"flow must be one, with one target, with scheme, not {len(flows)}")
    return flows[0]


def _layers(args: argparse.Namespace) -> Any:
    from ..explore.accuracy.sentences import SENTENCES
    from ..explore.compare.study import data_names, number_list
    from ..explore.schemes.comparison import Layers
    from ..explore.schemes.data import matrices
    from ..model.errors import integer

    seed = 1 if args.seed is None else args.seed
    sentences = integer("encoder", args.encoder or 0, 0, len(SENTENCES))
    if sentences:
        if args.data is not None or args.lengths is not None:
            option = "data" if args.data is not None else "lengths"
            raise ValueError(f"{option} and encoder exclude each other with scheme")
        return Layers(sentences, seed=seed)
    data = ("real",) if args.data is None else tuple(data_names(args.data))
    lengths = (1024,) if args.lengths is None else number_list(args.lengths, "lengths")
    if len(lengths) != 1:
        raise ValueError(f"lengths must be one length with scheme, not {len(lengths)}")
    matrices(data, rows=ROWS, length=lengths[0], seed=seed)  # refuses what cannot be drawn
    return Layers(0, data, ROWS, lengths[0], seed)
