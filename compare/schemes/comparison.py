"""Schemes side by side: their error and bits, and the area of the unit that multiplies them.

Error and cost are tasks of `util/`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...model import Accumulator, DotConfig
from ...model.schemes.pairing import Pairing, pairing
from ...synth import Flow
from ...util.data.encoder import check_installed
from ...util.data.sentences import SENTENCES
from ...util.jobs import Backend, Observer, run_rows
from ...util.keys import data_digest, fingerprint, located, task_key, version_of
from ...util.store import Outcome
from ..studies.flows import flow_name
from ..studies.rows import cost_columns
from ..studies.tasks import ENCODER_TOOLS, CostTask, Instruments, absolute
from ..studies.units import Generated
from .layers import effect_on, end_to_end, network, stored_layers
from .matching_unit import NoUnitError, quantizer_of, unit_of
from .measure import family

SOURCES = ("model", "util/data", "compare/accuracy", "compare/schemes")


def _about(doc: str) -> Any:
    return field(default=None, metadata={"doc": doc})


@dataclass(frozen=True)
class SchemeRow:
    """One pairing. None: not asked for, not known, or failed. The fields are the schema."""

    scheme: str = field(metadata={"doc": "weights/activations, or one name for both"})
    weights: str = field(metadata={"doc": "scheme of the weights"})
    activations: str = field(metadata={"doc": "scheme of the activations, or bfloat16"})
    family: str = field(metadata={"doc": "kind of the weights' scheme"})
    bits_weights: float | None = _about("bits per element of the weights, everything counted")
    bits_activations: float | None = _about("bits per element of the activations")
    layers: int | None = _about("layers measured, each with float32 inputs")
    sqnr_db: float | None = _about("SQNR of a layer's products in dB, mean over the layers")
    sqnr_least_db: float | None = _about("the smallest of a layer")
    cosine: float | None = _about("cosine of a layer's products to the originals', mean")
    cosine_least: float | None = _about("the smallest of a layer")
    mse: float | None = _about("mean squared error of products, mean over the layers")
    maximum: float | None = _about("largest error of a product")
    sentences: int | None = _about("sentences that went through the encoder, all layers quantised")
    encoder_sqnr_db: float | None = _about("SQNR of their embeddings in dB")
    encoder_cosine: float | None = _about("cosine of an embedding to float32's, mean")
    encoder_cosine_least: float | None = _about("the smallest of a sentence")
    encoder_mse: float | None = _about("mean squared error of the embeddings")
    encoder_maximum: float | None = _about("largest error of a number of them")
    unit: str | None = _about("the dot unit of the products inside a region")
    lanes: int | None = _about("element products per cycle of the unit")
    flow: str | None = _about("how it was synthesised")
    area: float | None = _about("its area, in `area_unit`")
    area_unit: str | None = _about("NAND2 equivalents, um2 or LUTs")
    area_per_lane: float | None = _about("area / lanes")
    depth: int | None = _about("longest path in gates")
    delay_ps: float | None = _about("longest path in ps")
    energy: float | None = _about("energy of one product of normal data, in `energy_unit`")
    energy_unit: str | None = _about("see docs/cost.md")
    no_unit: str | None = _about("why there is no unit")
    quantizer: str | None = _about(
        "the unit that makes the activations' codes; it is not in `area`"
    )
    no_quantizer: str | None = _about("why there is no such unit")
    error: str | None = _about("what failed, in one line")
    errors: dict[str, dict[str, Any]] = field(
        default_factory=dict, metadata={"doc": "the error of every layer"}
    )

    @property
    def bits(self) -> float | None:
        """Bits per element, mean of both operands."""
        if self.bits_weights is None or self.bits_activations is None:
            return None
        return (self.bits_weights + self.bits_activations) / 2


@dataclass(frozen=True)
class Layers:
    """Source of layers: the encoder of `sentences` sentences, or stored or drawn data if 0."""

    sentences: int = 0
    data: tuple[str, ...] = ("real",)
    rows: int = 128
    length: int = 1024
    seed: int = 1


@dataclass(frozen=True)
class SchemeTask:
    """The error of one pairing; the value is an `Effect` and, for the encoder, an `EndToEnd`."""

    name: str
    layers: Layers
    folder: Path = field(default_factory=Path.cwd)
    """Folder of files of data: a worker may have another directory."""

    @property
    def _located(self) -> list[str]:
        return [located(name, self.folder) for name in self.layers.data]

    @property
    def key(self) -> str:
        versions = [version_of(tool) for tool in ENCODER_TOOLS if self.layers.sentences]
        digests = [data_digest(name) for name in self._located]
        return task_key(
            "scheme", self.name, asdict(self.layers), digests, versions, fingerprint(SOURCES)
        )

    @property
    def label(self) -> str:
        where = f"encoder, sentences: {self.layers.sentences}"
        return f"{self.name}: {where if self.layers.sentences else ', '.join(self.layers.data)}"

    @property
    def weight(self) -> float:
        """Seconds, roughly."""
        return 2.0 + 1.2 * self.layers.sentences

    def run(self) -> Any:
        pair, how = pairing(self.name), self.layers
        if not how.sentences:
            layers = stored_layers(self._located, how.rows, how.length, how.seed)
            names = dict(zip(self._located, how.data, strict=True))
            shown = [replace(layer, name=names.get(layer.name, layer.name)) for layer in layers]
            return effect_on(pair, shown).to_dict()
        sentences = tuple(SENTENCES[: how.sentences])
        effect = effect_on(pair, network(sentences)[0]).to_dict()
        return effect | {"encoder": asdict(end_to_end(pair, sentences))}


def compare_schemes(
    pairs: Sequence[Pairing],
    layers: Layers,
    flow: Flow | None,
    directory: Path,
    backend: Backend,
    observer: Observer,
    *,
    rule: Accumulator | str = "aligned:13",
    energy: bool = True,
    cache_dir: Path | None = None,
    tools: Instruments | None = None,
) -> list[SchemeRow]:
    """Compare pairings, one row each; results are kept in `directory` and not measured again.

    flow: synthesis of units, or None. rule: accumulator of units with float results. ImportError
    before any work when the encoder's packages are missing and it is asked for.
    """
    if layers.sentences:
        check_installed()
    tools = tools or Instruments()
    cache = (cache_dir or directory / "cache").resolve()
    units = [_unit(pair, rule) for pair in pairs]
    needs = [
        (
            SchemeTask(pair.name, layers),
            CostTask(Generated(unit), absolute(flow), energy, cache, tools)
            if isinstance(unit, DotConfig) and flow is not None
            else None,
        )
        for pair, unit in zip(pairs, units, strict=True)
    ]
    outcomes = run_rows(needs, directory, backend, observer)
    return [
        _row(pair, unit, layers, flow, *some)
        for pair, unit, some in zip(pairs, units, outcomes, strict=True)
    ]


def _unit(pair: Pairing, rule: Accumulator | str) -> DotConfig | str:
    """Unit of a pairing, or the reason why it has none."""
    try:
        return unit_of(pair, rule)
    except NoUnitError as error:
        return str(error)


def _row(
    pair: Pairing,
    unit: DotConfig | str,
    layers: Layers,
    flow: Flow | None,
    effect: Outcome | None,
    cost: Outcome | None,
) -> SchemeRow:
    row = SchemeRow(
        pair.name, pair.weights.name, str(pair.activations or "bfloat16"), family(pair.weights)
    )
    if isinstance(unit, DotConfig):
        row = replace(row, unit=str(unit), lanes=unit.lanes)
    else:
        row = replace(row, no_unit=unit)
    try:
        row = replace(row, quantizer=str(quantizer_of(pair.activations)))
    except NoUnitError as error:
        row = replace(row, no_quantizer=str(error))
    if effect is not None and effect.ok:
        row = replace(row, **_error_columns(effect.value, layers))
    if cost is not None and cost.ok and isinstance(unit, DotConfig):
        row = replace(
            row, **_cost_columns(cost.value, unit.lanes), flow=flow_name(flow) if flow else None
        )
    failed = [outcome.error for outcome in (effect, cost) if outcome is not None]
    failed += [cost.value.get("missed")] if cost is not None and cost.ok else []
    return replace(row, error="; ".join(filter(None, failed)) or None)


def _error_columns(value: Mapping[str, Any], layers: Layers) -> dict[str, Any]:
    errors = list(value["layers"].values())

    def mean(name: str) -> float:
        return sum(error[name] for error in errors) / len(errors)

    columns = {
        "bits_weights": value["bits_weights"],
        "bits_activations": value["bits_activations"],
        "layers": len(errors),
        "sqnr_db": mean("sqnr_db"),
        "sqnr_least_db": min(error["sqnr_db"] for error in errors),
        "cosine": mean("cosine"),
        "cosine_least": min(error["cosine"] for error in errors),
        "mse": mean("mse"),
        "maximum": max(error["maximum"] for error in errors),
        "errors": value["layers"],
    }
    if "encoder" not in value:
        return columns
    end = value["encoder"]
    return columns | {
        "sentences": layers.sentences,
        "encoder_sqnr_db": end["error"]["sqnr_db"],
        "encoder_cosine": end["mean"],
        "encoder_cosine_least": end["least"],
        "encoder_mse": end["error"]["mse"],
        "encoder_maximum": end["error"]["maximum"],
    }


def _cost_columns(value: Mapping[str, Any], lanes: int) -> dict[str, Any]:
    cost = cost_columns(value)
    names = ("area", "area_unit", "depth", "delay_ps", "energy", "energy_unit")
    area = cost["area"]
    per_lane = None if area is None else area / lanes
    return {name: cost[name] for name in names} | {"area_per_lane": per_lane}


def on_front(rows: Sequence[SchemeRow], cost: str) -> set[str]:
    """Names of Pareto-optimal pairings, by `cost` (``bits`` or ``area_per_lane``) and SQNR."""
    known = [
        (getattr(row, cost), -row.sqnr_db, row.scheme)
        for row in rows
        if getattr(row, cost) is not None and row.sqnr_db is not None
    ]
    front, best = set(), -math.inf
    for _, negative, scheme in sorted(known):
        if -negative > best:
            best = -negative
            front.add(scheme)
    return front
