"""Stage by stage: what left each section of the RTL beside the intermediates of the model.

Both sides are compared as values, free of the biases and grids that a section works with. What a
section's output means is told by its layout (hw/sections/).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from amaranth.lib import data

from ..hw.floats import RunningLayout
from ..hw.sections.aligned import LargestLayout
from ..hw.sections.convert import NarrowLayout
from ..hw.sections.fixed import RegisterLayout
from ..hw.sections.float32 import LevelLayout
from ..hw.sections.fused import StepLayout, StepsLayout
from ..hw.sections.integer import (
    AddendLayout,
    IntegerTermsLayout,
    IntegerTotalLayout,
    LimitedLayout,
    SumLayout,
)
from ..hw.sections.multiply import ProductsLayout
from ..hw.sections.sums import BlockResultLayout, TermsLayout, TotalLayout
from ..hw.unit import stage_layouts
from ..hw.widths import Widths
from ..model import DotConfig
from ..model.accumulators import Aligned, Fixed, Fused, Preset
from ..model.outputs import FLOAT32
from ..model.products import product_table
from ..model.steps import MICRO_DIGITS
from ..model.trace import Trace
from .item import Batch, outcome


@dataclass(frozen=True)
class Row:
    """One value that left section `stage` for a block, on both sides."""

    block: int
    stage: str
    what: str
    got: str
    want: str

    @property
    def differs(self) -> bool:
        """True when the two sides disagree."""
        return self.got != self.want


@dataclass(frozen=True)
class Step:
    """The model's intermediates of one step of one dot product."""

    config: DotConfig
    batch: Batch
    trace: Trace
    number: int
    """Of the step, over all blocks."""
    first_term: int
    """Lane of the step's first term."""
    section: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.trace.stages[name][0, self.number]

    def __contains__(self, name: str) -> bool:
        return name in self.trace.stages

    @property
    def widths(self) -> Widths:
        """Of the unit."""
        return Widths(self.config)

    @property
    def is_last(self) -> bool:
        """True in the last block of the dot product."""
        return self.number // self.widths.steps == self.batch.blocks - 1

    @property
    def products(self) -> list[Fraction]:
        """Exact products of the step's terms."""
        pairs = zip(self["product"], self["product_exponent"], strict=True)
        return [_scaled(int(p), int(e)) for p, e in pairs]

    @property
    def grid(self) -> int:
        """Exponent of the unit of `aligned` terms and of `integer_sum`."""
        rule = self.config.accumulator
        if isinstance(rule, Aligned | Fused | Preset):
            return int(self["largest_exponent"]) - rule.fraction_bits
        lsb = product_table(*self.config.formats[self.batch.mode]).lsb
        return lsb - MICRO_DIGITS * self.config.micro


Compare = Callable[[Any, Step], Iterator[tuple[str, str, str]]]


def compare_stages(
    config: DotConfig, batch: Batch, trace: Trace, recorded: dict[str, list[int]]
) -> list[Row]:
    """Rows in the order of the datapath, block after block, for the one product of `batch`.

    recorded: for every section the bits that left it, one entry for each block.
    """
    layouts = stage_layouts(config)
    widths = Widths(config)
    rows = []
    for block in range(batch.blocks):
        step = 0
        for name, layout in layouts.items():
            if block >= len(recorded.get(name, ())):
                continue
            compare = next((c for kind, c in COMPARE.items() if type(layout) is kind), None)
            if name.startswith("join"):
                step = int(name.removeprefix("join") or 0)
            if compare is None or _is_special(config, batch, block, layout):
                continue
            number = block * widths.steps + step
            model = Step(config, batch, trace, number, step * widths.terms, name)
            found = compare(layout.from_bits(recorded[name][block]), model)
            rows += [Row(block, name, *texts) for texts in found]
    return rows


def _is_special(config: DotConfig, batch: Batch, block: int, layout: data.Layout) -> bool:
    """True where special terms make a section's numbers meaningless; running values never are."""
    if config.has_integers or isinstance(layout, RunningLayout | NarrowLayout):
        return False
    table = product_table(*config.formats[batch.mode])
    values = table.values[table.index(batch.a[0, : block + 1], batch.b[0, : block + 1])]
    scales = batch.scale_a[0, : block + 1], batch.scale_b[0, : block + 1]
    c = float(batch.c.view(np.float32)[0])
    return bool(np.isnan(values).any() or np.max(scales) == 255 or not np.isfinite(c))


def _scaled(value: int, exponent: int) -> Fraction:
    return Fraction(value) * Fraction(2) ** exponent


def _text(value: Fraction | int) -> str:
    """A dyadic number as an odd integer times a power of two."""
    value = Fraction(value)
    if value == 0:
        return "0"
    exponent, integer = -(value.denominator.bit_length() - 1), value.numerator
    while integer % 2 == 0:
        integer, exponent = integer // 2, exponent + 1
    return str(integer) if exponent == 0 else f"{integer} x 2^{exponent}"


def _signed(sign: int, magnitude: int) -> int:
    return -magnitude if sign else magnitude


def _pair(what: str, got: Fraction | int, want: Fraction | int) -> tuple[str, str, str]:
    return what, _text(got), _text(want)


def _product(lane: Any, step: Step) -> Fraction:
    exponent = lane["unit"] + step.widths.lsb
    return _scaled(_signed(lane["sign"], lane["product"]), exponent)


def _products(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    for index, want in enumerate(_all_products(step)):
        yield _pair(f"product {index}", _product(view["lanes"][index], step), want)
    yield "scale s", str(view["scale"]), str(int(step["scale"]))


def _all_products(step: Step) -> list[Fraction]:
    """Exact products of the step's block, all its steps together."""
    first = step.number - step.number % step.widths.steps
    return [
        product
        for number in range(first, first + step.widths.steps)
        for product in Step(step.config, step.batch, step.trace, number, 0).products
    ]


def _largest(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    if step.products and any(step.products):
        got = view["unit"] + step.widths.unit_min
        yield "largest exponent", str(got), str(int(step["largest_exponent"]))


def _terms(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    aligned = "aligned" in step
    for index, want in enumerate(step["aligned"] if aligned else step.products):
        term = view["terms"][index]
        got = _signed(term["sign"], term["magnitude"])
        if aligned:
            yield _pair(f"term {index}", got, int(want))
        else:
            yield _pair(f"term {index}", _scaled(got, step.widths.lsb), want)


def _total(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    want = int(step["integer_sum"])
    if "aligned" in step:
        yield _pair("sum", view["total"], want)
    else:
        yield _pair("sum", _scaled(view["total"], step.widths.lsb), _scaled(want, step.grid))


def _float(view: Any, width: int) -> Fraction:
    if view["zero"]:
        return Fraction(0)
    return _scaled(_signed(view["sign"], view["significand"]), view["exponent"] - width + 1)


def _block_result(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    if "block_result" not in step:
        return
    width = view["x"].shape().width
    exact = step.batch.mode is not None and "integer_sum" in step and "aligned" not in step
    if exact:  # `block_result` is rounded to odd; the integer sum is not
        want = _scaled(int(step["integer_sum"]), step.grid)
    else:
        want = Fraction(float(step["block_result"]))
    yield _pair("2^s x block", _float(view["x"], width), want * Fraction(2) ** int(step["scale"]))


def _level(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    terms = view["terms"]
    depth = (step.config.lanes // len(terms)).bit_length() - 1
    for index, want in enumerate(step[f"tree{depth}"]):
        got = _float(terms[index], 24)
        yield _pair(f"partial sum {index}", got, Fraction(float(want)))


def _step(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    if isinstance(view["value"], int):
        yield _pair("sum", view["value"], int(step["integer_sum"]))
        return
    yield "largest exponent", str(view["exponent"]), str(int(step["largest_exponent"]))
    for index, want in enumerate([*step["aligned"], step["aligned_c"]]):
        term = view["value"][index]
        yield _pair(f"term {index}", _signed(term["sign"], term["magnitude"]), int(want))


def _steps(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    """Between the steps of a block: the running value; before the first one, the products."""
    if step.first_term == 0 and len(view["lanes"]) == step.config.lanes:
        yield from _products(view, step)
    else:
        yield from _running(view["running"], step)


def _running(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    rule = step.config.accumulator
    if isinstance(rule, Fixed):  # the register rounded, of which the model has the last
        if step.is_last and step.config.out == FLOAT32:
            yield from _result(view, step)
        return
    partial = isinstance(rule, Preset) and rule.promote is not None and step.section != "promote"
    want = np.float32(step["partial" if partial else "accumulator"])
    bits = rule.nan_bits if np.isnan(want) else int(want.view(np.uint32))
    yield "c'", f"0x{view['c']:08x}", f"0x{bits:08x}"


def _result(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    if step.is_last:
        want = int(outcome(step.config, step.trace).result[0])
        yield "result", f"0x{view['c']:x}", f"0x{want:x}"


def _register(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    yield _pair("register", view["register"], int(step["accumulator"]))


def _integer_terms(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    for index, want in enumerate(step["product"]):
        yield _pair(f"product {index}", view["terms"][index], int(want))


def _integer_total(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    yield _pair("sum", view["total"], int(step["integer_sum"]))


def _addend(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    yield _pair("addend", view["addend"], int(step["addend"]))


def _integer_sum(view: Any, step: Step) -> Iterator[tuple[str, str, str]]:
    yield _pair("INT32 sum", view["c"], int(step["accumulator"]))


COMPARE: dict[type, Compare] = {
    IntegerTermsLayout: _integer_terms,
    IntegerTotalLayout: _integer_total,
    AddendLayout: _addend,
    SumLayout: _integer_sum,
    LimitedLayout: _result,
    ProductsLayout: _products,
    TermsLayout: _terms,
    TotalLayout: _total,
    BlockResultLayout: _block_result,
    LevelLayout: _level,
    StepLayout: _step,
    StepsLayout: _steps,
    RunningLayout: _running,
    RegisterLayout: _register,
    LargestLayout: _largest,
    NarrowLayout: _result,
}
