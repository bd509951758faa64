"""Element decoder: a code of a run-time selectable format to sign, significand and exponent."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import ElementFormat, Specials
from ...model.widths import OperandWidths
from ..arithmetic.select import select_by_mode


class ElementLayout(data.StructLayout):
    """value = (-1)^sign x significand x 2^(exponent + exponent_min - fraction_bits), or special."""

    def __init__(self, widths: OperandWidths) -> None:
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
    """Combinational decoder of the operand formats `widths.formats`, selected by `mode`.

    Ports:

    - `code` in, the widest format's bits: a narrower code in the low bits
    - `mode` in, bits enough for an index of the formats: which one; no such port of one format
    - `micro` in, 1 bit: micro-exponent; no such port of operands without one
    - `element` out, `ElementLayout`: significand and exponent are not meaningful for a special code
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
        """The element that the code is in format `fmt`."""
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
