"""The script that compares quantisers tells their differences apart."""

from dataclasses import replace

import library_quantizers as tool
import numpy as np
import pytest

from mxdot.model.formats import E2M1


@pytest.fixture
def case():
    floor = tool.mx(E2M1, "floor")
    return tool.Case("other", "MXFP4", "floor", floor, floor, tool.mx_blocks(E2M1))


def test_the_same(case):
    assert tool.differences(case)[1:] == ["    the same"]


def test_another_rule_of_scales(case):
    lines = tool.differences(replace(case, make=tool.mx(E2M1, "ceil")))
    assert lines[0] == "other, MXFP4 against floor: 42903 blocks"
    # 7/8 is above 6/8, the largest under scale 2^-3.
    assert [line.partition(":")[0].strip() for line in lines[1:3]] == [
        "amax below 7.7e-34",
        "amax from 1.7e+38 on",
    ]
    assert "as amax 0.875: 0x7d there, 0x7c here" in lines[3]


def test_zeros_and_ties(case):
    def make(x):
        made = case.want(x)
        codes = np.where(x == 0, 0, made.codes)
        return tool.Made(np.where(x == 0.75, codes - 1, codes), made.scales)

    zeros, other = tool.differences(replace(case, make=make))[1:]
    assert zeros.startswith("    zeros: ")
    assert "as -0 with amax " in zeros
    assert "0x0 there, 0x8 here" in zeros
    assert other.startswith("    other codes: ")
    assert "as 0.75 with amax " in other
