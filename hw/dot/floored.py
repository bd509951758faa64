"""Sections of sums that are rounded down.

Largest, truncate and gather, and halves for machines that sum even and odd places separately, do
not wait for c. Join, sum and round follow for every step.

Rounding down shifts a term right, with its sign. A negative term has all digits inverted; the one
that completes its two's complement is added only if no digit was lost.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import FLOAT32
from ...model.pipeline.widths import FlooredWidths, Widths
from ..arithmetic.adders import AdderTree, TermLayout, total_of
from ..arithmetic.columns import Columns
from ..arithmetic.floats import EXPONENT_BITS, SpecialLayout, merge_special
from ..arithmetic.scale import SCALE_SHAPE
from ..arithmetic.shift import ShiftRight
from ..hierarchy import submodule
from ..pipeline import Section
from .fused import AlignWithAccumulator, FusedLargest, FusedRound, peaks_shape
from .lane import AlignShifter
from .multiply import of_blocks, of_lane, products_shape


def widths_of(widths: Widths) -> FlooredWidths:
    """Widths of a unit's sums."""
    terms = widths.terms
    assert isinstance(terms, FlooredWidths)
    return terms


class TopLayout(data.StructLayout):
    """The largest exponent of a step's products, or of a part of them, scales included; `any` is 0
    when all are zero.
    """

    def __init__(self) -> None:
        super().__init__({"exponent": signed(EXPONENT_BITS), "any": 1})


class FloorLayout(data.StructLayout):
    """An integer rounded down: `word`, sign-extended by `sign`, plus `carry`."""

    def __init__(self, bits: int) -> None:
        super().__init__({"word": bits, "sign": 1, "carry": 1})


def part_values(widths: FlooredWidths, count: int) -> dict[str, ShapeLike]:
    """Values `aligned_sums`, F digits below the largest exponents `tops`, for `count` parts."""
    sums = data.ArrayLayout(TermLayout(widths.aligned_sum_bits), count)
    return {"aligned_sums": sums, "tops": data.ArrayLayout(TopLayout(), count)}


def too_large_shape(widths: FlooredWidths) -> data.ArrayLayout:
    """The value `too_large`: per step, the infinities that its finite products become in a
    float32.
    """
    return data.ArrayLayout(SpecialLayout(), widths.steps)


def floor(m: Module, name: str, term: Value, sign: Value, amount: Value) -> tuple[data.View, Value]:
    """(floor of (-1)^sign x term / 2^amount, a `FloorLayout`; 1 if a one was cut off)."""
    shift = submodule(m, f"shift_{name}", ShiftRight(len(term), EXPONENT_BITS))
    out = Signal(FloorLayout(len(term)), name=f"{name}_floor")
    m.d.comb += [
        shift.value.eq(term),
        shift.amount.eq(amount),
        out.word.eq(shift.result ^ sign.replicate(len(term))),
        out.sign.eq(sign),
        out.carry.eq(sign & ~shift.sticky),
    ]
    return out, shift.sticky


def add_floors(m: Module, bits: int, floors: Sequence[tuple[data.View, int]]) -> Value:
    """Sum of integers in `FloorLayout`, each x 2^place, as a signed word of `bits`."""
    columns = Columns(m, "sum", bits)
    for one, place in floors:
        columns.add(
            Cat(one.word, Value.cast(one.sign).replicate(bits - place - len(one.word))), place
        )
        columns.add([one.carry], place)
    return total_of(columns)


def put_term(m: Module, term: data.View, total: Value, name: str) -> None:
    """Write a `TermLayout` from a signed word."""
    word = Signal(signed(len(total)), name=name)
    m.d.comb += [
        word.eq(total),
        term.sign.eq(word[-1]),
        term.magnitude.eq(Mux(word[-1], -word, word)),
    ]


class Truncate(Section):
    """Cuts each product F bits below the largest unit digit of its part, toward zero."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths = widths_of(widths)
        terms = data.ArrayLayout(TermLayout(widths.term_bits), widths.config.lanes)
        super().__init__(
            {
                "products": products_shape(widths),
                "peaks": peaks_shape(widths),
                "scale": of_blocks(SCALE_SHAPE, widths),
            },
            {
                "aligned_terms": terms,
                "tops": part_values(widths, len(widths.parts))["tops"],
                "step_sticky": widths.steps,
                "too_large": too_large_shape(widths),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        lanes = range(widths.config.lanes)
        sticky: list[Value] = [Const(0, 1) for _ in lanes]
        for number, part in enumerate(widths.parts):
            peak, top = self.i.peaks[number], self.o.tops[number]
            m.d.comb += [top.any.eq(peak.any), top.exponent.eq(self._exponent(peak, part[0]))]
            for lane in part:
                product, term = self.i.products[lane], self.o.aligned_terms[lane]
                shift = submodule(m, f"shift{lane}", AlignShifter(widths, widths.exponent_bits))
                m.d.comb += [
                    shift.significand.eq(product.significand),
                    shift.distance.eq(peak.exponent - product.exponent),
                    term.magnitude.eq(shift.word),
                    term.sign.eq(product.sign),
                ]
                sticky[lane] = shift.sticky
        large = [self._too_large(m, lane) for lane in lanes]
        for step in range(widths.steps):
            members = lanes[step * widths.step_lanes : (step + 1) * widths.step_lanes]
            signs = [self.i.products[lane].sign for lane in members]
            beyond = [large[lane] for lane in members]
            pairs = list(zip(beyond, signs, strict=True))
            m.d.comb += [
                self.o.step_sticky[step].eq(Cat(sticky[lane] for lane in members).any()),
                self.o.too_large[step].pos_inf.eq(Cat(x & ~sign for x, sign in pairs).any()),
                self.o.too_large[step].neg_inf.eq(Cat(x & sign for x, sign in pairs).any()),
            ]
        return m

    def _exponent(self, of: data.View, lane: int) -> Value:
        """Exponent of a product's unit digit, or the largest one, with the scale of the lane."""
        return of.exponent + of_lane(self.i.scale, lane, self.widths) + self.widths.exponent_min

    def _too_large(self, m: Module, lane: int) -> Value:
        """1 if a product is 2^128 or more."""
        product = self.i.products[lane]
        unit = Signal(signed(EXPONENT_BITS), name=f"unit{lane}")
        large = Signal(name=f"large{lane}")
        least = FLOAT32.emax + 1 + self.widths.product_fraction_bits
        counts = Cat(unit >= least - place for place in range(len(product.significand)))
        m.d.comb += [
            unit.eq(self._exponent(product, lane)),
            large.eq((product.significand & counts).any()),
        ]
        return large


class Gather(Section):
    """Sum of each part."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths = widths_of(widths)
        sums = part_values(widths, len(widths.parts))["aligned_sums"]
        terms = data.ArrayLayout(TermLayout(widths.term_bits), widths.config.lanes)
        super().__init__({"aligned_terms": terms}, {"aligned_sums": sums})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        for number, part in enumerate(widths.parts):
            adder = AdderTree(len(part), widths.term_bits, widths.aligned_sum_bits + 1)
            tree = submodule(m, f"tree{number}", adder)
            for term, lane in zip(tree.terms, part, strict=True):
                m.d.comb += term.eq(self.i.aligned_terms[lane])
            put_term(m, self.o.aligned_sums[number], tree.total, f"total{number}")
        return m


class Halves(Section):
    """Both parts of a step, rounded down to the grid of the larger one, and added."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths = widths_of(widths)
        super().__init__(
            {**part_values(widths, len(widths.parts)), "step_sticky": widths.steps},
            {**part_values(widths, widths.steps), "step_sticky": widths.steps},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for step in range(self.widths.steps):
            adder = submodule(m, f"step{step}", HalvesAdder(self.widths.aligned_sum_bits))
            for place in range(2):
                m.d.comb += [
                    adder.terms[place].eq(self.i.aligned_sums[2 * step + place]),
                    adder.tops[place].eq(self.i.tops[2 * step + place]),
                ]
            m.d.comb += [
                self.o.aligned_sums[step].eq(adder.term),
                self.o.tops[step].eq(adder.top),
                self.o.step_sticky[step].eq(self.i.step_sticky[step] | adder.sticky),
            ]
        return m


class HalvesAdder(wiring.Component):
    """Two integers with exponents, rounded down to the larger one's grid, and added; combinational.

    Ports:

    - `terms` in, 2 x `TermLayout` of `bits`: the integers
    - `tops` in, 2 x `TopLayout`: the exponents
    - `term` out, `TermLayout` of `bits`: the sum, which must fit
    - `top` out, `TopLayout`: its exponent, the larger one
    - `sticky` out, 1 bit: a one was cut off
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        super().__init__(
            {
                "terms": In(data.ArrayLayout(TermLayout(bits), 2)),
                "tops": In(data.ArrayLayout(TopLayout(), 2)),
                "term": Out(TermLayout(bits)),
                "top": Out(TopLayout()),
                "sticky": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        even, odd = self.tops
        odd_leads = Signal()
        m.d.comb += [
            odd_leads.eq(odd.any & (~even.any | (odd.exponent > even.exponent))),
            self.top.any.eq(even.any | odd.any),
            self.top.exponent.eq(Mux(odd_leads, odd.exponent, even.exponent)),
        ]
        floors, sticky = [], []
        for name, term, top in zip(("even", "odd"), self.terms, self.tops, strict=True):
            # Without a product that is not zero the sum is zero, at whatever distance.
            amount = self.top.exponent - top.exponent
            one, lost = floor(m, name, term.magnitude, term.sign, amount)
            floors.append((one, 0))
            sticky.append(lost)
        put_term(m, self.term, add_floors(m, self.bits + 1, floors), "total")
        m.d.comb += self.sticky.eq(Cat(sticky).any())
        return m


class FlooredJoin(AlignWithAccumulator):
    """The step's sum and the running value, rounded down below the larger exponent of both."""

    widths: FlooredWidths

    def _terms(self) -> dict[str, ShapeLike]:
        return {**part_values(self.widths, self.widths.steps), "step_sticky": self.widths.steps}

    def _aligned(self) -> dict[str, ShapeLike]:
        return floor_values(self.widths)

    def _peak(self) -> tuple[Value, Value]:
        top = self.i.tops[self.step]
        return top.any, top.exponent

    def _align(self, m: Module, c: data.View) -> list[Value]:
        widths, emax = self.widths, self.o.exponent
        term, top = self.i.aligned_sums[self.step], self.i.tops[self.step]
        sum_word = Cat(Const(0, widths.more_bits), term.magnitude)
        sum_, sum_sticky = floor(m, "sum", sum_word, term.sign, emax - top.exponent)
        more = widths.fraction_bits - FLOAT32.mantissa_bits
        c_word, distance = Cat(Const(0, max(more, 0)), c.significand), emax - c.exponent
        c_, c_sticky = floor(m, "c", c_word, c.sign, distance + max(-more, 0))
        stays = Signal()
        m.d.comb += [
            stays.eq(self._stays(c, top)),
            self.o.sum_floor.eq(sum_),
            self.o.c_floor.eq(c_.as_value() & stays.replicate(len(c_.as_value()))),
        ]
        return [self.i.step_sticky[self.step], sum_sticky, c_sticky]

    def _stays(self, c: data.View, top: data.View) -> Value:
        """1 if c takes part."""
        if self.widths.config.accumulator.parts == 1:
            return Const(1, 1)
        return ~top.any | (c.exponent >= top.exponent - (self.widths.fraction_bits + 1))


def floor_values(widths: FlooredWidths) -> dict[str, ShapeLike]:
    """Values that `FlooredJoin` writes for `FlooredSum`."""
    c_bits = max(FLOAT32.significand_bits, widths.fraction_bits + 1)
    return {
        "sum_floor": FloorLayout(widths.aligned_sum_bits + widths.more_bits),
        "c_floor": FloorLayout(c_bits),
    }


class FlooredSum(Section):
    """The step's sum plus the running value, on the finer grid."""

    def __init__(self, widths: Widths, step: int) -> None:
        self.widths, self.step = widths_of(widths), step
        super().__init__(floor_values(self.widths), {"total": signed(self.widths.total_bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        floors = [(self.i.sum_floor, 0), (self.i.c_floor, self.widths.more_bits)]
        m.d.comb += self.o.total.eq(add_floors(m, self.widths.total_bits, floors))
        return m


class FlooredRound(FusedRound):
    """The total rounded down below its leading digit, then RNE.

    A product that is too large for a float32 counts as an infinite term.
    """

    widths: FlooredWidths

    def _more(self) -> dict[str, ShapeLike]:
        return {"too_large": too_large_shape(self.widths)}

    def _total(self, m: Module) -> tuple[Value, Value]:
        total, kept = self.i.total, self.widths.config.accumulator.sum_bits
        # The magnitude's bits above those that are kept below a leading digit of place 0.
        places = max(len(total) - kept - 2, 0)
        top, rest = total[kept + 1 : -1], total[: kept + 1]
        magnitude = Signal(places)
        m.d.comb += magnitude.eq(Mux(total[-1], ~top + ~rest.any(), top))
        # Places that are more than `kept` below the leading digit, or below that of subnormals.
        finer = self.widths.total_fraction_bits - kept
        lowest = self.i.exponent == FLOAT32.emin
        gone = Cat(
            magnitude[place:].any() | (lowest if place < finer else Const(0, 1))
            for place in range(places)
        )
        low, high = total[:places], total[places:]
        cut = Signal(signed(len(total)))
        m.d.comb += cut.eq(Cat(low & ~gone, high))  # of two's complement: down
        return cut, (low & gone).any()

    def _special(self) -> data.View:
        terms = self.i.special[self.step].as_value() | self.i.too_large[self.step].as_value()
        return data.View(SpecialLayout(), terms)

    def _raised(self, m: Module, active: Value, flags: dict[str, Value]) -> dict[str, Value]:
        finite, _ = merge_special(
            m,
            "finite",
            self.i.before.c,
            self.i.special[self.step],
            self.widths.config.accumulator.nan_bits,
        )
        overflows = finite & self.i.too_large[self.step].as_value().any()
        return {
            "overflow": overflows | (active & flags["overflow"]),
            "underflow": active & flags["underflow"],
            "inexact": overflows | (active & flags["inexact"]),
        }


SECTIONS = {
    "largest": FusedLargest,
    "truncate": Truncate,
    "gather": Gather,
    "halves": Halves,
    "join": FlooredJoin,
    "sum": FlooredSum,
    "round": FlooredRound,
}
