"""The sections of a dot unit's datapath: what its accumulator and its formats need.

Delays are rough gate levels (see pipeline.py).
"""

from typing import TYPE_CHECKING

from .accumulators import Aligned, Exact, Fixed, Float32, Fused, Int32, Preset
from .outputs import FLOAT32, IntegerOutput
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
    return (*_block(config), *_accumulate(config), *convert)


def _tree(lanes: int) -> int:
    """A level for each halving of the lanes."""
    return 4 * (lanes - 1).bit_length()


def _products_tree(lanes: int) -> tuple[Section, ...]:
    """Integer codes: partial products, and their tree in several sections."""
    return (
        Section("multiply", 6 + _tree(lanes) // 2),
        Section("compress", 8, 1),
        Section("compress", 8, 2),
        Section("sum", 10),
    )


def _block(config: "DotConfig") -> tuple[Section, ...]:
    """What makes a block's products, and their sum if its accumulator takes integers."""
    rule, lanes, widths = config.accumulator, config.lanes, Widths(config)
    sums = isinstance(rule, Exact | Int32 | Fixed)
    if widths.codes_are_integers and sums:
        return _products_tree(lanes)
    products = (Section("decode", 4), Section("multiply", 14))
    if sums:
        return (*products, Section("place", 12), Section("sum", 14 + _tree(lanes)))
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
                Section("largest", tree),
                Section("align", 12),
                Section("sum", 10 + tree),
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
            pairs = [Section("tree", 40, i + 1) for i in range(levels)]
            return (*pairs, Section("accumulate", 40, holds=True, loop=True))
        case Fused() | Preset():
            return _fused(rule, lanes, tree)
        case _:
            raise TypeError(f"accumulator {rule} has no datapath")


def _fused(rule: Fused | Preset, lanes: int, tree: int) -> tuple[Section, ...]:
    promote = rule.promote if isinstance(rule, Preset) else None
    # A partial sum that is promoted after every block has no way round.
    around = promote is None or lanes < promote
    steps = rule.steps(lanes)
    body = [Section("largest", tree)]
    for i in range(steps):
        body += [
            Section("join", 22, i, loop=around),
            Section("sum", 10 + tree, i, loop=around),
            Section("round", 24, i, holds=i == steps - 1, loop=around),
        ]
    if promote is not None:
        body.append(Section("promote", 40, holds=True))
    return tuple(body)


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
