"""Operands and checks that tests of schemes packing share with other tests."""

from mxdot.model.schemes import (
    ScaledArray,
)


def same(got, want):
    """Two ScaledArrays are equal in every part, dtypes included."""
    assert isinstance(got, ScaledArray)
    assert (got.scheme, got.axis) == (want.scheme, want.axis)
    parts = [(got.codes, want.codes), *zip(got.scales, want.scales, strict=True)]
    parts += [(got.zero_points, want.zero_points), (got.selectors, want.selectors)]
    for mine, its in parts:
        assert (mine is None) == (its is None)
        if mine is not None:
            assert (mine.dtype, mine.shape) == (its.dtype, its.shape)
            assert mine.tobytes() == its.tobytes()
