"""Variants of schemes: what they are, what they are called, what is refused."""

import re

import numpy as np
import pytest

from compare import generator
from mxdot.model.schemes import SCHEMES, quantize, scheme
from mxdot.model.schemes import table as of
from mxdot.model.schemes.scheme import SCALE_RULES
from rational import schemes as oracle

NAMES = ("mxfp8_e4m3", "mxfp4", "msfp12", "mx9", "mixed4", "nvfp4", "int4_g32", "vsquant4_u4")


@pytest.mark.parametrize("name", NAMES)
def test_values_are_the_oracles(name):
    matrix = generator(f"variants of {name}").normal(0, 3, (4, 64)).astype(np.float32)
    rules = SCALE_RULES if of.has_rule(SCHEMES[name]) else [None]
    for rule in rules:
        for size in (8, 64):
            row = of.variant(SCHEMES[name], rule, size)
            columns = [level.granularity.columns for level in row.levels]
            assert size in columns
            assert columns[-1] == (2 if name == "mx9" else size)
            got, want = quantize(matrix, row), oracle.quantize(matrix.tolist(), row)
            assert got.codes.tolist() == [list(codes) for codes in want.codes]


def test_names():
    row = scheme(" MXFP8_E4M3:b16:ceil ")
    assert row.name == str(row) == "mxfp8_e4m3:ceil:b16"
    assert scheme(row.name) == row
    assert scheme("mxfp4:floor:b32") is SCHEMES["mxfp4"]
    assert scheme("nvfp4:b32").source == f"after {SCHEMES['nvfp4'].source}"
    assert scheme("int4_g32:b16").source == SCHEMES["int4_g32"].source


CHANGES = (
    "what follows a scheme must be floor, ceil, even, twice, even1, b and a number, or e and a "
    "number, each once, not"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nvfp4:ceil", "scale rule of nvfp4 must be left out: its scales are by amax"),
        ("int8_channel:b8", "block of int8_channel must be left out: no scale of it is of a block"),
        ("fp8_e4m3_128x128:b8", "block of fp8_e4m3_128x128 must be left out"),
        ("mxfp4:up", f"{CHANGES} 'up'"),
        ("mxfp4:b8:b16", f"{CHANGES} 'b16'"),
        ("mxfp4:b0", "block must be from 1 to 65536, not 0"),
        ("mx9:b15", "levels of mx9:b15 must nest: no block 15 is made of whole groups of block 2"),
    ],
)
def test_refused(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        scheme(text)


def test_digits_of_errors_come_last():
    """A variant has one name, which is read back, in any order of its properties."""
    eight = scheme("mixed4:e8")
    for made in (of.variant(eight, "ceil", 16), scheme("mixed4:e8:ceil:b16")):
        assert made.name == "mixed4:ceil:b16:e8"
        assert scheme(made.name) == made
    six = of.variant(eight, error_digits=6)
    assert six == scheme("mixed4:e6")
