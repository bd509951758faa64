"""Sums of many words: sign-magnitude terms, and two's-complement words."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .adders import carry_increment, ripple
from .columns import Columns

BLOCKS = (12, 9, 8, 7, 6)  # of the final adder: carries from below come later and later
HALVES_FROM = 6  # lower columns end in a short ripple, which the final adder waits for anyway
TERM_TIME = 6.0  # about when terms come
COUNT_TIME, LATE_COUNT = 3.0, 8.0  # when it is known how many are negative: before long terms


class TermLayout(data.StructLayout):
    """A signed term: (-1)^sign x magnitude."""

    def __init__(self, bits: int) -> None:
        super().__init__({"magnitude": bits, "sign": 1})


def count_negatives(m: Module, name: str, signs: Sequence[Value]) -> Value:
    """How many of the signs are set."""
    columns = Columns(m, f"{name}_negative", len(signs).bit_length())
    for sign in signs:
        columns.add([sign])
    negatives = Signal(columns.width, name=f"{name}_negatives")
    rows = columns.compress(halves_from=columns.width)
    m.d.comb += negatives.eq(Cat(*ripple(m, f"{name}_count", *rows)))
    return negatives


def signed_word(magnitude: Value, sign: Value) -> Value:
    """The magnitude, inverted with the sign: what `add_terms` takes."""
    return magnitude ^ Value.cast(sign).replicate(len(magnitude))


def add_terms(
    columns: Columns,
    words: Sequence[Value],
    negatives: Sequence[Value],
    count_time: float = COUNT_TIME,
) -> None:
    """Add signed terms, none of which is negated or sign-extended: each is a `signed_word` of one
    width w, and the words `negatives` add up to the number n of those that are negative.

    The sum is that of the w-bit words plus n less n x 2^w: n comes where columns have a place left,
    and inverted at place w.
    """
    width = len(words[0])
    for word in words:
        columns.add(word, time=TERM_TIME)
    for number in negatives:
        columns.add_where_free(number, time=count_time)
        columns.add(~number, width, count_time)
        columns.add_constant((1 << width) - (1 << (width + len(number))))


def total_of(columns: Columns) -> Value:
    """The sum of the columns as a signed word of their width."""
    x, y = columns.compress(HALVES_FROM)
    digits, _ = carry_increment(columns.m, f"{columns.name}_add", x, y, BLOCKS)
    return Cat(*digits).as_signed()


def rows_of(columns: Columns) -> list[Value]:
    """Two words whose sum, modulo 2^width, is that of the columns."""
    return [Cat(*(bit.value for bit in row)) for row in columns.compress(HALVES_FROM)]


def signed_sum(m: Module, name: str, words: Sequence[Value]) -> Value:
    """The exact sum of 2^n two's-complement `words` of one width w, w + n bits."""
    width = len(Value.cast(words[0]))
    columns = Columns(m, name, width + (len(words) - 1).bit_length())
    for word in words:
        *digits, sign = Value.cast(word)
        # -x = (1 - x) - 1, of the sign bits.
        columns.add([*digits, ~sign], time=TERM_TIME)
        columns.add_constant(-(1 << (width - 1)))
    return total_of(columns)


class AdderTree(wiring.Component):
    """The exact sum of `count` terms; combinational.

    Ports:

    - `terms` in, `count` x `TermLayout` of `bits`: magnitudes with their signs
    - `total` out, `total_bits`, signed: the sum, which must fit
    """

    def __init__(self, count: int, bits: int, total_bits: int) -> None:
        self.count, self.bits, self.total_bits = count, bits, total_bits
        super().__init__(
            {
                "terms": In(data.ArrayLayout(TermLayout(bits), count)),
                "total": Out(signed(total_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = Columns(m, "sum", self.total_bits)
        terms = [self.terms[i] for i in range(self.count)]
        words = []
        for index, term in enumerate(terms):
            words.append(Signal(self.bits, name=f"word{index}"))
            m.d.comb += words[index].eq(signed_word(term.magnitude, term.sign))
        add_terms(columns, words, [count_negatives(m, "sum", [term.sign for term in terms])])
        m.d.comb += self.total.eq(total_of(columns))
        return m
