"""Wrong units with integer results: the bench fails, and says where."""

import pytest
from amaranth.hdl import Mux, Value

from compare import FULL
from mxdot.hw.arithmetic.shift import RoundingShift
from mxdot.hw.dot.integer import Correct, IntegerAccumulate, Multiply
from mxdot.model import DotConfig
from wrong_units import breaks, run_one_of

INTEGER = DotConfig(
    "int8xint4", 4, "int32", out="int8_full:multiply", scales="u3", zero_points="ab", stages=2
)


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


WRONG = [truncated, wrapped, wrong_sum, uncorrected]


@pytest.mark.parametrize(
    ("wrong", "section"),
    [
        (truncated, "section limit of block "),
        (wrapped, "section accumulate of block "),
        (wrong_sum, "section correct of block "),
        (uncorrected, "section correct of block "),
    ],
)
def test_wrong_unit_is_caught_and_located(wrong, section, simulation_dir, tmp_path):
    """In bulk mode; the bench of cycles, too, as one of them shows, with FULL=1 each."""
    options = {"traffic": 300 if FULL or wrong is wrapped else 0, "bulk": 1000}
    result = run_one_of(WRONG, wrong, INTEGER, tmp_path, simulation_dir, **options)
    assert len([e for e in result.errors if "differ" in e]) == 1 + (options["traffic"] > 0)
    assert result.mismatches > 0
    assert f"first difference: {section}" in result.report
