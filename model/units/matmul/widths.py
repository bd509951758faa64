"""How wide a matrix unit can be: as wide as the tool that writes its RTL can number.

Amaranth counts the bits that come into a module, and those of each register in it, up to 2^16. A
step comes into the array at once, a tile of results into the drain, the beats of all operands into
the unit; and a converter of widths in to out holds in + 2 out bytes, less what both have in common.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping

from ...errors import integer

LARGEST_BITS = 2**16 - 2**8
"""Less than 2^16, for the handshakes that go with them."""
LARGEST_BYTES = LARGEST_BITS // 8
LARGEST_BEATS = LARGEST_BITS // 9
"""Bytes of TDATA of all operand streams together; each has a bit of TKEEP."""


def check_array(
    rows: int, columns: int, *, record_a: int, record_b: int, out_bits: int, c_bits: int
) -> None:
    """ValueError, which names rows or columns and how many there can be, for too large an array.

    record_a, record_b: bytes of a block. out_bits, c_bits: of a result and of an initial value.
    """

    def fits(rows: int, columns: int) -> bool:
        a, b = rows * record_a, columns * record_b
        values = rows * columns
        widest = max(8 * (a + b) + c_bits * values, out_bits * values)
        beats = narrowest(a) + narrowest(b) + narrowest(columns * c_bits // 8)
        return widest <= LARGEST_BITS and beats <= LARGEST_BEATS

    if fits(rows, columns):
        return
    possible = _most(rows, lambda count: fits(count, columns))
    if possible:
        integer(f"rows beside {columns} columns", rows, 1, possible)
    integer("columns", columns, 1, _most(columns, lambda count: fits(1, count)))


def _most(high: int, fits: Callable[[int], bool]) -> int:
    """The largest count up to `high` that fits, as all smaller ones do; 0 for none."""
    return bisect_right(range(1, high + 1), False, key=lambda count: not fits(count))


def narrowest(unit: int) -> int:
    """The fewest bytes of an operand stream whose steps have `unit` bytes."""
    return min(unit, 1) if 2 * unit <= LARGEST_BYTES else unit


def check_streams(widths: Mapping[str, int], units: Mapping[str, int]) -> None:
    """TypeError or ValueError names a stream that cannot be as wide as it is, and the range.

    widths, units: bytes of a beat, and of what the unit moves at once, of the results ``c`` and of
    each operand stream that there is.
    """
    inputs = [side for side in units if side != "c"]
    for side, unit in units.items():
        width = widths[side]
        if side == "c":
            most = (LARGEST_BYTES + 1 - unit) // 2
        else:
            most = LARGEST_BEATS - sum(narrowest(units[other]) for other in inputs if other != side)
            if width != unit:
                most = min(most, LARGEST_BYTES + 1 - 2 * unit)
        if most < 1:
            raise ValueError(f"{side}_bytes must be {unit}, a whole step, not {width!r}")
        integer(f"{side}_bytes", width, 1, most)
    total = sum(widths[side] for side in inputs)
    if total > LARGEST_BEATS:
        side = max(inputs, key=lambda side: widths[side])
        others = total - widths[side]
        integer(f"{side}_bytes beside {others} of others", widths[side], 1, LARGEST_BEATS - others)
