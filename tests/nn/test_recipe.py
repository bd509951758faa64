"""Recipes: defaults, normalised fields, refusals."""

import pickle
from dataclasses import replace

import pytest

from mxdot.model import E2M1, E4M3, Aligned
from mxdot.model.formats import FloatFormat
from mxdot.model.schemes import SCHEMES
from mxdot.nn import Recipe


def test_the_default_is_the_published_recipe():
    recipe = Recipe()
    assert (recipe.weight, recipe.activation, recipe.gradient) == ("e4m3", "e4m3", "e4m3")
    assert (recipe.block_size, recipe.scale_rule) == (32, "ceil")
    assert recipe.fast


def test_formats_and_accumulators_in_either_form():
    assert Recipe(weight=E2M1) == Recipe(weight="e2m1")
    assert Recipe(weight=" E2M1 ").weight == "e2m1"
    assert Recipe(accumulator="aligned:13") == Recipe(accumulator=Aligned(13))
    assert not Recipe(accumulator="exact").fast
    assert Recipe(high_precision=iter(["lm_head"])).high_precision == ("lm_head",)


def test_schemes_by_name_and_by_themselves():
    recipe = Recipe(" INT8_Channel ", SCHEMES["int8_affine"])
    assert (recipe.weight, recipe.activation) == ("int8_channel", "int8_affine")
    mine = replace(SCHEMES["int4_g32"], name="mine")
    assert Recipe(mine, None).weight == mine
    assert pickle.loads(pickle.dumps(Recipe(mine, None))) == Recipe(mine, None)
    assert hash(Recipe(mine, None)) == hash(Recipe(mine, None))


def test_gradients_stay_in_high_precision_beside_schemes():
    assert Recipe("int4_g128", None).gradient is None
    assert Recipe("e4m3", "int8_affine").gradient is None
    assert Recipe("int4_g128", None, "e5m2").gradient == "e5m2"
    assert Recipe("e2m1", None).gradient == "e4m3"


def test_only_gradients_are_rounded_stochastically():
    recipe = Recipe(gradient_rounding="stochastic")
    assert recipe.rounding("gradient") == "stochastic"
    assert recipe.rounding("weight") == recipe.rounding("activation") == "nearest_even"


def test_recipes_pickle_and_hash():
    recipe = Recipe(accumulator="hopper", high_precision=("lm_head",))
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    assert hash(replace(recipe)) == hash(recipe)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"weight": "e4m4"},
            ValueError,
            r"weight must be a format \(e4m3, .*\) or a scheme \(mxfp8_e4m3, .*; nearest: e4m3$",
        ),
        ({"weight": "mxfp3"}, ValueError, "not 'mxfp3'; nearest: mxfp4, .*$"),
        ({"weight": "zzz"}, ValueError, "not 'zzz'$"),
        ({"gradient": 8}, TypeError, "gradient must be an ElementFormat or its name, not 8"),
        ({"activation": FloatFormat("e4m3", 4, 2)}, ValueError, "activation must be a format"),
        ({"block_size": 0}, ValueError, "block_size must be from 1 to 65536, not 0"),
        ({"block_size": 32.0}, TypeError, "block_size must be an integer"),
        (
            {"scale_rule": "up"},
            ValueError,
            "scale_rule must be one of floor, ceil, even, twice, not",
        ),
        ({"gradient_rounding": True}, ValueError, "gradient_rounding must be one of"),
        ({"accumulator": "quick"}, ValueError, "accumulator must be one of exact, .* not 'quick'"),
        ({"accumulator": None}, TypeError, "accumulator must be an Accumulator or its text"),
        (
            {"accumulator": "exact", "gradient": None},
            ValueError,
            "gradient must have a format with accumulator exact, not None",
        ),
        ({"accumulator": "int32"}, ValueError, "accumulator int32 takes integer formats only"),
        (
            {"accumulator": "int32", "weight": "int8", "activation": "int8"},
            ValueError,
            "not e4m3 x int8",
        ),
        (
            {"weight": "int8_row"},
            ValueError,
            "weight must be a format .* not 'int8_row'; nearest: ",
        ),
        (
            {"activation": "int8_affine", "gradient_rounding": "stochastic"},
            ValueError,
            "gradient_rounding must be nearest_even for schemes with groups along features, not st",
        ),
        (
            {"weight": None, "activation": "int8_affine", "accumulator": "int32"},
            ValueError,
            "weight must have a format with accumulator int32, not None",
        ),
        (
            {"weight": "int8_channel", "accumulator": "int32"},
            ValueError,
            "INT32 sums take integer elements, not e4m3 of mx_e4m3",
        ),
        (
            {"weight": "int4_g128", "activation": None, "accumulator": "aligned:13"},
            ValueError,
            "accumulator of a weight-only product must be exact, fused:F or a preset, not aligned",
        ),
        ({"high_precision": "lm_head"}, TypeError, "high_precision must be a sequence of layer"),
        ({"high_precision": (1,)}, TypeError, "high_precision must be a sequence of layer names"),
    ],
)
def test_refusals(options, error, message):
    with pytest.raises(error, match=message):
        Recipe(**options)


def test_formats_are_kept_as_names():
    assert Recipe(weight=E4M3).weight == "e4m3"
