"""Sections of `aligned:F`: largest, offset, align, the tree, cut for sums with too many digits, and
the loop of float_loop.py.
"""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import data

from ...model.formats import FLOAT32
from ...model.pipeline.widths import FEWER_LEADERS, LEADERS, Widths
from ..arithmetic.adders import signed_word
from ..arithmetic.scale import SCALE_SHAPE
from ..arithmetic.select import larger_of_pairs
from ..arithmetic.shift import ShiftBy, leading_zeros
from ..hierarchy import submodule
from ..pipeline import Section, whole_or_parts
from . import float_loop
from .block import TREE, BlockFactor, loop_values, top_bias, words_shape
from .lane import AlignShifter, places_around
from .multiply import compress_negatives, named_bias, negatives_shape, products_shape
from .window import range_value, sticky_bits, window_of


class AlignedLargest(Section):
    """The largest biased exponent of the block's non-zero products.

    largest: largest biased exponent of the products that are not 0. leaders: the same per group of
    products.
    """

    def __init__(self, widths: Widths, number: int) -> None:
        self.number = number
        leaders = FEWER_LEADERS if widths.config.is_cut_finer else LEADERS
        self.before, self.after = (
            -(-widths.config.lanes // leaders ** (number - 1)),
            -(-widths.config.lanes // leaders**number),
        )
        bits = widths.exponent_bits
        leaders = {"leaders": data.ArrayLayout(bits, self.before)}
        left = {"leaders": data.ArrayLayout(bits, self.after)}
        super().__init__(
            {"products": products_shape(widths)} if number == 1 else leaders,
            left if self.after > 1 else {"largest": bits},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self.number == 1:
            # A zero term's exponent is masked, so that it takes no part.
            values: list[Value] = [
                product.exponent & product.nonzero.replicate(len(product.exponent))
                for product in self.i.products
            ]
        else:
            values = list(self.i.leaders)
        level = 0
        while len(values) > self.after:
            level += 1
            values = larger_of_pairs(m, f"level{level}", values)
        if self.after == 1:
            m.d.comb += self.o.largest.eq(values[0])
        else:
            m.d.comb += [leader.eq(x) for leader, x in zip(self.o.leaders, values, strict=True)]
        return m


class Offset(Section):
    """Distance of each product's unit digit below the largest.

    offsets: distances of the products' unit digits below the largest.
    """

    def __init__(self, widths: Widths) -> None:
        lanes, bits = widths.config.lanes, widths.exponent_bits
        super().__init__(
            {"products": products_shape(widths), "largest": bits},
            {"offsets": data.ArrayLayout(bits, lanes)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for distance, product in zip(self.o.offsets, self.i.products, strict=True):
            m.d.comb += distance.eq(self.i.largest - product.exponent)
        return m


def _align_inputs(widths: Widths) -> dict[str, ShapeLike]:
    """Values that an alignment reads."""
    return {
        "products": products_shape(widths),
        "offsets": data.ArrayLayout(widths.exponent_bits, widths.config.lanes),
        "largest": widths.exponent_bits,
        "negatives": negatives_shape(widths, 0),
        "scale": SCALE_SHAPE,
    }


class Align(Section):
    """Each product truncated F bits below the largest unit digit."""

    shifter: Callable[..., AlignShifter] = AlignShifter
    """A subclass with another shifter, a component with these ports, may round."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            _align_inputs(widths),
            {
                "words": words_shape(widths),
                "negatives": negatives_shape(widths, 1),
                "sticky": 1,
                **loop_values(widths),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        sticky = []
        for index in range(widths.config.lanes):
            product = self.i.products[index]
            shift = submodule(m, f"shift{index}", self.shifter(widths, widths.exponent_bits))
            m.d.comb += [
                shift.significand.eq(product.significand),
                shift.inverts.eq(product.sign),
                shift.distance.eq(self.i.offsets[index]),
                self.o.words[index].eq(shift.word),
            ]
            sticky.append(shift.sticky)
        compress_negatives(m, self)
        m.d.comb += self.o.sticky.eq(Cat(sticky).any())
        put_top_exponent(m, self)
        return m


def put_top_exponent(m: Module, section: Any) -> None:
    """Write `top_exponent`: a sum's last digit is worth 2^(largest + exponent_min - F)."""
    bias = named_bias(m, top_bias(section.widths, section.widths.grid))
    m.d.comb += section.o.top_exponent.eq(section.i.scale + section.i.largest + bias)


NEAR_LEVELS = 2
"""Levels of the shift in the first part of `align`."""


class MovedLayout(data.StructLayout):
    """A product on its way to the grid: the word so far, the remaining digits of its
    distance, and `beyond` if the distance is so large that nothing is left.
    """

    def __init__(self, widths: Widths) -> None:
        word = widths.product_bits + places_around(widths)[1]
        levels = min(widths.exponent_bits, (word - 1).bit_length() or 1)
        self.levels = levels
        super().__init__({"word": word, "digits": max(levels - NEAR_LEVELS, 0), "beyond": 1})


def moved_shape(widths: Widths) -> data.ArrayLayout:
    """The value `moved`: a product per lane."""
    return data.ArrayLayout(MovedLayout(widths), widths.config.lanes)


class AlignNear(Section):
    """Shifts each product by the last digits of its distance below the largest.

    moved_sticky: a digit 1 was cut off.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            _align_inputs(widths),
            {
                "moved": moved_shape(widths),
                "negatives": negatives_shape(widths, 1),
                "moved_sticky": 1,
                **loop_values(widths),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        levels, above = MovedLayout(self.widths).levels, places_around(self.widths)[1]
        sticky = []
        for index, moved in enumerate(self.o.moved):
            shift = submodule(
                m, f"shift{index}", ShiftBy(len(moved.word), min(levels, NEAR_LEVELS))
            )
            distance = self.i.offsets[index]
            m.d.comb += [
                shift.value.eq(Cat(Const(0, above), self.i.products[index].significand)),
                shift.amount.eq(distance),
                moved.word.eq(shift.result),
                moved.digits.eq(distance[NEAR_LEVELS:levels]),
                moved.beyond.eq(distance[levels:].any()),
            ]
            sticky.append(shift.sticky)
        compress_negatives(m, self)
        m.d.comb += self.o.moved_sticky.eq(Cat(sticky).any())
        put_top_exponent(m, self)
        return m


class AlignFar(Section):
    """Shifts each product by the remaining digits of its distance, and inverts negative ones."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            {
                "products": products_shape(widths),
                "moved": moved_shape(widths),
                "moved_sticky": 1,
            },
            {"words": words_shape(widths), "sticky": sticky_bits(widths)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        below, _ = places_around(self.widths)
        sticky: list[Value] = []
        for index, moved in enumerate(self.i.moved):
            sizes = len(moved.word), len(moved.digits)
            shift = submodule(m, f"shift{index}", ShiftBy(*sizes, NEAR_LEVELS))
            word = Signal(len(moved.word), name=f"word{index}")
            m.d.comb += [
                shift.value.eq(moved.word),
                shift.amount.eq(moved.digits),
                word.eq(Mux(moved.beyond, 0, shift.result)),
                self.o.words[index].eq(signed_word(word[below:], self.i.products[index].sign)),
            ]
            gone = moved.beyond & shift.result.any()
            sticky.append(shift.sticky | gone | word[:below].any())
        size = len(sticky) // len(self.o.sticky)
        parts = [Cat(sticky[i : i + size]).any() for i in range(0, len(sticky), size)]
        m.d.comb += self.o.sticky.eq(Cat(parts[0] | self.i.moved_sticky, *parts[1:]))
        return m


class Cut(Section):
    """Sum of the block toward zero to a float32, still on the grid.

    Digits more than 24 places below the leading one are cut. A negative sum is a negative word, so
    one is added if a digit was cut. If operands have (nearly) the exponents of a float32, digits
    below its last place are cut too, and `range` reports a sum outside its range.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths, self.window = widths, window_of(widths)
        super().__init__(
            {
                "total": signed(widths.total_bits),
                "sticky": 1,
                **({"largest": widths.exponent_bits} if range_value(widths) else {}),
            },
            {"rows": self.window.rows, "sticky": 1, **range_value(widths)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        size = self.widths.sum_bits
        total, negative = self.i.total, self.i.total[-1]
        magnitude = Signal(size)
        m.d.comb += magnitude.eq(Mux(negative, -total, total))
        count = leading_zeros(m, magnitude)
        # The lowest place that stays is that of the leading one less 23.
        excess = size - FLOAT32.significand_bits
        places: list[Value] = [count <= excess - 1 - place for place in range(max(excess, 0))]
        if "range" in self.writes:
            places = self._below_range(places)
        gone = Signal(len(places))
        m.d.comb += gone.eq(Cat(*places))
        truncated = Signal(size)
        lost = (magnitude[: len(gone)] & gone).any()
        m.d.comb += [
            truncated.eq(Cat(magnitude[: len(gone)] & ~gone, magnitude[len(gone) :])),
            self.o.sticky.eq(self.i.sticky | lost),
        ]
        if "range" in self.writes:
            out, largest, least = self.o.range, FLOAT32.emax + 1, FLOAT32.emin
            m.d.comb += [
                out.overflow.eq(self._has_digits(magnitude, largest)),
                out.negative.eq(negative),
                out.underflow.eq(lost & ~self._has_digits(truncated, least)),
            ]
        # -truncated = ~truncated + 1, the one in a row of its own.
        width = self.window.row_bits
        word = Cat(truncated, Const(0, width - size)) ^ negative.replicate(width)
        m.d.comb += [self.o.rows[0].eq(word), self.o.rows[1].eq(negative)]
        return m

    def _exponents(self) -> list[Value]:
        """Exponents of the places of the sum."""
        return [
            (self.i.largest + (self.widths.grid + place)).as_signed()
            for place in range(self.widths.sum_bits)
        ]

    def _below_range(self, places: list[Value]) -> list[Value]:
        """`places`, and the places below a float32's last digit."""
        below = [exponent < FLOAT32.lsb for exponent in self._exponents()]
        return [
            low | places[place] if place < len(places) else low for place, low in enumerate(below)
        ]

    def _has_digits(self, word: Value, exponent: int) -> Value:
        """True if a word of the sum's places has a digit at this exponent or above."""
        return (Cat(*(e >= exponent for e in self._exponents())) & word).any()


SECTIONS = {
    "largest": AlignedLargest,
    "offset": Offset,
    "align": whole_or_parts(Align, AlignNear, AlignFar),
    **TREE,
    "cut": Cut,
    "factor": BlockFactor,
    **float_loop.SECTIONS,
}
