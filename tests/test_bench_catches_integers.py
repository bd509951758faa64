"""Wrong units with integer results, or micro-exponents: the bench fails, and says where."""

import pytest
from amaranth.hdl import Mux, Value

from mxdot.hw.arithmetic.requantize import RoundingShift
from mxdot.hw.dot.decode import ElementDecoder
from mxdot.hw.dot.integer import Correct, IntegerAccumulate, Multiply
from mxdot.model import DotConfig
from wrong_units import breaks, run_one_of

INTEGER = DotConfig(
    "int8xint4", 4, "int32", out="int8_full:multiply", scales="u3", zero_points="ab", stages=2
)
MICRO = DotConfig("int8", 4, "aligned:6", micro=True, stages=2)


@breaks(RoundingShift)
def truncated(shift, m):
    """The shift's last digit is dropped and not rounded."""
    floor = (shift.value >> shift.shift) + shift.zero.as_signed()
    limited = Mux(floor > 127, 127, Mux(floor < -128, -128, floor))
    m.d.comb += shift.result.eq(limited)


@breaks(IntegerAccumulate)
def wrapped(section, m):
    """The INT32 sum wraps."""
    before = Mux(section.i.first, section.i.c.as_signed(), section.i.running.c)
    m.d.comb += Value.cast(section.o.running.c).eq((before + section.i.addend)[:32])


@breaks(Correct)
def uncorrected(section, m):
    """The block's sum as if both zero points were zero."""
    rows = section.i.rows
    total = (rows[0] + rows[1])[: section.integers.corrected].as_signed()
    m.d.comb += section.o.addend.eq(total * section.i.factor)


@breaks(Multiply)
def wrong_sum(section, m):
    """The codes of a summed as unsigned numbers."""
    m.d.comb += section.o.sum_a.eq(sum(Value.cast(section.i.a[i]) for i in range(4)))


@breaks(ElementDecoder)
def no_micro(decoder, m):
    """The micro-exponent is ignored."""
    m.d.comb += decoder.element.exponent.eq(1)


WRONG = {INTEGER: [truncated, wrapped, wrong_sum, uncorrected], MICRO: [no_micro]}


@pytest.mark.parametrize(
    ("wrong", "config", "section"),
    [
        (truncated, INTEGER, "section limit of block "),
        (wrapped, INTEGER, "section accumulate of block "),
        (wrong_sum, INTEGER, "section correct of block "),
        (no_micro, MICRO, "section multiply of block "),
        (uncorrected, INTEGER, "section correct of block "),
    ],
)
def test_wrong_unit_is_caught_and_located(wrong, config, section, simulation_dir, tmp_path):
    wrongs, options = WRONG[config], {"traffic": 300, "bulk": 1000}
    result = run_one_of(wrongs, wrong, config, tmp_path, simulation_dir, **options)
    assert result.mismatches > 0
    assert f"first difference: {section}" in result.report
