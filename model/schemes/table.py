"""The schemes of the field by name, and variants of them. To add a scheme, add a row.

`source` cites the definition of a scheme; where it leaves a rounding open, section 6 of
docs/numerics.md decides.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from ..blocks import LARGEST_BLOCK
from ..errors import integer, unknown
from ..formats import (
    E1M0,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    E8M0,
    FLOAT16,
    FLOAT32,
    FORMATS,
    INT4_FULL,
    INT4_SYMMETRIC,
    INT8,
    INT8_FULL,
    INT8_SYMMETRIC,
    UINT8,
    ElementFormat,
    PowerFormat,
    UnsignedFormat,
    sign_magnitude,
)
from ..plugins import load_plugins
from .grouping import CHANNEL, TENSOR, block, tile
from .rules import RULES, rule_named
from .scheme import Level, Scheme, is_shift

OCP_MX = "OCP Microscaling Formats (MX) v1.0"
FP8 = "Micikevicius et al., FP8 Formats for Deep Learning, arXiv:2209.05433"
FP8_TILES = "DeepSeek-V3 Technical Report, section 3.3, arXiv:2412.19437"
FP8_BLOCKS = f"after {FP8_TILES} (1 x 128)"
JACOB = "Jacob et al., Integer-Arithmetic-Only Inference, CVPR 2018, arXiv:1712.05877"
INTEGERS = "Krishnamoorthi, Quantizing deep convolutional networks, arXiv:1806.08342"
GROUPS = "after Frantar et al., GPTQ, ICLR 2023, arXiv:2210.17323"
GROUPS_AFFINE = "after Lin et al., AWQ, MLSys 2024, arXiv:2306.00978"
MSFP = "Darvish Rouhani et al., Microsoft Floating Point, NeurIPS 2020"
MICROEXPONENTS = "Darvish Rouhani et al., With Shared Microexponents, arXiv:2302.08007"
VS_QUANT = "Dai et al., VS-Quant, MLSys 2021, arXiv:2102.04503"
NVFP4 = "NVIDIA, Pretraining Large Language Models with NVFP4, arXiv:2509.25149"
CODE_BOOK = "after Jang and Tambe, BlockDialect, ICML 2025, arXiv:2501.01144"


def _mx(name: str, fmt: ElementFormat) -> Scheme:
    return Scheme(name, (fmt,), (Level(block(32), E8M0, "floor"),), OCP_MX)


@cache
def mx(fmt: ElementFormat, block_size: int, scale_rule: str) -> Scheme:
    """MX with blocks of any size and any scale rule."""
    name = f"mx_{fmt}_b{block_size}_{scale_rule}"
    return Scheme(name, (fmt,), (Level(block(block_size), E8M0, scale_rule),), f"after {OCP_MX}")


def _fp8(fmt: ElementFormat) -> list[Scheme]:
    """Max-based scales, from one per tensor to one per 16 elements."""
    rows = [
        Scheme(f"fp8_{fmt}_tensor", (fmt,), (Level(TENSOR, FLOAT32),), FP8),
        Scheme(f"fp8_{fmt}_row", (fmt,), (Level(CHANNEL, FLOAT32),), FP8),
        Scheme(f"fp8_{fmt}_128x128", (fmt,), (Level(tile(128, 128), FLOAT32),), FP8_TILES),
    ]
    for size in (16, 32, 64, 128):
        for scale, suffix in ((FLOAT32, ""), (FLOAT16, "_f16")):
            level = Level(block(size), scale)
            rows.append(Scheme(f"fp8_{fmt}_b{size}{suffix}", (fmt,), (level,), FP8_BLOCKS))
    return rows


def _microexponents(name: str, bits: int) -> Scheme:
    levels = (Level(block(16), E8M0, "floor"), Level(block(2), E1M0, "floor"))
    return Scheme(name, (sign_magnitude(bits),), levels, MICROEXPONENTS)


def _vs_quant(element: ElementFormat, bits: int) -> Scheme:
    levels = (Level(CHANNEL, FLOAT32), Level(block(16), UnsignedFormat(bits)))
    return Scheme(f"vsquant{element.bits}_u{bits}", (element,), levels, VS_QUANT)


def _code_book(name: str, *elements: ElementFormat) -> Scheme:
    return Scheme(name, elements, (Level(block(32), E8M0, "floor"),), CODE_BOOK)


ROWS = (
    _mx("mxfp8_e4m3", E4M3),
    _mx("mxfp8_e5m2", E5M2),
    _mx("mxfp6_e3m2", E3M2),
    _mx("mxfp6_e2m3", E2M3),
    _mx("mxfp4", E2M1),
    _mx("mxint8", INT8),
    *_fp8(E4M3),
    *_fp8(E5M2),
    Scheme("int8_tensor", (INT8_SYMMETRIC,), (Level(TENSOR, FLOAT32),), INTEGERS),
    Scheme("int8_channel", (INT8_SYMMETRIC,), (Level(CHANNEL, FLOAT32),), INTEGERS),
    Scheme("int8_affine", (INT8_FULL,), (Level(TENSOR, FLOAT32),), INTEGERS, True),
    Scheme("int8_affine_channel", (INT8_FULL,), (Level(CHANNEL, FLOAT32),), INTEGERS, True),
    Scheme("uint8_affine", (UINT8,), (Level(TENSOR, FLOAT32),), JACOB, True),
    Scheme("int4_tensor", (INT4_SYMMETRIC,), (Level(TENSOR, FLOAT32),), INTEGERS),
    Scheme("int4_channel", (INT4_SYMMETRIC,), (Level(CHANNEL, FLOAT32),), INTEGERS),
    *(
        Scheme(f"int4_g{size}", (INT4_SYMMETRIC,), (Level(block(size), FLOAT16),), GROUPS)
        for size in (32, 64, 128)
    ),
    Scheme("int4_affine_g128", (INT4_FULL,), (Level(block(128), FLOAT16),), GROUPS_AFFINE, True),
    *(
        Scheme(f"msfp{bits + 9}", (sign_magnitude(bits),), (Level(block(16), E8M0, "floor"),), MSFP)
        for bits in (2, 3, 4, 5, 6, 7)
    ),
    _microexponents("mx9", 7),
    _microexponents("mx6", 4),
    _microexponents("mx4", 2),
    _vs_quant(INT4_SYMMETRIC, 4),
    _vs_quant(INT8_SYMMETRIC, 6),
    Scheme("nvfp4", (E2M1,), (Level(TENSOR, FLOAT32), Level(block(16), E4M3)), NVFP4),
    Scheme("nvfp4_16x16", (E2M1,), (Level(TENSOR, FLOAT32), Level(tile(16, 16), E4M3)), NVFP4),
    _code_book("mixed8", E4M3, E5M2, INT8),
    _code_book("mixed6", E2M3, E3M2),
    _code_book("mixed4", E2M1, INT4_SYMMETRIC),
)
SCHEMES: dict[str, Scheme] = {}
"""Schemes by name."""


def register_scheme(scheme: Scheme) -> Scheme:
    """Make a scheme known by its name; returns it.

    Raises TypeError for another thing, ValueError for a name that has other content or has
    characters other than a-z, 0-9 and _.
    """
    if not isinstance(scheme, Scheme):
        raise TypeError(f"scheme must be a Scheme, not {scheme!r}")
    name = scheme.name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"name of a scheme must be of a-z, 0-9 and _, not {name!r}")
    if SCHEMES.get(name, scheme) != scheme:
        raise ValueError(f"name of scheme {name} must be new: it has other content")
    return SCHEMES.setdefault(name, scheme)


for _row in ROWS:
    register_scheme(_row)


def scheme(value: Scheme | str, name: str = "scheme") -> Scheme:
    """The Scheme of a name or of itself; ValueError lists the known names.

    A name may go on with a rule of scales, a block size and digits of a code book's errors:
    ``mxfp8_e4m3:ceil:b16``, ``mixed4:e8`` (`varied`).
    """
    if isinstance(value, Scheme):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a Scheme or its name, not {value!r}")
    row, *changes = value.strip().lower().split(":")
    if row not in SCHEMES:
        load_plugins()
    if row not in SCHEMES:
        raise ValueError(unknown(name, row, SCHEMES, FORMATS, "a format of quantize"))
    return varied(SCHEMES[row], changes)


BLOCK, DIGITS = re.compile(r"b([0-9]{1,9})"), re.compile(r"e([0-9]{1,9})")


def varied(scheme: Scheme, changes: Iterable[str]) -> Scheme:
    """`scheme` with a rule of scales (``ceil``), a block size (``b64``) or error digits (``e8``).

    Its name is NAME:RULE:bN:eG, without the parts that do not differ. Raises ValueError for any
    other text, for a repeated one, and for a change that the scheme does not allow.
    """
    rule = size = digits = None
    for change in changes:
        if rule is None and change in RULES and RULES[change].powers:
            rule = change
        elif size is None and (match := BLOCK.fullmatch(change)):
            size = int(match[1])
        elif digits is None and (match := DIGITS.fullmatch(change)):
            digits = int(match[1])
        else:
            rules = ", ".join(rule.name for rule in RULES.values() if rule.powers)
            known = f"{rules}, b and a number, or e and a number"
            raise ValueError(f"what follows a scheme must be {known}, each once, not {change!r}")
    return variant(scheme, rule, size, digits)


def variant(
    scheme: Scheme,
    rule: str | None = None,
    block_size: int | None = None,
    error_digits: int | None = None,
) -> Scheme:
    """`scheme` with another rule of its outermost scales, another size of its finest blocks, or
    other digits of its code book's errors; None keeps each."""
    levels, kept = list(scheme.levels), scheme.error_digits
    name = scheme.name.removesuffix(f":e{kept}")  # its place is at the end
    if rule is not None:
        rule_named("scale rule", rule, powers=True)
        if not has_rule(scheme):
            raise ValueError(f"scale rule of {scheme} must be left out: its scales are by amax")
        if rule != levels[0].rule:
            levels[0], name = replace(levels[0], rule=rule), f"{name}:{rule}"
    if block_size is not None:
        integer("block", block_size, 1, LARGEST_BLOCK)
        finest = _blocks(levels)
        if finest is None:
            raise ValueError(f"block of {scheme} must be left out: no scale of it is of a block")
        if block_size != levels[finest].granularity.columns:
            levels[finest] = replace(levels[finest], granularity=block(block_size))
            name = f"{name}:b{block_size}"
    if error_digits is None:
        error_digits = kept
    if error_digits is not None:
        name = f"{name}:e{error_digits}"
    if name == scheme.name:
        return scheme
    source = f"after {scheme.source.removeprefix('after ')}"
    changed = {"name": name, "levels": tuple(levels), "source": source}
    return replace(scheme, **changed, error_digits=error_digits)


def has_rule(scheme: Scheme) -> bool:
    """Whether the outermost scales are powers of two, which have a choice of rules."""
    return isinstance(scheme.levels[0].format, PowerFormat)


def has_blocks(scheme: Scheme) -> bool:
    """Whether the scheme has scales of blocks of a row."""
    return _blocks(scheme.levels) is not None


def _blocks(levels: Iterable[Level]) -> int | None:
    """Index of the finest level of blocks of a row, except micro-exponents; None without one."""
    finest = None
    for i, level in enumerate(levels):
        group = level.granularity
        if group.rows == 1 and group.columns is not None and not is_shift(level, i):
            finest = i
    return finest
