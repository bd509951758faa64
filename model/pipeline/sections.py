"""Sections of the datapaths of dot units and quantisers.

A dot unit's delays are picoseconds in ASAP7, measured with E4M3 and 32 lanes and rounded (`make
area-report ARGS=--sections`). A fitted formula gives delays that grow with the unit. `delays.py`
converts them to other processes. A quantiser's delays are rough gate levels.
"""

from itertools import pairwise
from math import ceil, log
from typing import Protocol

from ..formats import BFLOAT16, E4M3, FLOAT16, FLOAT32
from ..outputs import MULTIPLY, SCALE, IntegerOutput
from .delays import in_process
from .placement import Section, cut_finer
from .widths import FEWER_LEADERS, LEADERS, DotDescription, Widths

SCALE_DIGITS = E4M3.significand_bits + 1
"""Digits of the quotient that an E4M3 scale is rounded from."""
FLOAT_LOOP = (
    Section("distance", 270, loop=True, parallel=True, cuts=(100, 170)),
    Section("approach", 290, loop=True, joined=True, cuts=(140, 150)),
    Section("add", 280, loop=True, joined=True, cuts=(120, 160)),
    Section("carry", 280, loop=True, joined=True, cuts=(140, 140)),
    Section("count", 290, loop=True, joined=True, cuts=(110, 180)),
    Section("normalize", 260, loop=True, joined=True, cuts=(120, 140)),
    Section("round", 230, loop=True, joined=True, holds=True, cuts=(80, 80, 70)),
)
"""Addition of a block's sum to a float32 c."""


class DotDatapath(DotDescription, Protocol):
    """Facts that sections need of a `DotConfig`, whose module imports this one."""

    @property
    def delays(self) -> str: ...
    @property
    def zero_sides(self) -> tuple[str, ...]: ...
    @property
    def scale_bits(self) -> int: ...


class QuantizeDatapath(Protocol):
    """Facts that sections need of a `QuantizeConfig`, whose module imports this one."""

    @property
    def lanes(self) -> int: ...
    @property
    def beats(self) -> int: ...
    @property
    def divides(self) -> bool: ...
    @property
    def quotient_digits(self) -> int: ...
    @property
    def select(self) -> int | None: ...


def dot_sections(config: DotDatapath, finer: bool = False) -> tuple[Section, ...]:
    """The datapath of a dot unit with any stages. finer: in as many sections as possible."""
    parts = _sections(config)
    return in_process(cut_finer(parts) if finer else parts, config.delays)


def _sections(config: DotDatapath) -> tuple[Section, ...]:
    if isinstance(config.out, IntegerOutput):
        return _integer(config)
    running = config.accumulator.running
    convert = [] if config.out == running else [Section("convert", 220)]
    widths = Widths(config)
    bits = config.lanes * product_bits(widths) + running.bits
    narrow = [] if running == FLOAT32 else [Section("narrow", 220, parallel=True, bits=bits)]
    return (*_block(widths), *narrow, *config.accumulator.sections(widths), *convert)


def tree_delay(lanes: int) -> int:
    """Delay of a tree of comparators, which halves the lanes at each level."""
    return 140 * (lanes - 1).bit_length()


def compress_delay(before: int, after: int) -> int:
    """Delay of full adders, which turn three words into two at each level."""
    return 30 + 50 * ceil(log(before / after, 1.5))


def largest_sections(widths: Widths) -> tuple[Section, ...]:
    """Search for the largest exponent of a block's products, two levels of the tree per section."""
    left, parts = widths.config.lanes, []
    while left > 1:
        before, left = left, -(-left // LEADERS)
        bits = widths.config.lanes * product_bits(widths) + left * widths.exponent_bits
        delay = tree_delay(before) - tree_delay(left)
        cuts = (tree_delay(FEWER_LEADERS),) * (delay // tree_delay(FEWER_LEADERS))
        parts.append(Section("largest", delay, len(parts) + 1, bits=bits, cuts=cuts))
    return tuple(parts)


def product_bits(widths: Widths) -> int:
    """Bits of a product: sign, exponent, significand."""
    return 1 + widths.exponent_bits + widths.product_bits


def factor_sections(widths: Widths, ends_in_rows: bool = True) -> tuple[Section, ...]:
    """Product of a block's sum and its scales' significands; no section for powers of two.

    ends_in_rows: leave two rows instead of their sum, which a register needs.
    """
    if not widths.factor_bits:
        return ()
    rows, delay = (2, 280) if ends_in_rows else (1, 690)
    return (Section("factor", delay, bits=rows * (widths.sum_bits + widths.factor_bits)),)


def multiplier_delay(a_bits: int, b_bits: int) -> int:
    """Delay of a multiplier and its last addition: a row of full adders for each digit."""
    return 300 + 40 * min(a_bits, b_bits)


def tree_sections(widths: Widths) -> tuple[Section, ...]:
    """Tree of full adders from terms, or partial products, to two rows or to their total."""
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
    """Partial products of integer codes, and their tree in several sections."""
    first = widths.partial_sums[0] * widths.total_bits
    return Section("multiply", 340, bits=first), *tree_sections(widths)


def _block(widths: Widths) -> tuple[Section, ...]:
    """Products of a block, and their sum where the accumulator takes it exactly."""
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


def _integer(config: DotDatapath) -> tuple[Section, ...]:
    """Datapath of a unit whose running value is INT32."""
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
    """Sections from an INT32 sum to the result."""
    if out.rescale == SCALE:
        convert = {FLOAT32.name: (), BFLOAT16.name: (220,), FLOAT16.name: (510,)}[str(out.format)]
        product = Section("float", 570), Section("rescale", 1250), Section("round", 800)
        return *product, *(Section("convert", delay) for delay in convert)
    multiplies = out.rescale == MULTIPLY
    rescale = (Section("rescale", 590 + 10 * out.multiplier_bits),) if multiplies else ()
    limit = (Section("limit", 850 if multiplies else 540),) if out.rescale else ()
    return *rescale, *limit


def quantize_sections(config: QuantizeDatapath) -> tuple[Section, ...]:
    """The datapath of a quantiser."""
    levels = (config.lanes - 1).bit_length()
    scale = [Section("scale", 14)]
    if config.divides:
        scale = [
            Section("divisor", 28),
            *(Section("ratio", 16, i + 1) for i in range(SCALE_DIGITS)),
            Section("product", 40),
            Section("divide", 32, 1),
            *(Section("divide", 16, i) for i in range(2, config.quotient_digits + 1)),
        ]
    chooses = []
    if config.select is not None:
        chooses = [
            Section("error", 20),
            Section("square", 20),
            *(Section("sum", 14, i + 1) for i in range(levels)),
            Section("choose", 14),
        ]
    return (
        Section("classify", 5),
        *(Section("largest", 12, i + 1) for i in range(levels)),
        *([Section("collect", 14, holds=True)] if config.beats > 1 else []),
        *scale,
        Section("align", 26),
        Section("encode", 20),
        *chooses,
    )
