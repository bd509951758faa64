"""Final adders, which add two rows of bits, and trees that add many words.

`ripple` is the smallest, for short words. `carry_increment` adds short blocks without a carry and
then increments each by the carry from below (Zimmermann, "Binary Adder Architectures for Cell-Based
VLSI", ETH Zurich 1997): hardly larger, and its carry passes a block in one gate. A block is as long
as its bits' arrivals and the carry from below leave time for.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..hierarchy import is_plain
from .columns import ZERO, Bit, Columns, add_bits, is_constant

NO_CARRY = Const(0, 1)
BLOCK_DELAY = 2.5  # delay of a carry past a block, in delays of one digit


def ripple(m: Module, name: str, x: Sequence[Bit], y: Sequence[Bit]) -> list[Value]:
    """x + y modulo 2^len(x), by a chain of full and half adders."""
    if is_plain():
        return plain_sum(m, name, x, y)[:-1]
    carry: Value | None = None
    total: list[Value] = []
    for place, (a, b) in enumerate(zip(x, y, strict=True)):
        bits = [bit.value for bit in (a, b) if not _zero(bit)]
        bits += [] if carry is None else [carry]
        last = place == len(x) - 1
        if last or len(bits) < 2:
            total.append(_parity(bits))
            carry = None
        else:
            digit, carry = add_bits(m, f"{name}{place}", *bits)
            total.append(digit)
    return total


def plain_sum(
    m: Module, name: str, x: Sequence[Bit], y: Sequence[Bit], carry: Value = NO_CARRY
) -> list[Value]:
    """Digits of x + y + carry, by `+`, and the carry out."""
    words = [Cat(*(bit.value for bit in row)) for row in (x, y) if not all(map(_zero, row))]
    words += [] if is_constant(carry, 0) else [carry]
    total = Signal(len(x) + 1, name=f"{name}_total")
    m.d.comb += total.eq(reduce(add, words, Const(0, 1)))
    return list(total)


def even_blocks(width: int) -> list[int]:
    """Block sizes for `carry_increment` of words whose bits arrive together.

    Each block is longer than the one below by the bits that its carry ripples through while a carry
    passes one block.
    """
    best: tuple[float, list[int]] = (float("inf"), [])
    for count in range(1, width + 1):
        growth = [round(BLOCK_DELAY * i) for i in range(count)]
        first = max(2, -(-(width - sum(growth)) // count))
        sizes = [first + more for more in growth]
        if sum(sizes[:-1]) >= width:
            break
        best = min(best, (first + BLOCK_DELAY * count, sizes))
    return best[1]


def carry_increment(
    m: Module,
    name: str,
    x: Sequence[Bit],
    y: Sequence[Bit],
    sizes: Sequence[int],
    carry: Value = NO_CARRY,
) -> tuple[list[Value], Value]:
    """(x + y + carry modulo 2^len(x), carry out). `sizes`: bits per block, the last repeated."""
    return pass_carries(m, name, add_in_blocks(m, name, x, y, sizes, carry))


def add_in_blocks(
    m: Module,
    name: str,
    x: Sequence[Bit],
    y: Sequence[Bit],
    sizes: Sequence[int],
    carry: Value = NO_CARRY,
) -> list[tuple[list[Value], Value]]:
    """(digits, carry out) per block of x + y. Only the lowest block takes the carry in.

    sizes: see `carry_increment`.
    """
    blocks: list[tuple[list[Value], Value]] = []
    place, total = 0, plain_sum(m, name, x, y, carry) if is_plain() else []
    while place < len(x):
        number = len(blocks)
        size = min(sizes[min(number, len(sizes) - 1)], len(x) - place)
        block = slice(place, place + size)
        if total:  # no carry is left to pass, except out of the last block
            out = total[-1] if place + size == len(x) else NO_CARRY
            blocks.append((total[block], out))
            place += size
            continue
        below = NO_CARRY if number else carry
        blocks.append(_block(m, f"{name}{number}", x[block], y[block], below))
        place += size
    return blocks


def pass_carries(
    m: Module, name: str, blocks: Sequence[tuple[list[Value], Value]]
) -> tuple[list[Value], Value]:
    """(digits, carry out) of the blocks of `add_in_blocks` with the carries from below."""
    if is_plain():
        return [digit for digits, _ in blocks for digit in digits], blocks[-1][1]
    total: list[Value] = []
    carry = NO_CARRY
    for number, (digits, out) in enumerate(blocks):
        if number:
            digits, out = _increment(m, f"{name}{number}", digits, out, carry)
        total += digits
        carry = named(m, f"{name}{number}_carry", out)
    return total, carry


def pass_carries_at_once(
    m: Module, name: str, blocks: Sequence[tuple[list[Value], Value]]
) -> list[Value]:
    """Digits of `pass_carries` for blocks that arrive together: carries by parallel prefix, after
    Sklansky, "Conditional-Sum Addition Logic" (IRE Trans. Electronic Computers, 1960).
    """
    if is_plain():
        return pass_carries(m, name, blocks)[0]
    digits = [
        [named(m, f"{name}{number}_digit{place}", digit) for place, digit in enumerate(block)]
        for number, (block, _) in enumerate(blocks)
    ]
    carries = carries_at_once(m, name, digits, [carry for _, carry in blocks])
    return list(digits[0]) + increment_blocks(m, name, digits, carries)


def carries_at_once(
    m: Module, name: str, digits: Sequence[Sequence[Value]], outs: Sequence[Value]
) -> list[Value]:
    """A bit per block of `digits`: a carry leaves it. `outs`: carries that the blocks make
    themselves.
    """
    if is_plain():
        return list(outs)
    # Runs of blocks make a carry or pass one on; a run doubles its length in each round.
    makes = list(outs)
    passes: list[Value] = [_all(block) for block in digits]
    span = 1
    while span < len(makes):
        for number in range(len(makes)):
            if number & span:
                below = number // span * span - 1
                carry = makes[number] | (passes[number] & makes[below])
                both = passes[number] & passes[below]
                makes[number] = named(m, f"{name}{number}_makes{span}", carry)
                passes[number] = named(m, f"{name}{number}_passes{span}", both)
        span *= 2
    return makes


def increment_blocks(
    m: Module, name: str, digits: Sequence[Sequence[Value]], carries: Sequence[Value]
) -> list[Value]:
    """Digits of all blocks except the lowest, each plus the carry from below."""
    if is_plain():
        return [digit for block in digits[1:] for digit in block]
    total: list[Value] = []
    for number in range(1, len(digits)):
        run = carries[number - 1]
        for place, digit in enumerate(digits[number]):
            total.append(digit ^ run)
            run = named(m, f"{name}{number}_run{place}", digit & run)
    return total


def _block(
    m: Module, name: str, x: Sequence[Bit], y: Sequence[Bit], carry: Value
) -> tuple[list[Value], Value]:
    """(digits, carry out) of a block with a rippling carry."""
    digits = []
    for place, (a, b) in enumerate(zip(x, y, strict=True)):
        if _zero(a) and _zero(b):
            digits.append(carry)
            carry = NO_CARRY
            continue
        if _zero(a) or _zero(b):
            one = b.value if _zero(a) else a.value
            digits.append(_xor(one, carry))
            carry = _and(one, carry)
        else:
            half = named(m, f"{name}_half{place}", a.value ^ b.value)
            digits.append(_xor(half, carry))
            passed = _and(a.value | b.value, carry)
            carry = a.value & b.value if is_constant(carry, 0) else (a.value & b.value) | passed
        carry = named(m, f"{name}_carry{place}", carry)
    return digits, carry


def _increment(
    m: Module, name: str, digits: list[Value], out: Value, carry: Value
) -> tuple[list[Value], Value]:
    """(digits of a block plus the carry from below, carry out of that)."""
    signals = [named(m, f"{name}_digit{place}", digit) for place, digit in enumerate(digits)]
    run: Value = carry
    incremented = []
    for place, digit in enumerate(signals):
        incremented.append(digit ^ run)
        run = named(m, f"{name}_run{place}", digit & run)
    return incremented, out | (carry & _all(signals))


SKIPPED = 6  # digits of a group that a carry skips


def skips(m: Module, name: str, word: Sequence[Value]) -> list[Value]:
    """A bit per group of `increment` above the lowest: all digits below the group are ones."""
    starts = range(SKIPPED, len(word), SKIPPED)
    return [named(m, f"{name}_skip{start}", _all(word[:start])) for start in starts]


def runs_of_groups(
    m: Module, name: str, word: Sequence[Value], passes: Iterable[Value]
) -> list[Value]:
    """A bit per place: this digit and all below are ones. `passes`: early, from `skips`."""
    runs: list[Value] = []
    for start, below in zip(range(0, len(word), SKIPPED), [Const(1, 1), *passes], strict=True):
        run: Value = below
        for place, digit in enumerate(word[start : start + SKIPPED], start):
            run = named(m, f"{name}_run{place}", run & digit)
            runs.append(run)
    return runs


def increment_groups(
    m: Module, name: str, word: Sequence[Value], carry: Value, passes: Iterable[Value]
) -> list[Value]:
    """word + carry modulo 2^len(word). `passes`: early, from `skips`."""
    if is_plain():
        return increment(m, name, word, carry)[0]
    result: list[Value] = []
    for start, below in zip(range(0, len(word), SKIPPED), [Const(1, 1), *passes], strict=True):
        run = named(m, f"{name}_in{start}", carry & below)
        for place, digit in enumerate(word[start : start + SKIPPED], start):
            result.append(digit ^ run)
            run = named(m, f"{name}_run{place}", digit & run)
    return result


def increment(
    m: Module, name: str, word: Sequence[Value], carry: Value, group: int = SKIPPED
) -> tuple[list[Value], Value]:
    """(word + carry modulo 2^len(word), carry out). Carries skip over groups of digits."""
    if is_plain():
        bits = [Bit(digit) for digit in word]
        *digits, out = plain_sum(m, name, bits, [ZERO] * len(bits), carry)
        return digits, out
    result: list[Value] = []
    carry = named(m, f"{name}_carry", carry)
    below: Value = Const(1, 1)
    for start in range(0, len(word), group):
        part = word[start : start + group]
        run = named(m, f"{name}_in{start}", carry & below) if start else carry
        for place, digit in enumerate(part, start):
            result.append(digit ^ run)
            run = named(m, f"{name}_run{place}", digit & run)
        ones = named(m, f"{name}_ones{start}", _all(part))
        below = named(m, f"{name}_skip{start}", below & ones) if start else ones
    return result, carry & below


def _all(bits: Sequence[Value]) -> Value:
    result = bits[0]
    for bit in bits[1:]:
        result = result & bit
    return result


def named(m: Module, name: str, value: Value) -> Value:
    """`value` as a signal with this name, so that the Verilog computes it once; signals pass
    unchanged.
    """
    if isinstance(value, (Const, Signal)):
        return value
    signal = Signal(value.shape(), name=name)
    m.d.comb += signal.eq(value)
    return signal


def _parity(bits: Sequence[Value]) -> Value:
    result: Value = Const(0, 1)
    for bit in bits:
        result = bit if is_constant(result, 0) else result ^ bit
    return result


def _zero(bit: Bit) -> bool:
    return is_constant(bit.value, 0)


def _xor(a: Value, b: Value) -> Value:
    return a if is_constant(b, 0) else a ^ b


def _and(a: Value, b: Value) -> Value:
    return b if is_constant(b, 0) else a & b


BLOCKS = (12, 9, 8, 7, 6)  # blocks of the final adder: carries from below come later and later
HALVES_FROM = 6  # lower columns end in a short ripple, which the final adder waits for anyway
TERM_TIME = 6.0  # approximate arrival of terms
COUNT_TIME, LATE_COUNT = 3.0, 8.0  # arrival of the number of negative terms: before long terms


class TermLayout(data.StructLayout):
    """A signed term: (-1)^sign x magnitude."""

    def __init__(self, bits: int) -> None:
        super().__init__({"magnitude": bits, "sign": 1})


def count_negatives(m: Module, name: str, signs: Sequence[Value]) -> Value:
    """Number of signs that are set."""
    columns = Columns(m, f"{name}_negative", len(signs).bit_length())
    for sign in signs:
        columns.add([sign])
    negatives = Signal(columns.width, name=f"{name}_negatives")
    rows = columns.compress(halves_from=columns.width)
    m.d.comb += negatives.eq(Cat(*ripple(m, f"{name}_count", *rows)))
    return negatives


def signed_word(magnitude: Value, sign: Value) -> Value:
    """The magnitude, inverted if the sign is set; `add_terms` takes such words."""
    return magnitude ^ Value.cast(sign).replicate(len(magnitude))


def add_terms(
    columns: Columns,
    words: Sequence[Value],
    negatives: Sequence[Value],
    count_time: float = COUNT_TIME,
) -> None:
    """Add signed terms without negating or sign-extending them.

    Each term is a `signed_word` of one width w. The words `negatives` add up to the number n of
    negative terms. The sum is the sum of the w-bit words, plus n, less n x 2^w: n goes where
    columns have a place left, and inverted to place w.
    """
    width = len(words[0])
    for word in words:
        columns.add(word, time=TERM_TIME)
    for number in negatives:
        columns.add_where_free(number, time=count_time)
        columns.add(~number, width, count_time)
        columns.add_constant((1 << width) - (1 << (width + len(number))))


def total_of(columns: Columns) -> Value:
    """Sum of the columns, a signed word as wide as they are."""
    x, y = columns.compress(HALVES_FROM)
    digits, _ = carry_increment(columns.m, f"{columns.name}_add", x, y, BLOCKS)
    return Cat(*digits).as_signed()


def rows_of(columns: Columns) -> list[Value]:
    """Two words whose sum, modulo 2^width, is the sum of the columns."""
    return [Cat(*(bit.value for bit in row)) for row in columns.compress(HALVES_FROM)]


def signed_sum(m: Module, name: str, words: Sequence[Value]) -> Value:
    """Exact sum of 2^n two's-complement `words`, each w bits wide: w + n bits."""
    width = len(Value.cast(words[0]))
    columns = Columns(m, name, width + (len(words) - 1).bit_length())
    for word in words:
        *digits, sign = Value.cast(word)
        # A sign bit x counts as -x = (1 - x) - 1.
        columns.add([*digits, ~sign], time=TERM_TIME)
        columns.add_constant(-(1 << (width - 1)))
    return total_of(columns)


class AdderTree(wiring.Component):
    """Exact sum of `count` terms; combinational.

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
