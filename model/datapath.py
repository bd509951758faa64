"""The sections of a dot unit's datapath: what its accumulator and its formats need.

Delays are rough gate levels (see pipeline.py).
"""

from typing import TYPE_CHECKING

from .accumulators import Aligned, Exact, Fixed, Float32, Fused, Int32, Preset
from .outputs import FLOAT32, IntegerOutput
from .pipeline import Section
from .widths import PARTIAL_PRODUCTS, Widths

if TYPE_CHECKING:
    from .config import DotConfig

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
    return (*_block(config), *_accumulate(config), *convert)


def _tree(lanes: int) -> int:
    """A level for each halving of the lanes."""
    return 4 * (lanes - 1).bit_length()


def _products_tree(widths: Widths) -> tuple[Section, ...]:
    """Integer codes: partial products, and their tree in several sections."""
    first, *others = (words * widths.total_bits for words in PARTIAL_PRODUCTS)
    return (
        Section("multiply", 6 + _tree(widths.config.lanes) // 2, bits=first),
        *(Section("compress", 8, i, bits=bits) for i, bits in enumerate(others, 1)),
        Section("sum", 10, bits=2 * widths.total_bits),
    )


def _sum(widths: Widths, delay: int) -> tuple[Section, ...]:
    """A block's terms to two rows, or to their total: a tree of full adders."""
    tree = _tree(widths.config.lanes)
    last = Section("sum", delay + (4 if widths.partial_sums else tree), bits=2 * widths.total_bits)
    if not widths.partial_sums:
        return (last,)
    words = widths.partial_sums * widths.total_bits
    return (Section("compress", tree - 4, bits=words), last)


def _block(config: "DotConfig") -> tuple[Section, ...]:
    """What makes a block's products, and their sum if its accumulator takes integers."""
    rule, lanes, widths = config.accumulator, config.lanes, Widths(config)
    sums = isinstance(rule, Exact | Int32 | Fixed)
    if widths.codes_are_integers and sums:
        return _products_tree(widths)
    products = (
        Section("decode", 4, bits=lanes * (sum(widths.code_bits) + 4)),
        Section("multiply", 14, bits=lanes * _product_bits(widths)),
    )
    terms = lanes * (widths.term_bits + 1)
    if sums:
        return (*products, Section("place", 12, bits=terms), *_sum(widths, 14))
    return products


def _accumulate(config: "DotConfig") -> tuple[Section, ...]:
    """What the accumulator does with them."""
    rule, lanes, widths = config.accumulator, config.lanes, Widths(config)
    tree = _tree(lanes)
    match rule:
        case Exact() | Int32():
            return FLOAT_LOOP
        case Aligned():
            cut = [Section("cut", 26)] if widths.sum_is_cut else []
            return (
                Section("largest", tree, bits=lanes * _product_bits(widths)),
                Section("align", 12, bits=lanes * (widths.term_bits + 1)),
                *_sum(widths, 10),
                *cut,
                *FLOAT_LOOP,
            )
        case Fixed():
            return (
                Section("scale", 24),
                Section("accumulate", 20, holds=True, loop=True),
                Section("round", 26),
            )
        case Float32():
            levels = (lanes - 1).bit_length()
            pairs = [Section("tree", 40, i + 1, bits=(lanes >> i + 1) * 36) for i in range(levels)]
            return (*pairs, Section("accumulate", 40, holds=True, loop=True))
        case Fused() | Preset():
            return _fused(widths)
        case _:
            raise TypeError(f"accumulator {rule} has no datapath")


def _fused(widths: Widths) -> tuple[Section, ...]:
    rule, lanes, tree = widths.config.accumulator, widths.config.lanes, _tree(widths.config.lanes)
    promote = rule.promote if isinstance(rule, Preset) else None
    # A partial sum that is promoted after every block has no way round.
    around = promote is None or lanes < promote
    product = _product_bits(widths)
    body = [Section("largest", tree, bits=lanes * product)]
    for i in range(widths.steps):
        left = (lanes - (i + 1) * widths.step_lanes) * product  # of later steps
        terms = (widths.step_lanes + 1) * (widths.term_bits + 1)
        body += [
            Section("join", 22, i, loop=around, bits=left + terms),
            Section("sum", 10 + tree, i, loop=around, bits=left + widths.total_bits),
            Section("round", 24, i, holds=i == widths.steps - 1, loop=around, bits=left + 32),
        ]
    if promote is not None:
        body.append(Section("promote", 40, holds=True, bits=32))
    return tuple(body)


def _product_bits(widths: Widths) -> int:
    """Of a product: sign, exponent, significand."""
    return 1 + widths.exponent_bits + widths.product_bits


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
