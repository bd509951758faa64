"""The sections of a dot unit's datapath: what its accumulator and its formats need.

Delays are rough gate levels (see pipeline.py).
"""

from typing import TYPE_CHECKING

from .formats import FLOAT32
from .outputs import IntegerOutput
from .pipeline import Section
from .widths import Widths

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
    widths = Widths(config)
    return (*_block(widths), *config.accumulator.sections(widths), *convert)


def tree_delay(lanes: int) -> int:
    """Of a tree, a level for each halving of the lanes."""
    return 4 * (lanes - 1).bit_length()


def _products_tree(lanes: int) -> tuple[Section, ...]:
    """Integer codes: partial products, and their tree in several sections."""
    return (
        Section("multiply", 6 + tree_delay(lanes) // 2),
        Section("compress", 8, 1),
        Section("compress", 8, 2),
        Section("sum", 10),
    )


def _block(widths: Widths) -> tuple[Section, ...]:
    """What makes a block's products, and their sum where the accumulator takes it exactly."""
    lanes, sums = widths.config.lanes, widths.config.accumulator.sums_exactly
    if widths.codes_are_integers and sums:
        return _products_tree(lanes)
    products = (Section("decode", 4), Section("multiply", 14))
    if sums:
        return (*products, Section("place", 12), Section("sum", 14 + tree_delay(lanes)))
    return products


def _integer(config: "DotConfig") -> tuple[Section, ...]:
    """A unit whose running value is INT32 and whose result is an integer."""
    out = config.out
    assert isinstance(out, IntegerOutput)
    corrects = bool(config.zero_sides or config.scale_bits)
    return (
        *_products_tree(config.lanes),
        *([Section("correct", 34)] if corrects else []),
        Section("accumulate", 22, holds=True, loop=True),
        *([Section("rescale", 40)] if out.rescale == "multiply" else []),
        *([Section("limit", 30)] if out.rescale else []),
    )
