"""Adders, compressor trees and multipliers: every case of the small ones, against integers."""

# Components defined here get their attributes while they run.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from compare import generator
from hw_bench import Evaluator, assert_same
from mxdot.hw.arithmetic.adders import (
    carry_increment,
    even_blocks,
    increment,
    increment_groups,
    ripple,
    rows_of,
    runs_of_groups,
    skips,
    total_of,
)
from mxdot.hw.arithmetic.columns import Bit, Columns, FullAdder, HalfAdder
from mxdot.hw.arithmetic.multiply import Multiplier, add_signed_product, signed_constant


class Around(wiring.Component):
    """Ports `inputs` (their widths) and `o`, and what `body` makes of them."""

    def __init__(self, inputs: dict[str, int], width: int, body: Callable[..., Value]) -> None:
        self.body, self.names = body, list(inputs)
        super().__init__({name: In(bits) for name, bits in inputs.items()} | {"o": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(self.body(m, *(getattr(self, name) for name in self.names)))
        return m


def every(*bits: int) -> list[np.ndarray]:
    """Every combination of words of these widths."""
    return [grid.ravel() for grid in np.meshgrid(*(np.arange(2**n) for n in bits), indexing="ij")]


def numbers(rng: np.random.Generator, bits: int, count: int) -> np.ndarray:
    """Words of up to 62 bits: any, with long runs of ones and of zeros, and ends."""
    any_bits = rng.integers(0, 2**bits, count)
    runs = 2**bits - (1 << rng.integers(0, bits + 1, count))
    ends = rng.choice([0, 1, 2 ** (bits - 1), 2**bits - 1], count)
    return np.choose(rng.integers(0, 4, count), [any_bits, runs, runs ^ (2**bits - 1), ends])


# Full adders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3])
def test_rows_of_full_adders(width):
    a, b, c = every(*[width] * 3)
    got = Evaluator(FullAdder(width))(a=a, b=b, c=c)
    assert_same(got, {"sum": a ^ b ^ c, "carry": (a & b) | (a & c) | (b & c)}, a=a, b=b, c=c)


@pytest.mark.parametrize("width", [1, 4])
def test_rows_of_half_adders(width):
    a, b = every(width, width)
    got = Evaluator(HalfAdder(width))(a=a, b=b)
    assert_same(got, {"sum": a ^ b, "carry": a & b}, a=a, b=b)


# Final adders ------------------------------------------------------------------------------------


def digits_of(word: Value) -> list[Value]:
    return [Value.cast(word[i]) for i in range(len(word))]


def concatenation(digits: Sequence[Value]) -> Value:
    return Value.cast(Cat(*digits))


def bits_of(word: Value, constant: int, width: int) -> list[Bit]:
    """The bits of a word; those above it are the constant's."""
    digits = digits_of(word) + digits_of(Const(constant, max(width - len(word), 1)))
    return [Bit(digit) for digit in digits[:width]]


@pytest.mark.parametrize(
    ("x_bits", "y_bits", "width"), [(1, 1, 1), (4, 4, 5), (6, 3, 6), (2, 6, 7)]
)
def test_ripple(x_bits, y_bits, width):
    def body(m: Module, x: Value, y: Value) -> Value:
        return concatenation(ripple(m, "add", bits_of(x, 0, width), bits_of(y, 0, width)))

    x, y = every(x_bits, y_bits)
    got = Evaluator(Around({"x": x_bits, "y": y_bits}, width, body))(x=x, y=y)
    assert_same(got["o"], (x + y) % 2**width, x=x, y=y)


def carrying(width: int, sizes: tuple[int, ...]) -> Around:
    def body(m: Module, x: Value, y: Value, carry: Value) -> Value:
        rows = bits_of(x, 0, width), bits_of(y, 0, width)
        digits, out = carry_increment(m, "add", *rows, sizes, carry)
        return concatenation([*digits, out])

    return Around({"x": width, "y": width, "carry": 1}, width + 1, body)


@pytest.mark.parametrize("sizes", [(6,), (1,), (2, 1, 3), (4, 2), (3, 3)])
def test_carry_increment_of_every_case(sizes):
    x, y, carry = every(6, 6, 1)
    got = Evaluator(carrying(6, sizes))(x=x, y=y, carry=carry)
    assert_same(got["o"], x + y + carry, x=x, y=y, carry=carry)


@pytest.mark.parametrize("width", [17, 31, 60])
def test_carry_increment_of_long_words(width):
    rng = generator("carry", width)
    x, y = numbers(rng, width, 4000), numbers(rng, width, 4000)
    y = np.where(rng.random(4000) < 0.3, 2**width - 1 - x, y)  # the carry goes all the way
    carry = rng.integers(0, 2, 4000)
    got = Evaluator(carrying(width, (12, 9, 8, 7, 6)))(x=x, y=y, carry=carry)
    assert_same(got["o"], x + y + carry, x=x, y=y, carry=carry)


@pytest.mark.parametrize("width", range(1, 130))
def test_even_blocks(width):
    sizes = even_blocks(width)
    assert sum(sizes) >= width > sum(sizes[:-1])
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("group", [1, 3, 6])
def test_increment(group):
    def body(m: Module, x: Value, carry: Value) -> Value:
        digits, out = increment(m, "add", digits_of(x), carry, group)
        return concatenation([*digits, out])

    x, carry = every(8, 1)
    got = Evaluator(Around({"x": 8, "carry": 1}, 9, body))(x=x, carry=carry)
    assert_same(got["o"], x + carry, x=x, carry=carry)


@pytest.mark.parametrize("width", [1, 6, 7, 14])
def test_increment_of_groups_whose_skips_are_known(width):
    def incremented(m: Module, x: Value, carry: Value) -> Value:
        digits = digits_of(x)
        return concatenation(increment_groups(m, "add", digits, carry, skips(m, "add", digits)))

    def runs(m: Module, x: Value, carry: Value) -> Value:
        digits = digits_of(x)
        return concatenation(runs_of_groups(m, "all", digits, skips(m, "all", digits)))

    x, carry = every(width, 1)
    got = Evaluator(Around({"x": width, "carry": 1}, width, incremented))(x=x, carry=carry)
    assert_same(got["o"], (x + carry) % 2**width, x=x, carry=carry)
    got = Evaluator(Around({"x": width, "carry": 1}, width, runs))(x=x, carry=carry)
    want = sum((x % (2 << p) == (2 << p) - 1).astype(int) << p for p in range(width))
    assert_same(got["o"], want, x=x)


# Trees -------------------------------------------------------------------------------------------

WORDS = [(3, 0), (4, 1), (1, 0), (5, 0), (2, 3), (4, 0)]  # bits and places
CONSTANTS = (0, 1, -1, 5, -37, 0b10101)


def tree(width: int, constant: int, end: Callable[[Columns], Value]) -> Around:
    def body(m: Module, *words: Value) -> Value:
        columns = Columns(m, "tree", width)
        for number, (word, (_, place)) in enumerate(zip(words, WORDS, strict=True)):
            (columns.add_where_free if number == 2 else columns.add)(
                digits_of(word), place, number * 0.7
            )
        columns.add_constant(constant)
        return end(columns)

    return Around({f"x{i}": bits for i, (bits, _) in enumerate(WORDS)}, width, body)


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("width", [4, 6, 9])
@pytest.mark.parametrize("end", ["total", "rows"])
def test_a_tree_of_ragged_words(width, constant, end):
    ends = {"total": total_of, "rows": lambda columns: sum(rows_of(columns), Const(0, 1))}
    rng = generator("tree", width, constant)
    words = [rng.integers(0, 2**bits, 3000) for bits, _ in WORDS]
    want = constant + sum(x << place for x, (_, place) in zip(words, WORDS, strict=True))
    given = {f"x{i}": x for i, x in enumerate(words)}
    got = Evaluator(tree(width, constant, ends[end]))(**given)
    assert_same(got["o"], want % 2**width, **given)


@pytest.mark.parametrize(("count", "height"), [(9, 3), (40, 10), (2, 5)])
def test_fewer_words_of_the_same_sum(count, height):
    """Sections of a tree pass such words on; unused words are 0."""

    def body(m: Module, *words: Value) -> Value:
        columns = Columns(m, "part", 12)
        for word in words:
            columns.add(digits_of(word))
        reduced = columns.reduce(height)
        assert len(reduced) == height
        return sum(reduced, Const(0, 1))

    rng = generator("reduce", count)
    words = {f"x{i}": rng.integers(0, 2**7, 2000) for i in range(count)}
    got = Evaluator(Around(dict.fromkeys(words, 7), 12, body))(**words)
    assert_same(got["o"], sum(words.values()) % 2**12, **words)


# Multipliers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a_bits", "b_bits"), [*product((1, 2, 3, 4), repeat=2), (7, 2), (8, 8)])
def test_every_product(a_bits, b_bits):
    a, b = every(a_bits, b_bits)
    got = Evaluator(Multiplier(a_bits, b_bits))(a=a, b=b)
    assert_same(got["product"], a * b, a=a, b=b)


@pytest.mark.parametrize(("a_bits", "b_bits"), [(8, 8), (8, 4), (4, 8), (4, 4), (2, 3)])
def test_every_product_of_integers(a_bits, b_bits):
    width = a_bits + b_bits

    def body(m: Module, a: Value, b: Value) -> Value:
        columns = Columns(m, "product", width)
        add_signed_product(columns, a, b)
        columns.add_constant(signed_constant(a_bits, b_bits))
        return total_of(columns)

    a, b = every(a_bits, b_bits)
    got = Evaluator(Around({"a": a_bits, "b": b_bits}, width, body))(a=a, b=b)
    x, y = (np.where(n >> (bits - 1), n - 2**bits, n) for n, bits in ((a, a_bits), (b, b_bits)))
    assert_same(got["o"], (x * y) % 2**width, a=a, b=b)
