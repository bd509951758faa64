"""The window that shows c to the loop of one addition (float_loop.py): its places, and the values
between the sections.
"""

from amaranth.hdl import ShapeLike, signed
from amaranth.lib import data

from ...model.formats import FLOAT32, FloatFormat
from ...model.pipeline.widths import Widths
from ..arithmetic.floats import EXPONENT_BITS


class Window:
    """Places of a unit's window. `sum_bits`: width of |S|. `running`: format of c."""

    def __init__(self, sum_bits: int, running: FloatFormat = FLOAT32) -> None:
        self.sum_bits, self.running = sum_bits, running

    @property
    def significand_bits(self) -> int:
        """Width of the significand of c."""
        return self.running.significand_bits

    @property
    def below(self) -> int:
        """Number of places below the grid."""
        return self.significand_bits + 1

    @property
    def row_bits(self) -> int:
        """Width of the rows to add: S, c below place n + 1, and a sign."""
        return self.sum_bits + 3

    @property
    def cut(self) -> int:
        """First place above the addition."""
        return self.sum_bits + 1

    @property
    def top(self) -> int:
        """Highest place."""
        return self.sum_bits + self.significand_bits

    @property
    def bits(self) -> int:
        """Width of the whole window."""
        return self.top + 1 + self.below

    @property
    def count_bits(self) -> int:
        """Width of the number of leading zeros."""
        return self.bits.bit_length()

    @property
    def distance_bits(self) -> int:
        """Width of the distance of a c in the window from its top."""
        return (self.bits - 1).bit_length()

    @property
    def rows(self) -> data.ArrayLayout:
        """The value `rows`: two words whose sum is S."""
        return data.ArrayLayout(self.row_bits, 2)


def window_of(widths: Widths) -> Window:
    """Window of a unit, for sums times the significands of their scales."""
    return Window(widths.sum_bits + widths.factor_bits, widths.running)


class ReachLayout(data.StructLayout):
    """Place of c: `above` the window, at -3 or `below`, or `outside` past the window's end."""

    def __init__(self) -> None:
        super().__init__({"above": 1, "below": 1, "outside": 1})


class TotalLayout(data.StructLayout):
    """Digits of |c| + S, or |c| - S for a negative c, in the window: two's complement with the sign
    `negative`.
    """

    def __init__(self, window: Window) -> None:
        super().__init__({"digits": window.bits, "negative": 1})


class BlocksLayout(data.StructLayout):
    """Digits added in blocks, and the carry out of each."""

    def __init__(self, sizes: list[int]) -> None:
        blocks = ", ".join(map(str, sizes))
        self.meaning = (
            f"digits added in blocks of {blocks}, lowest first, and the carry out of each"
        )
        super().__init__({"digits": sum(sizes), "carries": len(sizes)})


class RangeLayout(data.StructLayout):
    """A block's sum against a float32's range.

    overflow, negative: it is too large, and its sign. underflow: a subnormal or zero sum lost
    digits below the last place, or with them.
    """

    def __init__(self) -> None:
        super().__init__({"overflow": 1, "negative": 1, "underflow": 1})


def range_value(widths: Widths) -> dict[str, ShapeLike]:
    """The value `range`, for a block's sum that may leave the range of a float32."""
    leaves = widths.config.accumulator.alignment_bits is not None and widths.sum_leaves_float32
    return {"range": RangeLayout()} if leaves else {}


STICKY_LANES = 8
"""Lanes that share a bit of `sticky` in the finer sections of an alignment."""


def sticky_bits(widths: Widths) -> int:
    """Width of `sticky`, which the loop reads: digits were lost before the sum."""
    parted = widths.config.is_cut_finer and not widths.sum_is_cut
    return max(1, widths.config.lanes // STICKY_LANES) if parted else 1


class SignificandLayout(data.StructLayout):
    """A normalised total: significand, guard and sticky of its magnitude, less one digit if
    negative.

    exponent: biased field, at least 1. zero: the total is 0.
    """

    def __init__(self, window: Window) -> None:
        super().__init__(
            {
                "significand": window.significand_bits,
                "guard": 1,
                "sticky": 1,
                "exponent": signed(EXPONENT_BITS),
                "negative": 1,
                "zero": 1,
            }
        )
