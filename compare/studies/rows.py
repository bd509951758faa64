"""Rows: everything known of each point, and the schema of its files."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...util.store import Outcome

_CHOSEN = re.compile(r" (interleave|delays) \S+")
"""Options that a search at a clock chooses."""
MISSED = "target missed"
"""Status of a row whose unit does not meet its target."""


def _about(doc: str, unit: str = "") -> dict[str, str]:
    return {"doc": doc, "unit": unit}


def _column(doc: str, unit: str = "", **default: Any) -> Any:
    return field(metadata=_about(doc, unit), **(default or {"default": None}))


@dataclass(frozen=True)
class Row:
    """One point. None: does not apply, not known, or failed. The fields are the schema."""

    unit: str = _column("the unit: formats, accumulator, lanes, stages; or an extra unit's name")
    generated: bool = _column("made by this project; false for `--extra`")
    format: str | None = _column("element formats of a and b")
    accumulator: str | None = _column("the accumulator, as `--accumulator` reads it")
    lanes: int | None = _column("element products per cycle")
    stages: int | None = _column("registers from input to output")
    latency: int | None = _column("from the last block to the result", "cycles")
    interval: int | None = _column("between chained blocks of one dot product", "cycles")
    interleave: int | None = _column("dot products in flight")
    flow: str | None = _column("how the unit was synthesised; empty for not at all")
    target: str | None = _column("greatest delay allowed, or the clock")
    clock_mhz: float | None = _column(
        "clock at which this is the smallest unit; empty where the unit was given", "MHz"
    )
    area: float | None = _column("area, with flip-flops but on an FPGA", "`area_unit`")
    area_error: float | None = _column(
        "spread of the areas for three neighbouring targets, at least 1%: areas whose bars overlap "
        "are equal",
        "`area_unit`",
    )
    area_unit: str | None = _column("NAND2 equivalents, um2 or LUTs, as the flow counts")
    area_nand2: float | None = _column("area in gates", "NAND2 equivalents")
    flipflops: int | None = _column("flip-flops")
    carry: int | None = _column("carry elements of an FPGA")
    dsp: int | None = _column("multiplier blocks of an FPGA")
    depth: int | None = _column("longest path between registers", "gates")
    delay_ps: float | None = _column("longest path between registers", "ps")
    fmax_mhz: float | None = _column("clock frequency", "MHz")
    slack_ps: float | None = _column("clock period less longest path", "ps")
    syntheses: int | None = _column("syntheses that the search at the clock took")
    energy: float | None = _column(
        "energy of one product of two elements, of normal data; see docs/cost.md", "`energy_unit`"
    )
    energy_spread: float | None = _column(
        "standard error of the energy from the choice of data", "`energy_unit`"
    )
    energy_unit: str | None = _column("NAND2 equivalents of area switched, or fJ")
    energy_error: str | None = _column("why there is no energy, in one line; no failed row")
    data: str | None = _column("the data set of the accuracy; empty for none")
    length: int | None = _column("length of the dot products of the accuracy that follows")
    count: int | None = _column("dot products evaluated at each length")
    seed: int | None = _column("seed of the data")
    sqnr_accumulator_db: float | None = _column(
        "of the result against the exact product of the quantised operands, rounded once: what the "
        "accumulator does; infinite without error",
        "dB",
    )
    sqnr_total_db: float | None = _column(
        "of the result against the float64 product of the original operands: format and "
        "accumulator together",
        "dB",
    )
    sqnr_format_db: float | None = _column(
        "of the exact product of the quantised operands against the same: the ceiling of the "
        "former",
        "dB",
    )
    max_relative: float | None = _column("largest relative error of the accumulator")
    mean_relative: float | None = _column("mean relative error of the accumulator")
    ulp_max: float | None = _column("largest error of the accumulator", "float32 ulp")
    ulp_mean: float | None = _column("mean error of the accumulator", "float32 ulp")
    bias: float | None = _column("mean error away from zero / mean magnitude")
    exact_fraction: float | None = _column("fraction of results that are the exact one, rounded")
    overflow: int | None = _column("results that overflowed float32")
    saturated: int | None = _column("results whose register saturated or wrapped")
    observed: float | None = _column("largest error / sum of the terms' magnitudes")
    bound: float | None = _column("the same of the largest error that the a priori bound allows")
    bound_ratio: float | None = _column("largest error / its own bound")
    bound_ok: bool | None = _column("no observation above its bound, at any length")
    encoder_sentences: int | None = _column(
        "sentences that went through the encoder with the accumulator in every linear layer"
    )
    encoder_mean: float | None = _column(
        "mean cosine similarity of their embeddings to float32's, with format and accumulator"
    )
    encoder_min: float | None = _column("the smallest of these similarities")
    encoder_format_mean: float | None = _column("their mean with the format's own error only")
    pareto_total: str | None = _column(
        "`front`: no unit of the same flow, target, lanes and data, and of the same stages without "
        "a clock, is smaller at equal `sqnr_total_db`, or better at equal area; `near`: as large "
        "as such a unit, within 3% or, at a clock, the error bars"
    )
    pareto_format: str | None = _column(
        "the same among units of the same format, by `sqnr_accumulator_db`"
    )
    status: str = _column(
        f"`ok`, `failed` (see `error`), `{MISSED}` (the fastest that was found is in `delay_ps` or "
        "`depth`) or `bound exceeded`",
        default="ok",
    )
    error: str | None = _column("why it failed, or what would meet the target, in one line")
    tool: str | None = _column("what synthesised it, with its version")
    measured: str | None = _column("version and day of a result that comes with the package")
    seconds: float | None = _column("time that synthesis and evaluation took", "s")
    command: str | None = _column("the command that measures this point again")
    verilog: str | None = _column("the command that writes this unit's Verilog, dot.v")
    synthesis: str | None = _column("the command that makes its netlist of dot.v again")
    sections: dict[str, float] = field(
        default_factory=dict,
        metadata=_about(
            "area of each section of the datapath, kept apart in synthesis: more than `area`",
            "`area_unit`",
        ),
    )
    lengths: list[dict[str, Any]] = field(
        default_factory=list, metadata=_about("the accuracy at every length, all its measures")
    )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, except infinite floats."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Row":
        """The inverse of `to_dict`; TypeError for unknown names."""
        return cls(**values)

    @property
    def options(self) -> str:
        """Options of a generated unit that differ from the default and have no column."""
        if not self.generated:
            return ""
        text = self.unit.partition(f" stages {self.stages}")[2]
        return (text if self.clock_mhz is None else _CHOSEN.sub("", text)).strip()

    @property
    def identity(self) -> str:
        """Key of a measured unit: flow, target and name."""
        return f"{self.flow}|{self.target}|{self.unit}"

    @property
    def short_name(self) -> str:
        """Name in tables and plots: accumulator and other options, or an extra unit's name."""
        if not (self.generated and self.accumulator):
            return self.unit
        return f"{self.accumulator} {self.options}".strip()

    @property
    def delay(self) -> float | None:
        """Longest path: in ps where the flow times, else in gates."""
        return self.delay_ps if self.delay_ps is not None else self.depth


_COST = ("area", "flipflops", "depth", "delay_ps", "fmax_mhz", "tool")
_ACCURACY = (
    "length", "sqnr_accumulator_db", "sqnr_total_db", "sqnr_format_db", "max_relative",
    "mean_relative", "ulp_max", "ulp_mean", "bias", "exact_fraction", "overflow", "saturated",
    "observed", "bound", "bound_ratio",
)  # fmt: skip


def cost_columns(cost: Mapping[str, Any]) -> dict[str, Any]:
    """Columns from a `Cost` as a dict."""
    columns = {name: cost.get(name) for name in _COST}
    sections = {name: float(area) for name, area in (cost.get("stages") or {}).items()}
    energy = cost.get("energy") or {}
    clock = cost.get("clock") or {}
    return columns | {
        **{name: clock.get(name) for name in ("slack_ps", "area_error", "syntheses")},
        "measured": clock.get("measured"),
        "energy_spread": energy.get("error") or None,
        "energy": energy.get("per_product"),
        "energy_unit": energy.get("unit"),
        "energy_error": cost.get("energy_error"),
        "area_unit": cost.get("unit"),
        "area_nand2": cost.get("nand2"),
        "carry": (cost.get("extra") or {}).get("carry"),
        "dsp": (cost.get("extra") or {}).get("dsp"),
        "sections": sections,
    }


def accuracy_columns(lengths: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Columns from the `Accuracy` dicts of a point: the longest length's values, and all dicts."""
    ordered = [_infinite(a) for a in sorted(lengths, key=lambda accuracy: accuracy["length"])]
    longest = ordered[-1]
    columns = {name: longest.get(name) for name in _ACCURACY}
    checks = [a["bound_ok"] for a in ordered if a.get("bound_ok") is not None]
    return columns | {"bound_ok": all(checks) if checks else None, "lengths": ordered}


def encoder_columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """Columns from an `EncoderAccuracy` as a dict."""
    return {
        "encoder_sentences": values["sentences"],
        "encoder_mean": values["cosine_mean"],
        "encoder_min": values["cosine_min"],
        "encoder_format_mean": values["format_mean"],
    }


def _infinite(accuracy: Mapping[str, Any]) -> dict[str, Any]:
    """Replace None by infinity in SQNRs, which `Accuracy.to_dict` writes as None."""
    return {
        name: math.inf if value is None and name.startswith("sqnr_") else value
        for name, value in accuracy.items()
    }


def status_of(
    outcomes: Sequence[Outcome | None], bound_ok: bool | None, missed: str | None = None
) -> dict[str, Any]:
    """Columns `status`, `error` and `seconds` of a row.

    missed: reason why its target is not met.
    """
    there = [outcome for outcome in outcomes if outcome is not None]
    errors = [outcome.error for outcome in there if outcome.error is not None]
    exceeded = "bound exceeded" if bound_ok is False else "ok"
    status = "failed" if errors else MISSED if missed else exceeded
    seconds = round(sum(outcome.seconds for outcome in there), 3)
    reasons = [*errors, *filter(None, [missed])]
    return {"status": status, "error": "; ".join(reasons) or None, "seconds": seconds}


def number(value: float | None) -> float | None:
    """`value` if it is a finite number."""
    return value if value is not None and math.isfinite(value) else None
