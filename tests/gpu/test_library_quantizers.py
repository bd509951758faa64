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


def test_gpt_oss_differs_in_the_least_scale_and_in_ties():
    """By hand: 7 / 6 needs scale 2, under which 0.5 lies between the codes 0 and 1."""
    to_even, away = tool.gpt_oss()
    x = np.array([[7, 0.5, -0.5, 0.75 * 2, 6 * 2]], np.float32)
    assert to_even.make(x[:, :4]).codes.tolist() == [[6, 0, 8, 2]]
    assert away.make(x[:, :4]).codes.tolist() == [[6, 1, 9, 2]]
    for case, scale in ((to_even, 128), (away, 128)):
        assert case.make(x[:, :4]).scales == case.make(x).scales == scale
    least = (
        "    amax below 7.7e-34: 9270 of 15570 scales, as amax 2.3509887e-38: 0x1 there, 0x0 here"
    )
    assert tool.differences(to_even)[1:] == [least]
    *same, ties = tool.differences(away)[1:]
    assert same == [least]
    assert ties.endswith("codes, as 0.5 with amax 7, scale 0x80: 0x1 there, 0x0 here")
