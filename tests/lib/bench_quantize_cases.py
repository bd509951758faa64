"""Operands and checks that tests of bench quantize share with other tests."""

from mxdot.hw.quantize.encode import LaneWords
from wrong_units import breaks


@breaks(LaneWords)
def frozen_words(words, m):
    """A shift register that does not step."""
    m.d.comb += words.words[0].eq(words.lanes)
