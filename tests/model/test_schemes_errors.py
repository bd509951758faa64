"""Code books that choose by errors of a few digits: the oracle's choices, by hand, refusals."""

import re
from dataclasses import replace

import numpy as np
import pytest

from compare import generator
from mxdot.model.quantize import NONFINITE
from mxdot.model.schemes import (
    SCHEMES,
    TENSOR,
    Limits,
    ScaledArray,
    Scheme,
    calibrate,
    load,
    quantize,
    save,
    scheme,
)
from mxdot.model.schemes.files import describe
from quantize_cases import FLOAT32_MAX, random_blocks, with_nonfinite
from scheme_cases import shrunk
from scheme_oracle import check

NAMES = ("mixed4:e2", "mixed4:e8", "mixed6:ceil:e4", "mixed6:e16", "mixed8:even:e3", "mixed8:e7")


def chosen_by(made):
    """The selectors of an array of a code book, as lists."""
    return np.asarray(made.selectors).tolist()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.contract("S25")
def test_choices_are_the_oracles(name):
    row = shrunk(scheme(name))
    rng = generator("errors of digits", name)
    normal = rng.standard_normal((12, 32)).astype(np.float32)
    for matrix in (random_blocks(rng, 12, 16), normal, normal**5, np.zeros_like(normal)):
        check(matrix, row)
    check(np.copysign(np.float32(FLOAT32_MAX), normal), row)
    # Where e stays at -127, and just above.
    check(np.ldexp(normal, rng.integers(-131, -124, (12, 1))).astype(np.float32), row)


@pytest.mark.parametrize("rounding", ["toward_zero", "stochastic"])
@pytest.mark.parametrize("name", NAMES[::2])
def test_roundings_and_policies(name, rounding):
    row, rng = shrunk(scheme(name)), generator("errors of digits", name, rounding)
    for nonfinite in NONFINITE:
        matrix = with_nonfinite(rng, rng.standard_normal((8, 16)).astype(np.float32))
        words = rng.integers(0, 2**32, matrix.shape, dtype=np.uint32)
        check(matrix, row, rounding, nonfinite, words if rounding == "stochastic" else None)


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        # 6 and 4 by E2M1, 7 and 5 by INT4. In whole units either is one off, in one place.
        ([7, 4.75, 0, 0], {"": 1, ":e2": 0, ":e3": 1}),
        # 6 or 5 for 5.25: in whole units INT4 has no error.
        ([5.25, 0, 0, 0], {"": 1, ":e2": 1}),
        # 0.5 and 6 by E2M1, 0 and 6 by INT4.
        ([6, 0.5, 0, 0], {"": 0, ":e2": 0, ":e4": 0}),
        # The sign takes no part: magnitudes are cut, which differs from cutting down.
        ([-7, -4.75, 0, 0], {":e2": 0, ":e3": 1}),
        ([0, -0.0, 0, 0], {"": 0, ":e8": 0}),
    ],
)
@pytest.mark.contract("S25")
def test_by_hand(values, chosen):
    x = np.array([values], np.float32)
    for suffix, which in chosen.items():
        assert chosen_by(quantize(x, f"mixed4:b4{suffix}")) == [[which]], suffix


def test_what_is_not_finite_has_no_error():
    """The choice is the same as with zeros instead: they do not set the largest magnitude."""
    x = np.array([[7, 4.75, np.inf, 0], [5.25, -np.inf, 0, 0]], np.float32)
    row = replace(scheme("mixed4:b4:e2"), name="elements")
    made = quantize(x, row, nonfinite="element")
    assert chosen_by(made) == [[0], [1]]
    assert made.codes[0, 2] == row.elements[0].largest_code
    assert chosen_by(quantize(x, row)) == [[0], [0]]  # poisoned: zeros


def test_the_choice_alone_differs():
    """Enough digits choose as float64 does; a group has the codes of its format."""
    x = generator("digits").standard_normal((64, 256)).astype(np.float32)
    plain, exact = quantize(x, "mixed4"), quantize(x, "mixed4:e16")
    assert (exact.selectors == plain.selectors).mean() > 0.999
    few = quantize(x, "mixed4:e4")
    same = np.repeat(few.selectors == plain.selectors, 32, axis=1)
    assert 0 < (~same).mean() < 0.2
    assert (few.codes == plain.codes)[same].all()
    with pytest.raises(ValueError, match=r"^what follows a scheme must be"):
        scheme("mixed4:e8:e9")


def test_names_and_files(tmp_path):
    row = scheme("mixed4:e8:b64:even")
    assert (row.name, row.error_digits) == ("mixed4:even:b64:e8", 8)
    assert (
        row == scheme(row.name) == replace(scheme("mixed4:even:b64"), name=row.name, error_digits=8)
    )
    assert SCHEMES["mixed4"].error_digits is None
    assert "error_digits" not in describe(SCHEMES["mixed4"])
    made = quantize(np.ones((2, 64), np.float32), row)
    save(tmp_path / "made.npz", made)
    again = load(tmp_path / "made.npz")
    assert isinstance(again, ScaledArray)
    assert again.scheme == row


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mixed4:e1", "error_digits of mixed4:e1 must be from 2 to 16, not 1"),
        ("mixed4:e17", "error_digits of mixed4:e17 must be from 2 to 16, not 17"),
        (
            "mxfp4:e8",
            "error_digits of mxfp4:e8 must be None, not 8: one format, e2m1, leaves no choice",
        ),
    ],
)
@pytest.mark.contract("S25")
def test_refused(name, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        scheme(name)


@pytest.mark.contract("S31")
def test_other_scales_and_limits_are_refused():
    book = SCHEMES["mixed4"]
    for level in (replace(book.levels[0], granularity=TENSOR), SCHEMES["int4_g32"].levels[0]):
        message = (
            "error_digits of s must be None, not 8: only e8m0 scales of groups of at most 65536 "
            f"elements have such errors, not {level}"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            Scheme("s", book.elements, (level,), "a test", error_digits=8)
    message = (
        "limits must be None for mixed4:e8: its errors have 8 digits below each group's own "
        "largest magnitude"
    )
    x, one = np.ones((1, 32), np.float32), np.ones((1, 1), np.float32)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        quantize(x, "mixed4:e8", limits=Limits(-one, one))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        calibrate([x], "mixed4:e8")
    with pytest.raises(TypeError, match=r"^error_digits of s must be an integer"):
        Scheme("s", book.elements, book.levels, "a test", error_digits="8")  # type: ignore[arg-type]
