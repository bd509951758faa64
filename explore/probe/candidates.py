"""From findings to the accumulators of the model that may explain them."""

from collections.abc import Iterator

from ...model import PRESETS, Aligned, Exact, Fixed, Float32, Fused, Int32, Preset
from ...model.accumulators import MAX_FRACTION_BITS, NAN_DEFAULT, Accumulator
from ...model.formats import FLOAT32
from .findings import Findings

UNNAMED = "unnamed"
WIDE = Fixed(width=512, lsb=-256)  # holds every sum of products and float32


def candidates(found: Findings, integers: bool) -> Iterator[Accumulator]:
    """What may fit, the more telling first; `integers`: both formats are."""
    if found.order == "in turn":
        return
    if found.rounds is False or found.grid == "absolute":
        yield from _registers(found)
    if integers:
        yield Int32()
    for preset in PRESETS.values():
        if found.terms in (None, preset.terms):
            yield preset
    if found.order == "pairs" or found.grid == "none":
        yield Float32()
    if found.grid == "none":
        yield Exact()
    bits = fraction_bits(found)
    if bits is not None and found.grid != "absolute":
        yield Aligned(bits)
        # Where no product is lost, a c beyond them may still tell one F from another.
        most = MAX_FRACTION_BITS if found.grid == "none" else bits
        yield from map(Fused, range(bits, most + 1))
        yield from _unknown(found, bits)


def fraction_bits(found: Findings) -> int | None:
    """F: where products show none, that of c alone, if it is inside."""
    if found.grid == "none" and found.c_lowest is not None:
        depth = FLOAT32.emin - found.c_lowest
        if depth < FLOAT32.mantissa_bits:
            return depth
        return max(found.fraction_bits or 0, FLOAT32.mantissa_bits)
    return found.fraction_bits


def _registers(found: Findings) -> Iterator[Accumulator]:
    low, high = found.c_lowest, found.c_highest
    if found.grid == "none":
        yield WIDE
    if low is not None and high is not None and high < FLOAT32.emax and 2 <= high - low + 1 <= 1024:
        yield Fixed(high - low + 1, low, "wrap" if found.overflow == "wrap" else "saturate")
    elif found.lsb is not None and (low is None or high == FLOAT32.emax):
        yield Fixed(512, found.lsb)


def _unknown(found: Findings, bits: int) -> Iterator[Accumulator]:
    """A machine without a name, from what was measured."""
    terms = found.terms
    if terms is None or terms & (terms - 1) or terms > 128:
        return
    promote = found.promote
    if promote is not None and (promote & (promote - 1) or promote < terms):
        return
    limits = {found.result_bits, found.c_fraction_bits if found.c_joins == "inside" else None}
    for limit in sorted((x for x in limits if x is not None), reverse=True):
        yield Preset(
            name=UNNAMED,
            terms=terms,
            fraction_bits=bits,
            result_bits=limit,
            nan=NAN_DEFAULT if found.nan is None else found.nan & 0x7FFFFFFF,
            promote=promote,
            source="probe",
        )
