"""The sections of a dot unit's datapath: what its accumulator and its formats need.

Delays are rough gate levels (see pipeline.py).
"""

from typing import TYPE_CHECKING

from .formats import FLOAT32
from .outputs import IntegerOutput
from .pipeline import Section
from .widths import PARTIAL_PRODUCTS, Widths

if TYPE_CHECKING:
    from .units.dot import DotConfig

FLOAT_LOOP = (
    Section("approach", 14, loop=True),
    Section("add", 12, loop=True, joined=True),
    Section("normalize", 16, loop=True, joined=True),
    Section("round", 8, loop=True, joined=True, holds=True),
)
"""A block's sum is added to a float32 c."""


def dot_sections(config: "DotConfig") -> tuple[Section, ...]:
    """The datapath of a unit; `config` without its `stages`."""
    if isinstance(config.out, IntegerOutput):
        return _integer(config)
    convert = [] if config.out == FLOAT32 else [Section("convert", 14)]
    widths = Widths(config)
    return (*_block(widths), *config.accumulator.sections(widths), *convert)


def tree_delay(lanes: int) -> int:
    """Of a tree, a level for each halving of the lanes."""
    return 4 * (lanes - 1).bit_length()


def product_bits(widths: Widths) -> int:
    """Of a product: sign, exponent, significand."""
    return 1 + widths.exponent_bits + widths.product_bits


def sum_of_terms(widths: Widths, delay: int) -> tuple[Section, ...]:
    """A block's terms to two rows, or to their total: a tree of full adders, where `delay` ends."""
    tree = tree_delay(widths.config.lanes)
    last = Section("sum", delay + (4 if widths.partial_sums else tree), bits=2 * widths.total_bits)
    if not widths.partial_sums:
        return (last,)
    words = widths.partial_sums * widths.total_bits
    return (Section("compress", tree - 4, bits=words), last)


def _products_tree(widths: Widths) -> tuple[Section, ...]:
    """Integer codes: partial products, and their tree in several sections."""
    first, *others = (words * widths.total_bits for words in PARTIAL_PRODUCTS)
    return (
        Section("multiply", 6 + tree_delay(widths.config.lanes) // 2, bits=first),
        *(Section("compress", 8, i, bits=bits) for i, bits in enumerate(others, 1)),
        Section("sum", 10, bits=2 * widths.total_bits),
    )


def _block(widths: Widths) -> tuple[Section, ...]:
    """What makes a block's products, and their sum where the accumulator takes it exactly."""
    lanes, sums = widths.config.lanes, widths.config.accumulator.sums_exactly
    if widths.codes_are_integers and sums:
        return _products_tree(widths)
    products = (
        Section("decode", 4, bits=lanes * (sum(widths.code_bits) + 4)),
        Section("multiply", 14, bits=lanes * product_bits(widths)),
    )
    if sums:
        place = Section("place", 12, bits=lanes * (widths.term_bits + 1))
        return (*products, place, *sum_of_terms(widths, 14))
    return products


def _integer(config: "DotConfig") -> tuple[Section, ...]:
    """A unit whose running value is INT32 and whose result is an integer."""
    out = config.out
    assert isinstance(out, IntegerOutput)
    corrects = bool(config.zero_sides or config.scale_bits)
    return (
        *_products_tree(Widths(config)),
        *([Section("correct", 34)] if corrects else []),
        Section("accumulate", 22, holds=True, loop=True),
        *([Section("rescale", 40)] if out.rescale == "multiply" else []),
        *([Section("limit", 30)] if out.rescale else []),
    )
