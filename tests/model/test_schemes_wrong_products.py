"""Deliberately wrong products of schemes: the comparison with the oracle must catch each one."""

import importlib

import numpy as np
import pytest

from compare import generator
from mxdot.model.products import NO_EXPONENT
from mxdot.model.rounding import nearest_even
from mxdot.model.schemes import SCHEMES, integer, matmul, operand, products
from mxdot.model.steps.operands import OperandStep
from rational import schemes as oracle
from scheme_cases import random_array, random_c, shrunk


def two_roundings_of_a_region(patch):
    """A product rounded before it is added, where the contract fuses."""

    def rescaled(c, scale, partial):
        return nearest_even(c + nearest_even(scale.astype(np.float64) * partial).astype(np.float64))

    patch.setattr(products, "rescaled", rescaled)
    patch.setattr(integer, "rescaled", rescaled)


def sums_not_rounded_to_float32(patch):
    patch.setattr(integer, "nearest_even", lambda x: x)


def shift_behind_the_alignment(patch):
    """Micro-exponents that leave U_i alone."""

    def units(array):
        made = right(array)
        element = array.scheme.elements[0]
        unit = element.mantissa_bits - element.fraction_bits
        vars(made)["units"] = np.where(made.values == 0, NO_EXPONENT, unit).astype(np.int16)
        return made

    right = operand.operand
    patch.setattr(importlib.import_module("mxdot.model.matmul"), "operand", units)


def scale_behind_the_truncation(patch):
    """Terms that are cut before they take the scales' significands."""
    whole = OperandStep.terms.fget
    assert whole is not None

    def terms(step):
        if step.factor is None:
            return whole(step)
        units = np.ldexp(1.0, step.largest_unit[:, None] - 3)
        return np.trunc(step.products / units) * units * step.factor[:, None]

    patch.setattr(OperandStep, "terms", property(terms))


def normalised_subnormal_scales(patch):
    def block_scale(fmt, scales, length):
        made = right(fmt, scales, length)
        exponents = np.where(np.isnan(scales), 0, np.frexp(scales)[1] - 1).astype(np.int64)
        vars(made).update(exponents=exponents, significands=np.ldexp(scales, -exponents))
        return made

    right = operand.block_scale
    patch.setattr(operand, "block_scale", block_scale)


def regions_that_do_not_start_at_zero(patch):
    """A partial sum that keeps something from before."""
    patch.setattr(np, "zeros_like", lambda x, **_: np.full(x.shape, np.float32(2.0**-20)))


WRONG = [
    (two_roundings_of_a_region, "fp8_e4m3_b128", "exact", "one"),
    (two_roundings_of_a_region, "int4_g32", "int32", "one"),
    (sums_not_rounded_to_float32, "vsquant8_u6", "int32", "one"),
    (shift_behind_the_alignment, "mx9", "aligned:3", "one"),
    (shift_behind_the_alignment, "mx6", "fused:3", "one"),
    (scale_behind_the_truncation, "nvfp4", "exact", "one"),
    (normalised_subnormal_scales, "nvfp4", "fused:3", "ends"),
    (normalised_subnormal_scales, "vsquant4_u4", "fused:3", "one"),
    (regions_that_do_not_start_at_zero, "fp8_e4m3_b128", "exact", "one"),
]


@pytest.mark.parametrize(
    ("wrong", "name", "text", "kind"), WRONG, ids=[f"{w.__name__}-{n}" for w, n, _, _ in WRONG]
)
def test_a_wrong_product_is_caught(wrong, name, text, kind, monkeypatch):
    rng = generator("wrong", name, text)
    scheme = shrunk(SCHEMES[name])
    caught = False
    for _ in range(5):
        a, b = (random_array(rng, scheme, 12, 32, kind) for _ in range(2))
        c = random_c(rng, (12, 12), "one")
        want = oracle.matmul(a, b, text, c)
        np.testing.assert_array_equal(matmul(a, b, text, c).view(np.uint32), want)
        with monkeypatch.context() as patch:
            wrong(patch)
            caught |= bool((matmul(a, b, text, c).view(np.uint32) != want).any())
    assert caught
