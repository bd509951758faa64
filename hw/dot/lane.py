"""Parts of a lane: element decoder, exact product (contract, section 3) and alignment shifter."""

from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import ElementFormat, Specials
from ...model.pipeline.widths import OperandWidths, Widths
from ..arithmetic.adders import named, ripple, signed_word
from ..arithmetic.columns import Columns
from ..arithmetic.floats import SpecialLayout
from ..arithmetic.multiply import Multiplier, MultiplierRows
from ..arithmetic.select import select_by_mode
from ..arithmetic.shift import place_right
from ..hierarchy import submodule


def _value_text(weight: int) -> str:
    """Value of a float whose last digit is worth 2^weight at the exponent 0."""
    sign = "-" if weight < 0 else "+"
    return f"(-1)^sign x significand x 2^(exponent {sign} {abs(weight)})"


class ElementLayout(data.StructLayout):
    """value = (-1)^sign x significand x 2^(exponent + exponent_min - fraction_bits), or special."""

    def __init__(self, widths: OperandWidths) -> None:
        weight = widths.exponent_min - widths.fraction_bits
        self.meaning = f"{_value_text(weight)}, or special"
        super().__init__(
            {
                "significand": widths.significand_bits,
                "exponent": widths.exponent_bits,
                "sign": 1,
                "nan": 1,
                "inf": 1,
            }
        )


class ElementDecoder(wiring.Component):
    """A code to its sign, significand and exponent, or a special value; combinational.

    `mode` selects among the operand formats `widths.formats`.

    Ports:

    - `code` in, the widest format's bits: a narrower code in the low bits
    - `mode` in, bits enough for an index of the formats: format of the code, the last format for
      larger numbers; no such port for one format
    - `micro` in, 1 bit: micro-exponent; no such port for operands without one
    - `element` out, `ElementLayout`: significand and exponent are meaningless for a special code
    """

    def __init__(self, widths: OperandWidths) -> None:
        self.widths = widths
        self.variant = "_".join(fmt.name for fmt in widths.formats)
        super().__init__(
            {
                "code": In(widths.code_bits),
                "mode": In((len(widths.formats) - 1).bit_length()),
                "micro": In(int(widths.micro)),
                "element": Out(ElementLayout(widths)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        chosen = select_by_mode(self.mode, self.widths.formats, lambda fmt: self._decode(m, fmt))
        m.d.comb += self.element.eq(chosen)
        return m

    def _lowered(self, exponent: ValueLike) -> ValueLike:
        """A biased exponent, less the micro-exponent."""
        return Value.cast(exponent) - self.micro if self.widths.micro else exponent

    def _decode(self, m: Module, fmt: ElementFormat) -> data.View:
        """Element of the code in format `fmt`."""
        widths = self.widths
        out = Signal(ElementLayout(widths), name=fmt.name)
        code = self.code[: fmt.bits]
        align = widths.fraction_bits - fmt.mantissa_bits
        m.d.comb += out.sign.eq(code[-1])
        if fmt.is_integer:
            magnitude = Signal(fmt.bits, name=f"{fmt.name}_magnitude")
            m.d.comb += [
                magnitude.eq(Mux(code[-1], -code, code)),
                out.significand.eq(magnitude << align),
                out.exponent.eq(self._lowered(fmt.emin - widths.exponent_min)),
            ]
            return out
        fraction = code[: fmt.mantissa_bits]
        field = code[fmt.mantissa_bits : -1]
        normal = field.any()
        # A subnormal has the exponent of the smallest normal, the field 1, and no hidden one.
        exponent = Cat(field[0] | ~field[1:].any(), field[1:])
        kept = fraction & normal.replicate(len(fraction)) if widths.flushes else fraction
        m.d.comb += [
            out.significand.eq(Cat(Const(0, align), kept, normal)),
            out.exponent.eq(self._lowered(exponent + (fmt.emin - 1 - widths.exponent_min))),
        ]
        if fmt.specials is Specials.NAN_ONLY:
            m.d.comb += out.nan.eq(field.all() & fraction.all())
        elif fmt.specials is Specials.FNUZ:
            m.d.comb += out.nan.eq(code[-1] & ~code[:-1].any())
        elif fmt.specials is Specials.IEEE:
            m.d.comb += out.nan.eq(field.all() & fraction.any())
            m.d.comb += out.inf.eq(field.all() & ~fraction.any())
        return out


class ProductLayout(data.StructLayout):
    """value = (-1)^sign x significand x 2^(exponent + exponent_min - product_fraction_bits)."""

    def __init__(self, widths: Widths) -> None:
        self.meaning = _value_text(widths.exponent_min - widths.product_fraction_bits)
        super().__init__(
            {
                "significand": widths.product_bits,
                "exponent": widths.exponent_bits,
                "sign": 1,
                "nonzero": 1,
            }
        )


class ProductRowsLayout(data.StructLayout):
    """`ProductLayout` with the significand as two rows to add."""

    def __init__(self, widths: Widths) -> None:
        product = ProductLayout(widths)
        self.meaning = f"{product.meaning}, the significand as two words to add"
        fields = dict(product.members)
        bits = widths.a.significand_bits + widths.b.significand_bits
        super().__init__({**fields, "significand": data.ArrayLayout(bits, 2)})


class ProductLane(wiring.Component):
    """Two decoded elements to their product; combinational.

    Ports:

    - `a`, `b` in, `ElementLayout` of the operand: elements
    - `o` out, `ProductLayout`: not meaningful when a bit of `special` is set
    - `special` out, `SpecialLayout`: whether the product is NaN or an infinity
    """

    layout: ClassVar[type[data.StructLayout]] = ProductLayout
    multiplier: ClassVar[type[Multiplier | MultiplierRows]] = Multiplier

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            {
                "a": In(ElementLayout(widths.a)),
                "b": In(ElementLayout(widths.b)),
                "o": Out(self.layout(widths)),
                "special": Out(SpecialLayout()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = self.a, self.b
        significands = len(a.significand), len(b.significand)
        multiplier = submodule(m, "multiplier", self.multiplier(*significands))
        a_zero = Signal()
        b_zero = Signal()
        negative = Signal()
        nan = Signal()
        infinite = Signal()
        m.d.comb += [
            a_zero.eq(a.significand == 0),
            b_zero.eq(b.significand == 0),
            negative.eq(a.sign ^ b.sign),
            multiplier.a.eq(a.significand),
            multiplier.b.eq(b.significand),
            self.o.significand.eq(multiplier.product),
            self.o.exponent.eq(_sum(m, a.exponent, b.exponent, len(self.o.exponent))),
            self.o.sign.eq(negative),
            self.o.nonzero.eq(~a_zero & ~b_zero),
            nan.eq(a.nan | b.nan | (a.inf & b_zero) | (a_zero & b.inf)),
            infinite.eq((a.inf | b.inf) & ~nan),
            self.special.nan.eq(nan),
            self.special.pos_inf.eq(infinite & ~negative),
            self.special.neg_inf.eq(infinite & negative),
        ]
        return m


class ProductRowsLane(ProductLane):
    """`ProductLane` without the last addition: `o` is a `ProductRowsLayout`."""

    layout = ProductRowsLayout
    multiplier = MultiplierRows


def _sum(m: Module, a: Value, b: Value, width: int) -> Value:
    """a + b, a few bits each. The smallest adder will do, because the multiplier takes longer."""
    columns = Columns(m, "exponents", width)
    columns.add(a)
    columns.add(b)
    return Cat(*ripple(m, "exponent", *columns.compress(halves_from=width)))


def places_around(widths: Widths) -> tuple[int, int]:
    """(last places of a product that are always cut, free places below it)."""
    # With fewer fraction bits than a product has, the last ones always go.
    more = widths.fraction_bits - widths.product_fraction_bits
    return max(-more, 0), max(more, 0)


class AlignShifter(wiring.Component):
    """word = RZ(significand x 2^(F - product_fraction_bits - distance)), or its digits inverted;
    combinational.

    Ports:

    - `significand` in, `Widths.product_bits`: the product's significand
    - `inverts` in, 1 bit: digits are inverted, which `add_terms` wants for negative terms
    - `distance` in, `distance_bits`: distance of the product's unit digit below the largest
    - `word` out, `Widths.term_bits`: the term on the common grid
    - `sticky` out, 1 bit: a one was cut off
    """

    def __init__(self, widths: Widths, distance_bits: int) -> None:
        self.widths = widths
        super().__init__(
            {
                "significand": In(widths.product_bits),
                "inverts": In(1),
                "distance": In(distance_bits),
                "word": Out(widths.term_bits),
                "sticky": Out(1),
            }
        )
        self.distance_bits = distance_bits

    def elaborate(self, platform: object) -> Module:
        m = Module()
        below, above = places_around(self.widths)
        fill, digits = self.inverts, signed_word(self.significand, self.inverts)
        word = named(m, "whole", Cat(fill.replicate(above), digits))
        placed = place_right(m, word, self.distance, "term", fill)
        # A digit is cut off where the distance is larger than its place on the grid.
        farthest = (1 << self.distance_bits) - 1
        places = range(above - below, min(above - below + len(digits), farthest))
        cut = Cat(self.distance > place for place in places) & self.significand
        m.d.comb += [self.word.eq(placed[below:]), self.sticky.eq(cut.any())]
        return m
