"""Accumulators of the model that may explain findings."""

from collections.abc import Iterator
from contextlib import suppress

from ...model import (
    MACHINES,
    PRESETS,
    Aligned,
    BFloat16,
    ElementFormat,
    Exact,
    Fixed,
    Float16,
    Float32,
    Fused,
    Int32,
    Machine,
    Preset,
)
from ...model.accumulators import MAX_FRACTION_BITS, NAN_DEFAULT, Accumulator, BulkNormalized
from ...model.formats import BFLOAT16, FLOAT16, FLOAT32
from .findings import Findings

UNNAMED = "unnamed"
WIDE = Fixed(width=512, lsb=-256)  # holds every sum of products and float32


def candidates(
    findings: Findings, formats: tuple[ElementFormat, ElementFormat]
) -> Iterator[Accumulator]:
    """Accumulators that may fit, the more telling first; one machine per rule."""
    machines = [row for row in _machines(findings, formats) if alike(row)[0] == row.name]
    if findings.order == "in turn":
        yield from machines
        return
    if findings.rounds is False or findings.grid == "absolute":
        yield from _registers(findings)
    if all(fmt.is_integer for fmt in formats):
        yield Int32()
    yield from machines
    running = _running(findings)
    # A running value of 16 bits hides the order of what is added before it.
    if findings.order == "pairs" or findings.grid == "none" or running != FLOAT32.name:
        yield TREES[running]
    if findings.grid == "none" and running == FLOAT32.name:
        yield Exact()
    yield from _bulk(findings)
    bits = fraction_bits(findings)
    if bits is not None and 0 <= bits <= MAX_FRACTION_BITS and findings.grid != "absolute":
        yield Aligned(bits, running)
        # Where no product is lost, a c beyond them may still tell one F from another.
        most = MAX_FRACTION_BITS if findings.grid == "none" else bits
        yield from (Fused(each, running) for each in range(bits, most + 1))
        yield from _unknown(findings, bits)


def _bulk(findings: Findings) -> Iterator[Accumulator]:
    """RISC-V's bulk normalisation, which rounds to odd.

    Where products show neither terms nor guard bits, numbers of terms with the manual's guard bits.
    """
    bits = fraction_bits(findings)
    if "odd" not in (findings.cut, findings.c_rounding) or bits is None:
        return
    seen = bits - FLOAT32.mantissa_bits
    for terms in SIZES if findings.terms is None else [findings.terms]:
        least = max(seen, terms.bit_length() - 1)
        for guard in [seen] if findings.order == "together" else dict.fromkeys([least, seen]):
            with suppress(ValueError):  # numbers of terms or bits that the rule does not have
                yield BulkNormalized(terms, guard)


SIZES = [2**n for n in range(1, 8)]
"""Numbers of terms that are tried where none was found."""
TREES = {tree.running.name: tree for tree in (Float32(), Float16(), BFloat16())}


def alike(machine: Machine) -> list[str]:
    """The machines of this one's rule, by name."""
    return [
        name
        for name, other in MACHINES.items()
        if (other.rule, other.nan) == (machine.rule, machine.nan)
    ]


def _machines(
    findings: Findings, formats: tuple[ElementFormat, ElementFormat]
) -> Iterator[Machine]:
    """Machines that the findings allow; presets first, then those that have the formats."""
    pair = "x".join(dict.fromkeys(fmt.name for fmt in formats))
    own = [row for row in MACHINES.values() if row.name in PRESETS or pair in row.operands]
    for row in dict.fromkeys([*own, *MACHINES.values()]):
        try:
            row.check_formats(*formats)
        except ValueError:
            continue
        steps = findings.terms in (None, row.terms) or not _shows_steps(row)
        nan = findings.nan in (None, row.nan)
        if steps and nan and row.running.name == _running(findings):
            yield row


def _shows_steps(row: Machine) -> bool:
    """Whether the terms of a step are found one by one: steps of other rules look otherwise."""
    return isinstance(row, Preset) and row.running == FLOAT32 and not row.permuted


def _running(findings: Findings) -> str:
    """The float that a c alone passes through."""
    if findings.c_highest == FLOAT16.emax and findings.c_lowest == FLOAT16.lsb:
        return FLOAT16.name
    if findings.c_lowest == BFLOAT16.lsb and findings.c_fraction_bits == BFLOAT16.mantissa_bits:
        return BFLOAT16.name
    return FLOAT32.name


def fraction_bits(findings: Findings) -> int | None:
    """F: where products show none, that of c alone, if it is inside."""
    if _running(findings) != FLOAT32.name:
        return findings.fraction_bits
    if findings.grid == "none" and findings.c_lowest is not None:
        depth = FLOAT32.emin - findings.c_lowest
        if depth < FLOAT32.mantissa_bits:
            return depth
        return max(findings.fraction_bits or 0, FLOAT32.mantissa_bits)
    return findings.fraction_bits


def _registers(findings: Findings) -> Iterator[Accumulator]:
    low, high = findings.c_lowest, findings.c_highest
    if findings.grid == "none":
        yield WIDE
    if low is not None and high is not None and high < FLOAT32.emax and 2 <= high - low + 1 <= 1024:
        yield Fixed(high - low + 1, low, "wrap" if findings.overflow == "wrap" else "saturate")
    elif findings.lsb is not None and (low is None or high == FLOAT32.emax):
        yield Fixed(512, findings.lsb)


def _unknown(findings: Findings, bits: int) -> Iterator[Accumulator]:
    """A machine without a name, from what was measured."""
    terms = findings.terms
    if terms is None or terms & (terms - 1) or terms > 128:
        return
    promote = findings.promote
    if promote is not None and (promote & (promote - 1) or promote < terms):
        return
    limits = {
        findings.result_bits,
        findings.c_fraction_bits if findings.c_joins == "inside" else None,
    }
    for limit in sorted((x for x in limits if x is not None), reverse=True):
        yield Preset(
            name=UNNAMED,
            terms=terms,
            fraction_bits=bits,
            result_bits=limit,
            nan=NAN_DEFAULT if findings.nan is None else findings.nan & 0x7FFFFFFF,
            promote=promote,
            source="probe",
        )
