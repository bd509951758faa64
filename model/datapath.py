"""The sections of a dot unit's datapath: what its accumulator and its formats need.

Delays are picoseconds in ASAP7, measured section by section (`make area-report ARGS=--sections`)
with E4M3 and 32 lanes and rounded; where they grow with the unit, by a formula that fits. Those of
other processes are theirs times a ratio (`delays.py`).
"""

from itertools import pairwise
from math import ceil, log
from typing import TYPE_CHECKING

from .delays import in_process
from .formats import BFLOAT16, FLOAT16, FLOAT32
from .outputs import MULTIPLY, SCALE, IntegerOutput
from .pipeline import Section, cut_finer
from .widths import FEWER_LEADERS, LEADERS, Widths

if TYPE_CHECKING:
    from .units.dot import DotConfig

FLOAT_LOOP = (
    Section("distance", 270, loop=True, beside=True, cuts=(100, 170)),
    Section("approach", 290, loop=True, joined=True, cuts=(140, 150)),
    Section("add", 280, loop=True, joined=True, cuts=(120, 160)),
    Section("carry", 280, loop=True, joined=True, cuts=(140, 140)),
    Section("count", 290, loop=True, joined=True, cuts=(110, 180)),
    Section("normalize", 260, loop=True, joined=True, cuts=(120, 140)),
    Section("round", 230, loop=True, joined=True, holds=True, cuts=(80, 80, 70)),
)
"""A block's sum is added to a float32 c."""


def dot_sections(config: "DotConfig", finer: bool = False) -> tuple[Section, ...]:
    """The datapath of a unit; `config` without its `stages`. finer: cut in as many sections as it
    can be."""
    parts = _sections(config)
    return in_process(cut_finer(parts) if finer else parts, config.delays)


def _sections(config: "DotConfig") -> tuple[Section, ...]:
    if isinstance(config.out, IntegerOutput):
        return _integer(config)
    running = config.accumulator.running
    convert = [] if config.out == running else [Section("convert", 220)]
    widths = Widths(config)
    bits = config.lanes * product_bits(widths) + running.bits
    narrow = [] if running == FLOAT32 else [Section("narrow", 220, beside=True, bits=bits)]
    return (*_block(widths), *narrow, *config.accumulator.sections(widths), *convert)


def tree_delay(lanes: int) -> int:
    """Of a tree of comparators, a level for each halving of the lanes."""
    return 140 * (lanes - 1).bit_length()


def compress_delay(before: int, after: int) -> int:
    """Of full adders that bring words to fewer: three to two at each level."""
    return 30 + 50 * ceil(log(before / after, 1.5))


def largest_sections(widths: Widths) -> tuple[Section, ...]:
    """The largest exponent of a block's products, two levels of the tree at a time."""
    left, parts = widths.config.lanes, []
    while left > 1:
        before, left = left, -(-left // LEADERS)
        bits = widths.config.lanes * product_bits(widths) + left * widths.exponent_bits
        delay = tree_delay(before) - tree_delay(left)
        cuts = (tree_delay(FEWER_LEADERS),) * (delay // tree_delay(FEWER_LEADERS))
        parts.append(Section("largest", delay, len(parts) + 1, bits=bits, cuts=cuts))
    return tuple(parts)


def product_bits(widths: Widths) -> int:
    """Of a product: sign, exponent, significand."""
    return 1 + widths.exponent_bits + widths.product_bits


def factor_sections(widths: Widths, ends_in_rows: bool = True) -> tuple[Section, ...]:
    """A block's sum times the significands of its scales, where these are no powers of two; added
    up for a register."""
    if not widths.factor_bits:
        return ()
    rows, delay = (2, 280) if ends_in_rows else (1, 690)
    return (Section("factor", delay, bits=rows * (widths.sum_bits + widths.factor_bits)),)


def multiplier_delay(a_bits: int, b_bits: int) -> int:
    """Of a multiplier with its last addition: a row of full adders for each digit."""
    return 300 + 40 * min(a_bits, b_bits)


def tree_sections(widths: Widths) -> tuple[Section, ...]:
    """Terms, or partial products, to two rows or to their total: a tree of full adders."""
    words = widths.partial_sums
    if not widths.has_partial_products:
        words = (widths.config.lanes, *words)
    compressions = [
        Section("compress", compress_delay(*pair), number, bits=pair[1] * widths.total_bits)
        for number, pair in enumerate(pairwise(words), 1)
    ]
    end = 0 if widths.ends_in_rows else 330  # an adder
    last = Section("sum", compress_delay(words[-1], 2) + end, bits=2 * widths.total_bits)
    return (*compressions, last)


def _products_tree(widths: Widths) -> tuple[Section, ...]:
    """Integer codes: partial products, and their tree in several sections."""
    first = widths.partial_sums[0] * widths.total_bits
    return Section("multiply", 340, bits=first), *tree_sections(widths)


def _block(widths: Widths) -> tuple[Section, ...]:
    """What makes a block's products, and their sum where the accumulator takes it exactly."""
    lanes, sums = widths.config.lanes, widths.config.accumulator.sums_exactly
    if widths.has_partial_products:
        return _products_tree(widths)
    products = (
        Section("decode", 160, bits=lanes * (sum(widths.code_bits) + 4)),
        Section("multiply", 290, bits=lanes * product_bits(widths), cuts=(140, 150)),
    )
    if sums:
        place = Section("place", 160, bits=lanes * (widths.term_bits + 1))
        return (*products, place, *tree_sections(widths))
    return products


def _integer(config: "DotConfig") -> tuple[Section, ...]:
    """A unit whose running value is INT32, and what makes its result of that."""
    out = config.out
    assert isinstance(out, IntegerOutput)
    corrects = bool(config.zero_sides or config.scale_bits)
    return (
        *_products_tree(Widths(config)),
        *([Section("correct", 870)] if corrects else []),
        Section("accumulate", 480, holds=True, loop=True),
        *_rescaled(out),
    )


def _rescaled(out: IntegerOutput) -> tuple[Section, ...]:
    """From an INT32 sum to the result."""
    if out.rescale == SCALE:
        convert = {FLOAT32.name: (), BFLOAT16.name: (220,), FLOAT16.name: (510,)}[str(out.format)]
        product = Section("float", 570), Section("rescale", 1250), Section("round", 800)
        return *product, *(Section("convert", delay) for delay in convert)
    multiplies = out.rescale == MULTIPLY
    rescale = (Section("rescale", 590 + 10 * out.multiplier_bits),) if multiplies else ()
    limit = (Section("limit", 850 if multiplies else 540),) if out.rescale else ()
    return *rescale, *limit
