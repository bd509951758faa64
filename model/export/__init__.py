"""mxdot.model.export: a rule as a C header, a SystemVerilog package or a fragment of Sail.

    text = export("c", "rvbna:8", "e4m3")

`rules.py` has the algorithm once, over `numbers.py`; `program.py` reduces it to one rule; a
printer for each language (`c.py`, `systemverilog.py`, `sail.py`) writes it.
"""

import re
from collections.abc import Callable

from ..accumulators import Accumulator, accumulator, by_kind
from ..accumulators.aligned import Aligned
from ..accumulators.amd import ExactMachine, FlooredMachine, TreeMachine
from ..accumulators.bulk import BulkNormalized
from ..accumulators.chains import ChainMachine
from ..accumulators.exact import Exact, Int32
from ..accumulators.fixed import Fixed
from ..accumulators.float32 import BFloat16, Float16, Float32
from ..accumulators.fused import Fused, Preset
from ..accumulators.group_sums import GroupSums
from ..blocks import LARGEST_BLOCK
from ..errors import choice
from ..formats import E8M0, FLOAT32, ElementFormat, FloatFormat, element_format
from ..formats.codes import Specials
from ..formats.integer import IntegerFormat
from ..keywords import RESERVED
from ..products import Pair
from . import numbers
from .c import C
from .printer import Printer
from .program import specialised
from .sail import Sail
from .systemverilog import SystemVerilog

LANGUAGES: dict[str, type[Printer]] = {"c": C, "sv": SystemVerilog, "sail": Sail}
"""Printers by the name of their language."""

_KINDS = {
    Specials.NONE: numbers.FINITE_ONLY,
    Specials.NAN_ONLY: numbers.NAN_ONLY,
    Specials.IEEE: numbers.IEEE,
    Specials.FNUZ: numbers.FNUZ,
}
_SCALE = 2 * E8M0.bias  # largest exponent of the product of two scales
_BLOCK_BITS = LARGEST_BLOCK.bit_length()
LEAST_WIDTH = 64
"""Bits of the narrowest wide integers."""


def export(
    language: str,
    rule: Accumulator | str,
    a: ElementFormat | str,
    b: ElementFormat | str | None = None,
    name: str | None = None,
) -> str:
    """Text of a file with the function `name`, which computes dot products by `rule`.

    language: ``c``, ``sv`` or ``sail``. b: format of b; None for a's. name: None for the default,
    from the rule and formats.
    Raises ValueError for a rule or format that no export covers.
    """
    printer = LANGUAGES[choice("language", language, LANGUAGES)]
    rule, fmt_a = accumulator(rule), element_format(a)
    fmt_b = fmt_a if b is None else element_format(b)
    pair = Pair(fmt_a, fmt_b)
    name = default_name(rule, fmt_a, fmt_b) if name is None else name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"name must be lower-case letters, digits and _, not {name!r}")
    if name in RESERVED[language]:
        raise ValueError(f"name must be no reserved word of {printer.__name__}, not {name!r}")
    values = parameters(rule, pair)
    main = "dot_promoted" if rule.promotes_every else _MAIN.get(type(rule), "dot")
    head = [f"{name}: {fmt_a} x {fmt_b} by {rule}, written by mxdot export.", f"{rule.rule}."]
    program = specialised(values, main)
    return printer(program, f"{name}_", head, (fmt_a.bits, fmt_b.bits)).text()


def default_name(rule: Accumulator, a: ElementFormat, b: ElementFormat) -> str:
    """Name of the function for a rule and formats."""
    formats = a.name if a == b else f"{a}x{b}"
    text = f"mxdot_{rule}_{formats}".lower().replace(":-", "_m")
    return re.sub(r"[^a-z0-9]+", "_", text)


def parameters(rule: Accumulator, pair: Pair) -> dict[str, int]:
    """Values of the parameters of `numbers.py`; ValueError for a rule that no export covers."""
    own = by_kind(RULES, rule, "RULES of mxdot.model.export")
    rule.check_formats(pair.a, pair.b)
    values = {
        **_element("A", pair.a),
        **_element("B", pair.b),
        **_running(rule.running),
        **_steps(rule),
        "NAN_BITS": rule.nan_bits,
        "PRODUCT_LSB": pair.lsb,
        "FLUSH": numbers.SUBNORMAL_RESULTS if rule.flushes else 0,
        "OVERFLOW_MEETS_C": int(rule.overflow_meets_c),
    }
    values |= own(rule, pair)
    values["WIDE_BITS"] = max(values["WIDE_BITS"], LEAST_WIDTH)
    values["WIDE_BITS"] = -(-values["WIDE_BITS"] // 32) * 32
    return values


def _element(side: str, fmt: ElementFormat) -> dict[str, int]:
    if isinstance(fmt, FloatFormat):
        fields = fmt.exponent_bits, fmt.mantissa_bits, fmt.bias, _KINDS[fmt.specials]
    elif (
        isinstance(fmt, IntegerFormat)
        and fmt.lowest < 0
        and not fmt.sign_magnitude
        and fmt.mantissa_bits == fmt.bits - 2
    ):
        fields = 1, fmt.mantissa_bits, 0, numbers.INTEGER
    else:
        raise ValueError(
            f"format must be a float, or two's complement that needs all its bits, not {fmt}"
        )
    names = ("EXPONENT_BITS", "MANTISSA_BITS", "BIAS", "KIND")
    return {f"{side}_{name}": value for name, value in zip(names, fields, strict=True)}


def _running(fmt: FloatFormat) -> dict[str, int]:
    return {
        "MANTISSA_BITS": fmt.mantissa_bits,
        "LEAST_EXPONENT": fmt.emin,
        "LARGEST_EXPONENT": fmt.emax,
    }


def _steps(rule: Accumulator) -> dict[str, int]:
    permuted = isinstance(rule, Preset) and rule.permuted
    return {
        "TERMS": rule.step_limit or 0,
        "PERMUTED": int(permuted),
        "PROMOTE": rule.promotes_every or 0,
    }


def _fused(rule: Fused, pair: Pair) -> dict[str, int]:
    least = rule.least_exponent
    bits = rule.fraction_bits + _BLOCK_BITS + 8
    return {
        "RULE": numbers.FUSED,
        "FRACTION_BITS": rule.fraction_bits,
        "TERM_MODE": numbers.TOWARD_ZERO,
        "LEAST": numbers.NOTHING if least is None else least,
        "STEP_MANTISSA_BITS": rule.step_fraction_bits,
        "STEP_MODE": numbers.NEAREST_EVEN if rule.rounds_to_nearest else numbers.TOWARD_ZERO,
        "LOWEST": FLOAT32.lsb,
        "WIDE_BITS": max(bits, FLOAT32.emax - FLOAT32.lsb + 8) if rule.promotes_every else bits,
    }


def _exact(rule: Accumulator, pair: Pair) -> dict[str, int]:
    lowest = min(FLOAT32.lsb, pair.lsb - _SCALE)
    top = max(FLOAT32.emax, pair.lsb + pair.bits + _BLOCK_BITS + _SCALE)
    return {"RULE": numbers.EXACT, "LOWEST": lowest, "WIDE_BITS": top - lowest + 4}


def _float32_blocks(rule: Accumulator, pair: Pair) -> dict[str, int]:
    """A tree, or an alignment, whose float32 result is scaled and added to c."""
    lowest = FLOAT32.lsb - _SCALE
    bits = FLOAT32.emax + _SCALE - lowest + 4
    return {"RULE": numbers.TREE, "LOWEST": lowest, "WIDE_BITS": bits}


def _aligned(rule: Accumulator, pair: Pair) -> dict[str, int]:
    mode = numbers.TO_ODD if isinstance(rule, BulkNormalized) else numbers.TOWARD_ZERO
    return _float32_blocks(rule, pair) | {
        "RULE": numbers.ALIGNED,
        "FRACTION_BITS": rule.alignment_bits or 0,
        "TERM_MODE": mode,
        "BLOCK_MODE": mode,
        "ADD_MODE": mode or numbers.NEAREST_EVEN,
    }


def _fixed(rule: Fixed, pair: Pair) -> dict[str, int]:
    top = max(FLOAT32.emax + 1, pair.lsb + pair.bits + _BLOCK_BITS + _SCALE) - rule.lsb
    return {
        "REGISTER_BITS": rule.width,
        "REGISTER_LSB": rule.lsb,
        "WRAP": int(rule.overflow == "wrap"),
        "WIDE_BITS": max(top, rule.width, pair.bits + _BLOCK_BITS) + 4,
    }


def _grouped(rule: GroupSums, pair: Pair) -> dict[str, int]:
    bits = rule.fraction_bits + pair.bits + _BLOCK_BITS + 8
    return {
        "FRACTION_BITS": rule.fraction_bits,
        "TOGETHER": rule.together,
        "LEAST": rule.least,
        "WIDE_BITS": bits,
    }


def _floored(rule: FlooredMachine, pair: Pair) -> dict[str, int]:
    return {
        "RULE": numbers.FLOORED,
        "FRACTION_BITS": rule.fraction_bits,
        "SUM_BITS": rule.sum_bits,
        "PARTS": rule.parts,
        "TERM_MODE": numbers.TOWARD_ZERO,
        "WIDE_BITS": max(rule.fraction_bits, rule.sum_bits) + _BLOCK_BITS + 16,
    }


def _chains(rule: ChainMachine, pair: Pair) -> dict[str, int]:
    lowest = min(FLOAT32.lsb, pair.lsb) - _SCALE
    top = max(FLOAT32.emax + 1, pair.lsb + pair.bits) + _SCALE
    return {
        "RULE": numbers.CHAINS,
        "FROM_C": int(rule.from_c),
        "FLUSH": numbers.NORMAL_RESULTS,
        "LOWEST": lowest,
        "WIDE_BITS": top - lowest + 4,
    }


_MAIN: dict[type[Accumulator], str] = {Fixed: "dot_fixed", GroupSums: "dot_grouped"}
"""Functions of `rules.py` that run a dot product, other than `dot`."""
RULES: dict[type[Accumulator], Callable[..., dict[str, int]]] = {
    Exact: _exact,
    Int32: _exact,
    ExactMachine: _exact,
    Aligned: _aligned,
    BulkNormalized: _aligned,
    Fused: _fused,
    Preset: _fused,
    Fixed: _fixed,
    Float32: _float32_blocks,
    Float16: _float32_blocks,
    BFloat16: _float32_blocks,
    TreeMachine: _float32_blocks,
    GroupSums: _grouped,
    FlooredMachine: _floored,
    ChainMachine: _chains,
}
"""Parameters of the rule of exactly these classes."""
