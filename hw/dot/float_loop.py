"""The loop of accumulators that add a block's sum, an integer on a grid, to a float c with one
rounding: the sections of `SECTIONS`.

The block's sum S lies on the grid of its last digit, |S| < 2^n. c moves to this grid, so that one
addition, one leading-zero count and one rounding remain. A window shows c, here a float32; for a c
with p digits, p stands for 24:

::

    place      n + 24          n + 1    0         -25
               |  upper digits  |  S     |  below  |  sticky
    c          1 ........................1                       anywhere; 24 digits

- A c with its leading digit above the window is the result: |S| is at most a quarter of its last
  place, or half of the last place below a power of two, a tie that c's even significand wins.
- A c with its leading digit at place -3 or below is the result if S is zero. Otherwise it only
  tips the rounding: its digits below -25 are or-ed together.
- c counts as positive: a negative c changes the sign of S, and of the result.

Only places 0 to n + 1 are added digit by digit. Above them c goes up or down by one, below them its
digits stay. A negative total is never negated: its digits are inverted where they are counted and
kept, and the one that completes the two's complement joins the rounding.
"""

from collections.abc import Callable

from ..pipeline import Section, whole_or_parts
from .float_add import (
    Add,
    AddInBlocks,
    AddToRows,
    Approach,
    ApproachFar,
    ApproachNear,
    Carry,
    ChooseBefore,
    Distance,
    PassCarries,
    PutCarries,
    WholeDistance,
)
from .float_round import (
    Count,
    CountAbove,
    CountMarks,
    FloatRound,
    Normalize,
    NormalizeHigh,
    NormalizeLow,
    RoundCases,
    RoundResult,
    RoundUp,
)

SECTIONS: dict[str, Callable[..., Section]] = {
    "distance": whole_or_parts(Distance, ChooseBefore, WholeDistance),
    "approach": whole_or_parts(Approach, ApproachNear, ApproachFar),
    "add": whole_or_parts(Add, AddToRows, AddInBlocks),
    "carry": whole_or_parts(Carry, PassCarries, PutCarries),
    "count": whole_or_parts(Count, CountMarks, CountAbove),
    "normalize": whole_or_parts(Normalize, NormalizeHigh, NormalizeLow),
    "round": whole_or_parts(FloatRound, RoundCases, RoundUp, RoundResult),
}
