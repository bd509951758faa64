"""Table and picture of the losses that train_lm.py wrote."""

import itertools
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, stdev
from typing import Any

RESULTS, TABLE, PICTURE = "losses.jsonl", "losses.md", "losses.svg"
BASE = "bfloat16"
HEADER = (
    "| variant | seeds | validation loss | minus bfloat16 | standard error | worst seed |\n"
    "|---|---|---|---|---|---|\n"
)
STEP_HEADER = (
    "| one step from bfloat16's weights | loss minus float32 | gradient error | mean gradient |\n"
    "|---|---|---|---|\n"
)
Runs = dict[str, dict[int, dict[str, Any]]]


def report(out: Path) -> str:
    """Write OUT/losses.md and, where vl-convert is, OUT/losses.svg; returns the tables."""
    sizes = load(out / RESULTS)
    parts = []
    for name, runs in sizes.items():
        heading = f"{name}\n\n" if len(sizes) > 1 else ""
        parts.append(heading + table(runs) + "\n" + step_table(runs))
    text = "\n".join(parts)
    (out / TABLE).write_text(text)
    if find_spec("vl_convert") is None:
        return text + "\nno picture, vl-convert is missing: pip install 'mxdot[nn]', then --report"
    picture(sizes, out / PICTURE)
    return text


def load(path: Path) -> dict[str, Runs]:
    """Runs by size, the smallest first, with the size's parameters in its name; ValueError where
    there are none.
    """
    if not path.exists():
        raise ValueError(f"out must hold {RESULTS}, not {path.parent}")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    sizes: dict[str, Runs] = {}
    for run in sorted(found, key=lambda run: run["parameters"]):
        name = f"{run['size']}, {run['parameters'] / 1e6:.1f} million parameters"
        sizes.setdefault(name, {}).setdefault(run["variant"], {})[run["seed"]] = run
    return sizes


def differences(runs: Runs, variant: str) -> list[float]:
    """Final validation loss minus that of bfloat16 with the same seed."""
    base = runs.get(BASE, {})
    return [
        run["final"] - base[seed]["final"] for seed, run in runs[variant].items() if seed in base
    ]


def table(runs: Runs) -> str:
    """Nats per byte, means over seeds, differences seed by seed; best variant first."""
    rows = []
    for variant in sorted(runs, key=lambda name: mean(r["final"] for r in runs[name].values())):
        finals, delta = [r["final"] for r in runs[variant].values()], differences(runs, variant)
        row = [variant, str(len(finals)), f"{mean(finals):.4f}"]
        if variant == BASE or not delta:
            row += ["", "", ""]
        else:
            error = f"{stdev(delta) / len(delta) ** 0.5:.4f}" if len(delta) > 1 else ""
            row += [f"{mean(delta):+.4f}", error, f"{max(delta):+.4f}"]
        rows.append("| " + " | ".join(row) + " |\n")
    return HEADER + "".join(rows)


def step_table(runs: Runs) -> str:
    """Errors of single steps, means over the seeds of bfloat16; least gradient error first."""
    measured = [run["steps"] for run in runs.get(BASE, {}).values()]
    means = {
        name: {key: mean(steps[name][key] for steps in measured) for key in measured[0][name]}
        for name in (measured[0] if measured else ())
    }
    rows = [
        f"| {name} | {e['loss']:+.5f} | {e['gradient']:.4f} | {e['mean_gradient']:.4f} |\n"
        for name, e in sorted(means.items(), key=lambda item: item[1]["gradient"])
    ]
    return STEP_HEADER + "".join(rows)


def picture(sizes: Mapping[str, Runs], path: Path) -> None:
    """Of each size the validation loss, and its difference to bfloat16 seed by seed, over the
    steps.

    Bands run from the least to the largest seed; the grey one is bfloat16 about its own mean.
    """
    from mxdot.util.charts import Entry, Picture, save
    from mxdot.util.charts.palette import LINE, MANY, SLATE

    names = list(dict.fromkeys(name for runs in sizes.values() for name in runs))
    others = (name for name in sorted(names) if name != BASE)
    colours = dict(zip(others, itertools.cycle(MANY), strict=False)) | {BASE: SLATE}
    panels = []
    for size, runs in sizes.items():
        panels += _panels(runs, colours, f" ({size.partition(',')[0]})" if len(sizes) > 1 else "")
    legend = [Entry(name, colours[name], LINE) for name in names]
    drawn = Picture(path.stem, "Validation loss", panels, legend=legend, height=300, columns=2)
    save(drawn, path.with_suffix(""), ["svg"])


def _panels(runs: Runs, colours: Mapping[str, str], size: str) -> list[dict[str, Any]]:
    """Losses, and differences."""
    from mxdot.util.charts.layers import axis, bands, lines, panel

    losses, less, ranges = [], [], []
    for variant, seeds in runs.items():
        look = {"colour": colours[variant], "line": variant}
        steps, values = _curves(seeds)
        means = [mean(v) for v in values]
        losses += [{"x": x, "y": y, **look} for x, y in zip(steps, means, strict=True)]
        if variant == BASE:
            values = [[x - m for x in v] for v, m in zip(values, means, strict=True)]
        elif BASE in runs:
            steps, values = _curves(seeds, runs[BASE])
        for x, v in zip(steps, values, strict=True):
            less.append({"x": x, "y": 0.0 if variant == BASE else mean(v), **look})
            ranges.append({"x": x, "y": min(v), "y2": max(v), **look})
    step, ys = axis("step"), [value["y"] for value in losses]
    loss = axis("validation loss (nats per byte)", log=10, domain=[min(ys) / 1.05, max(ys) * 1.05])
    minus = axis("minus bfloat16, same seed", symlog=0.01)
    return [
        panel(f"loss{size}", step, loss, lines(losses)),
        panel(f"difference{size}", step, minus, bands(ranges), lines(less)),
    ]


def _curves(
    seeds: dict[int, dict[str, Any]], base: dict[int, dict[str, Any]] | None = None
) -> tuple[list[int], list[list[float]]]:
    """Steps, and at each the losses of all seeds; less those of `base` where it is given."""
    chosen = [run for seed, run in seeds.items() if base is None or seed in base]
    steps = [step for step, _ in chosen[0]["validation"]] if chosen else []
    values = []
    for i in range(len(steps)):
        less = [0.0 if base is None else base[run["seed"]]["validation"][i][1] for run in chosen]
        values.append([run["validation"][i][1] - b for run, b in zip(chosen, less, strict=True)])
    return steps, values
