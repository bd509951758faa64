"""Stage by stage: what left each section of the RTL, and the intermediates of the model.

Both sides are compared as numbers, free of the biases and grids that a section works with. Names of
values (hw/dot/) say what a section writes; `COMPARE` has a comparison for each name.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import data

from ...hw.arithmetic.floats import narrow_nan
from ...hw.dot.unit import section_values
from ...model import DotConfig
from ...model.formats import FLOAT32
from ...model.outputs import convert
from ...model.pipeline.widths import GroupWidths, Widths
from ...model.products import Pair
from ...model.steps import MICRO_DIGITS
from ...model.trace import Trace
from .item import Batch, outcome
from .scales import are_nan


@dataclass(frozen=True)
class StageStep:
    """The model's intermediates of one step of one dot product."""

    config: DotConfig
    batch: Batch
    trace: Trace
    number: int
    """Number of the step, over all blocks."""
    section: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.trace.stages[name][0, self.number]

    def __contains__(self, name: str) -> bool:
        return name in self.trace.stages

    @property
    def widths(self) -> Widths:
        return Widths(self.config)

    @property
    def is_last(self) -> bool:
        """True in the last block of the dot product."""
        return self.number // self.widths.steps == self.batch.blocks - 1

    @property
    def products(self) -> list[Fraction]:
        """Exact products of the beat, in the order of the steps."""
        return [
            _scaled(int(p), int(e))
            for significands, exponents in zip(
                self.of_beat("product"), self.of_beat("product_exponent"), strict=True
            )
            for p, e in zip(significands, exponents, strict=True)
        ]

    @property
    def groups(self) -> list[list[Fraction]]:
        """The products of each group of the beat."""
        size = len(self.of_beat("product")[0])
        return [self.products[i : i + size] for i in range(0, self.config.lanes, size)]

    @property
    def grid(self) -> int:
        """Exponent of the unit of `aligned` terms and of `integer_sum`."""
        bits = self.config.accumulator.alignment_bits
        if bits is not None:
            return int(self["largest_exponent"]) - bits
        lsb = Pair(*self.config.formats[self.batch.mode]).lsb
        return lsb - MICRO_DIGITS * self.config.micro - self.widths.factor_fraction_bits

    def of_beat(self, name: str) -> list[Any]:
        """All entries of a stage that belong to the step's beat."""
        entries = self.trace.stages[name][0]
        count = len(entries) // self.batch.blocks
        beat = self.number // self.widths.steps
        return list(entries[beat * count : (beat + 1) * count])

    def factor(self, part: int = 0, parts: int = 1) -> Fraction:
        """g of one of `parts` parts of the beat, 1 of powers of two."""
        if "factor" not in self:
            return Fraction(1)
        entries = self.of_beat("factor")
        return Fraction(float(entries[part * len(entries) // parts]))


Compare = Callable[[Any, StageStep], Iterator[tuple[str, str, str]]]
"""Called with a value that left a section, and the step; its name, and the texts of both sides."""


def _scaled(value: int, exponent: int) -> Fraction:
    return Fraction(value) * Fraction(2) ** exponent


def _odd(value: Fraction | int) -> tuple[int, int]:
    """Odd integer and exponent of a dyadic number; 0 and 0 for 0."""
    value = Fraction(value)
    if value == 0:
        return 0, 0
    zeros = (value.numerator & -value.numerator).bit_length() - 1
    return value.numerator >> zeros, zeros - (value.denominator.bit_length() - 1)


def _signed(sign: int, magnitude: int) -> int:
    return -magnitude if sign else magnitude


def _term(view: Any) -> int:
    return _signed(view["sign"], view["magnitude"])


def _pair(what: str, got: Fraction | int, want: Fraction | int) -> tuple[str, str, str]:
    """The texts of both sides, in one power of two where that leaves short integers."""
    sides = _odd(got), _odd(want)
    unit = min((exponent for odd, exponent in sides if odd), default=0)
    unit = 0 if 0 < unit < 16 else unit

    def text(odd: int, exponent: int) -> str:
        if odd and exponent - unit < 32:
            odd, exponent = odd << exponent - unit, unit
        return str(odd) if odd == 0 or exponent == 0 else f"{odd} x 2^{exponent}"

    return what, text(*sides[0]), text(*sides[1])


def _product(view: Any, widths: Widths) -> Fraction:
    exponent = view["exponent"] + widths.product_lsb
    return _scaled(_signed(view["sign"], view["significand"]), exponent)


def _products(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    widths, what, wanted = step.widths, "product", step.products
    if step.section == "factor":
        widths, lanes = widths.terms, step.config.lanes
        if isinstance(widths, GroupWidths):
            what, wanted = "group", _scaled_groups(step)
        else:
            wanted = [step.factor(i, lanes) * want for i, want in enumerate(wanted)]
    for index, want in enumerate(wanted):
        yield _pair(f"{what} {index}", _product(view[index], widths), want)


def _scaled_groups(step: StageStep) -> list[Fraction]:
    groups, scales = step.groups, step.of_beat("scale")
    return [
        step.factor(i, len(groups)) * sum(group) * Fraction(2) ** int(scale)
        for i, (group, scale) in enumerate(zip(groups, scales, strict=True))
    ]


def _sums(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    for index, group in enumerate(step.groups):
        yield _pair(f"group {index}", _scaled(view[index], step.widths.lsb), sum(group))


def _scale(value: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    blocks, entries = step.config.scale_blocks, step.of_beat("scale")
    for index in range(blocks):
        got = value if blocks == 1 else value[index]
        want = int(entries[index * len(entries) // blocks])
        yield f"scale s{'' if blocks == 1 else f' {index}'}", str(got), str(want)


def _factor(value: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    if step.config.has_integers:
        return
    blocks, digits = step.config.scale_blocks, step.widths.factor_fraction_bits
    for index in range(blocks):
        got = value if blocks == 1 else value[index]
        yield _pair(f"g {index}", _scaled(got, -digits), step.factor(index, blocks))


def _peaks(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    terms = step.widths.terms
    units = step.of_beat("scale")
    if not isinstance(terms, GroupWidths):
        units = [unit for part in step.of_beat("unit_exponent") for unit in part]
    size = len(step.products) // len(units)
    for index, part in enumerate(terms.parts):
        if any(any(step.products[unit * size : (unit + 1) * size]) for unit in part):
            got = view[index]["exponent"] + terms.exponent_min
            yield f"largest of part {index}", str(got), str(int(max(units[i] for i in part)))


def _aligned_terms(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    wanted = np.concatenate(step.of_beat("aligned_terms"))
    for lane, want in zip(chain(*step.widths.parts), wanted, strict=True):
        yield _pair(f"term {lane}", _term(view[lane]), want)


def _aligned_sums(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    for index, want in enumerate(step.of_beat(step.section)):
        yield _pair(f"aligned sum {index}", _term(view[index]), want)


def _largest(value: int, step: StageStep) -> Iterator[tuple[str, str, str]]:
    if step.products and any(step.products):
        got = value + step.widths.exponent_min
        yield "largest exponent", str(got), str(int(step["largest_exponent"]))


def _exponent(value: int, step: StageStep) -> Iterator[tuple[str, str, str]]:
    yield "largest exponent", str(value), str(int(step["largest_exponent"]))


def _terms(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    if "aligned" not in step:  # groups, of which the model keeps the sum
        return
    for index, want in enumerate([*step["aligned"], step["aligned_c"]]):
        yield _pair(f"term {index}", _term(view[index]), want)


def _inverted_terms(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    aligned = "aligned" in step
    ones = (1 << Shape.cast(view.shape().elem_shape).width) - 1
    wanted = [int(want) for want in step["aligned"]] if aligned else step.products
    for index, want in enumerate(wanted):
        got = view[index]
        # The sign itself is not there: a word of all ones is the zero with a minus.
        if want < 0 or (want == 0 and got == ones):
            got = -(got ^ ones)
        yield _pair(f"term {index}", got if aligned else _scaled(got, step.widths.lsb), want)


def _total(value: int, step: StageStep) -> Iterator[tuple[str, str, str]]:
    want = int(step["integer_sum"])
    aligns = step.config.accumulator.alignment_bits is not None
    if aligns or step.config.has_integers:
        if step.section != "factor":  # of the cut sum, which the model has not kept
            yield _pair("sum", value, want)
    elif step.section == "factor":
        lsb = step.widths.lsb - step.widths.factor_fraction_bits
        yield _pair("g x sum", _scaled(value, lsb), _scaled(want, step.grid))
    else:
        got = step.factor() * _scaled(value, step.widths.lsb)
        yield _pair("sum", got, _scaled(want, step.grid))


def _float(view: Any, width: int) -> Fraction:
    if view["zero"]:
        return Fraction(0)
    return _scaled(_signed(view["sign"], view["significand"]), view["exponent"] - width + 1)


def _words(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    width = Shape.cast(view.shape().elem_shape).width
    total = sum(view[i] for i in range(len(view))) % (1 << width)
    yield from _total(total - (total >> (width - 1) << width), step)


def _block(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    if "block_result" not in step:
        return
    bits = view.shape()["significand"].width
    exact = step.batch.mode is not None and "integer_sum" in step and "aligned" not in step
    if exact:  # `block_result` is rounded to odd; the integer sum is not
        want = _scaled(int(step["integer_sum"]), step.grid)
    else:
        want = Fraction(float(step["block_result"]))
    got = _float(view, bits)
    if step.section.startswith(("tree", "pack")):  # g is still to come
        got *= step.factor()
    yield _pair("2^s x block", got, want * Fraction(2) ** int(step["scale"]))


def _floats(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    depth = int(step.section.removeprefix("tree"))
    for index, want in enumerate(step[f"tree{depth}"]):
        yield _pair(f"partial sum {index}", _float(view[index], 24), Fraction(float(want)))


def _running(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    if step.config.has_integers:
        yield _pair("INT32 sum", view["c"], int(step["accumulator"]))
        return
    if step.config.accumulator.register is not None:  # rounded; the model has the last
        if step.is_last and step.config.out == FLOAT32:
            yield from _result(view, step)
        return
    yield _running_value("c'", view, step, "accumulator")


def _partial(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    yield _running_value("partial sum", view, step, "partial")


def _running_value(what: str, view: Any, step: StageStep, name: str) -> tuple[str, str, str]:
    want, rule = np.float32(step[name]), step.config.accumulator
    fmt = rule.running
    bits = narrow_nan(rule.nan_bits, fmt)
    if not np.isnan(want):
        bits = int(convert(np.array([want]), fmt).view(f"u{fmt.bits // 8}")[0])
    digits = fmt.bits // 4
    return what, f"0x{view['c']:0{digits}x}", f"0x{bits:0{digits}x}"


def _result(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    if step.is_last:
        want = int(outcome(step.config, step.trace).result[0])
        yield "result", f"0x{view['c']:x}", f"0x{want:x}"


def _register(view: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    yield _pair("register", view["register"], int(step["accumulator"]))


def _addend(value: Any, step: StageStep) -> Iterator[tuple[str, str, str]]:
    if step.config.has_integers:
        yield _pair("addend", value, int(step["addend"]))


COMPARE: dict[str, Compare] = {
    "products": _products,
    "partial_sums": _words,
    "scale": _scale,
    "factor": _factor,
    "sums": _sums,
    "largest": _largest,
    "peaks": _peaks,
    "exponent": _exponent,
    "terms": _terms,
    "aligned_terms": _aligned_terms,
    "aligned_sums": _aligned_sums,
    "words": _inverted_terms,
    "total": _total,
    "rows": _words,
    "block": _block,
    "floats": _floats,
    "addend": _addend,
    "register": _register,
    "partial": _partial,
    "running": _running,
    "result": _result,
}


@dataclass(frozen=True)
class SectionRow:
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


Recorded = Mapping[str, Mapping[str, list[int]]]
"""Bits of each value that left a section, one entry per block, by names of section and value."""


def compare_stages(
    config: DotConfig, batch: Batch, trace: Trace, recorded: Recorded
) -> list[SectionRow]:
    """Rows in the order of the datapath, block after block, for the one product of `batch`."""
    written = section_values(config)
    widths = Widths(config)
    rows = []
    for block in range(batch.blocks):
        step = 0
        for part in config.pipeline.sections:
            if part.kind == "join":
                step = part.number or 0
            number = block * widths.steps + step
            model = StageStep(config, batch, trace, number, part.name)
            for name, shape in written[part.name].items():
                compare = COMPARE.get(name)  # some have no counterpart in the model
                values = recorded.get(part.name, {}).get(name, [])
                if compare is None or block >= len(values):
                    continue
                if not _is_meaningless(config, batch, block, name):
                    rows_of_texts = compare(_value(shape, values[block]), model)
                    rows += [SectionRow(block, part.name, *texts) for texts in rows_of_texts]
    return rows


def _value(shape: ShapeLike, bits: int) -> Any:
    """The number that bits of this shape stand for."""
    if isinstance(shape, data.Layout):
        return shape.from_bits(bits)
    plain = Shape.cast(shape)
    negative = plain.signed and bits >> (plain.width - 1)
    return bits - (1 << plain.width) if negative else bits


def _is_meaningless(config: DotConfig, batch: Batch, block: int, name: str) -> bool:
    """True where special terms make a section's numbers meaningless; running values never are."""
    if config.has_integers or name in ("running", "partial", "result"):
        return False
    pair = Pair(*config.formats[batch.mode])
    values = pair.of(batch.a[0, : block + 1], batch.b[0, : block + 1]).values
    nan = are_nan(config, batch)[0, : block + 1].any()
    c = float(batch.c.view(np.float32)[0])
    return bool(np.isnan(values).any() or nan or not np.isfinite(c))
