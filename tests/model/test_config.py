"""DotConfig: legal values, messages, text, and what a configured unit computes."""

import pickle
import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import random_cases
from compare import generator
from mxdot.model import (
    E4M3,
    E5M2,
    FORMATS,
    INT8,
    PRESETS,
    Aligned,
    DotConfig,
    DotQuantizeConfig,
    Preset,
    QuantizeConfig,
    dot,
    format_pairs,
)
from mxdot.model.outputs import FLOAT32
from mxdot.model.units.matmul.config import MatmulConfig


def test_defaults():
    unit = DotConfig()
    assert unit.formats == ((E4M3, E4M3),)
    assert (unit.lanes, unit.accumulator, unit.stages) == (32, Aligned(13), 4)
    assert unit.out is FLOAT32
    assert (unit.status, unit.load_c) == (True, True)
    assert (unit.latency, unit.interval, unit.mode_bits) == (4, 1, 0)
    assert str(unit) == "e4m3 aligned:13 x32 stages 4"


def test_text_and_objects_make_equal_units():
    by_text = DotConfig("e5m2xe4m3, int8", 64, "hopper", out="float16")
    by_objects = DotConfig(((E5M2, E4M3), (INT8, INT8)), 64, PRESETS["hopper"], out=by_text.out)
    assert by_text == by_objects
    assert hash(by_text) == hash(by_objects)
    assert DotConfig(E4M3).formats == DotConfig("E4M3").formats == DotConfig(["e4m3"]).formats
    with pytest.raises(FrozenInstanceError):
        by_text.lanes = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("e4m3", [("e4m3", "e4m3")]),
        ("e5m2xe4m3", [("e5m2", "e4m3")]),
        ("e4m3xe5m2,e5m2xe4m3", [("e4m3", "e5m2"), ("e5m2", "e4m3")]),
        ("e2m1, e3m2 ,int8xe4m3", [("e2m1", "e2m1"), ("e3m2", "e3m2"), ("int8", "e4m3")]),
    ],
)
@pytest.mark.contract("F4")
def test_format_pairs(text, pairs):
    want = tuple((FORMATS[a], FORMATS[b]) for a, b in pairs)
    assert format_pairs(text) == format_pairs(pairs) == format_pairs(want) == want


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(FORMATS)), st.sampled_from(sorted(FORMATS))),
        min_size=1,
        max_size=8,
        unique=True,
    )
)
def test_formats_text_round_trips(pairs):
    unit = DotConfig(pairs, 8, "exact")
    assert format_pairs(unit.formats_text) == unit.formats
    assert DotConfig(unit.formats_text, 8, str(unit.accumulator)) == unit
    assert unit.mode_bits == max(0, (len(pairs) - 1).bit_length())
    assert unit.bits_a == max(FORMATS[a].bits for a, _ in pairs)
    assert unit.bits_b == max(FORMATS[b].bits for _, b in pairs)


def test_str_names_every_choice():
    unit = DotConfig(
        "e2m1,int8xe4m3", 8, "fixed:48:-20:wrap", 3, "bfloat16", status=False, load_c=False
    )
    assert str(unit) == ("e2m1,int8xe4m3 fixed:48:-20:wrap x8 stages 3 bfloat16 no-status no-c")


def test_gates_are_a_choice_that_changes_no_timing():
    unit, plain = DotConfig(gate_idle=True), DotConfig()
    assert str(unit) == f"{plain} gate-idle"
    assert unit.name == f"{plain.name}-gateidle"
    assert (unit.latency, unit.interval, unit.pipeline) == (4, 1, plain.pipeline)


@pytest.mark.contract("U6")
def test_scales_of_a_beat():
    unit = DotConfig("e2m1", 64, "blackwell-mxf4nvf4", scales="e4m3", scale_block=16)
    assert (unit.scale_bits, unit.scale_blocks) == (7, 4)
    assert str(unit) == "e2m1 blackwell-mxf4nvf4 x64 stages 4 scales e4m3 scale-block 16"
    assert unit.name == "blackwell-mxf4nvf4-e2m1-x64-s4-scales_e4m3-k16"
    assert DotConfig(**unit.arguments) == unit
    assert (DotConfig().scale_bits, DotConfig().scale_block) == (8, 32)


NAMES = "e4m3, e5m2, e3m2, e2m3, e2m1, int8, int4, e4m3fnuz, e5m2fnuz, fp16, bf16, tf32, int5, int3"


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "lanes must be one of 4, 8, 16, 32, 64, 128, not 3", {"lanes": 3}),
        (ValueError, "lanes must be one of 4, 8, 16, 32, 64, 128, not 256", {"lanes": 256}),
        (ValueError, "lanes must be one of 4, 8, 16, 32, 64, 128, not '32'", {"lanes": "32"}),
        (ValueError, "lanes must be one of 4, 8, 16, 32, 64, 128, not True", {"lanes": True}),
        (ValueError, "lanes must be one of 4, 8, 16, 32, 64, 128, not 4.0", {"lanes": 4.0}),
        (
            ValueError,
            f"formats must be one of {NAMES}, not 'e4m4'; nearest: e4m3",
            {"formats": "e4m4"},
        ),
        (ValueError, f"formats must be one of {NAMES}, not ''", {"formats": ""}),
        (
            ValueError,
            "formats must hold formats or pairs of formats, not 'e4m3x'",
            {"formats": "e5m2,e4m3x"},
        ),
        (
            ValueError,
            "formats must hold formats or pairs of formats, not 'e4m3xe4m3xe4m3'",
            {"formats": "e4m3xe4m3xe4m3"},
        ),
        (ValueError, "formats must name at least one format pair, not none", {"formats": []}),
        (
            ValueError,
            "formats must not repeat a pair, as 'e4m3,e4m3xe4m3' does",
            {"formats": "e4m3,e4m3xe4m3"},
        ),
        (TypeError, "formats must be text or a sequence of format pairs, not 8", {"formats": 8}),
        (TypeError, "formats must be an ElementFormat or its name, not 8", {"formats": [8]}),
        (
            ValueError,
            (
                "accumulator must be one of exact, aligned:F[:R], fused:F[:R], fixed:W:L[:wrap], "
                "float32, float16, bfloat16, int32, rvbna:N[:G], hopper, hopper-promoted, "
                "hopper-mx, hopper-fp16, ada, blackwell, or another of `mxdot machines`, "
                "not 'tesla'"
            ),
            {"accumulator": "tesla"},
        ),
        *(
            (ValueError, f"lanes must be at most {most} with {text}, not 32", {"accumulator": text})
            for text, most in (("cdna1-fp16", 4), ("cdna1-bf16", 2), ("cdna2-fp16", 4))
        ),
        (
            ValueError,
            "lanes must be one of 2, 4, 8, 16, 32, 64, 128, not 1",
            {"accumulator": "cdna2-bf16", "lanes": 1},
        ),
        (
            ValueError,
            "lanes must be one of 4, 8, 16, 32, 64, 128, not 2",
            {"accumulator": "cdna3-xf32", "lanes": 2},
        ),
        (
            ValueError,
            "scale_block must be one of 4, 8, 16, 32, 64, 128, not 2",
            {"accumulator": "cdna3-fp8", "scale_block": 2},
        ),
        *(
            (
                ValueError,
                f"scales must be e8m0 with {text}, not e4m3",
                {"accumulator": text, "scales": "e4m3", "lanes": 4},
            )
            for text in ("cdna2-fp16", "cdna3-fp8")
        ),
        (
            ValueError,
            "lanes must be a multiple of 64 with blackwell-mxf4nvf4, not 32",
            {"accumulator": "blackwell-mxf4nvf4", "formats": "e2m1"},
        ),
        (
            ValueError,
            ("scales must be e8m0 with float32 and bf16, whose sums may leave float32, not e4m3"),
            {"accumulator": "float32", "formats": "bf16", "scales": "e4m3"},
        ),
        (
            ValueError,
            (
                "scales must be e8m0 with aligned:13 and bf16, whose sums may leave float32, "
                "not e4m3"
            ),
            {"formats": "bf16", "scales": "e4m3"},
        ),
        (
            ValueError,
            "scales of float32 results must be one of e8m0, e4m3, not 'u4'",
            {"scales": "u4"},
        ),
        (
            ValueError,
            "scale_block must be the lanes with exact, 32, not 8",
            {"accumulator": "exact", "scale_block": 8},
        ),
        (ValueError, "scale_block must be at most the lanes, 32, not 64", {"scale_block": 64}),
        (
            ValueError,
            "scale_block must be one of 4, 8, 16, 32, 64, 128, not 12",
            {"scale_block": 12},
        ),
        (
            ValueError,
            "accumulator int32 takes integer formats only, not e4m3 x e4m3",
            {"accumulator": "int32"},
        ),
        (
            ValueError,
            "accumulator int32 takes integer formats only, not int8 x e2m1",
            {"formats": "int8,int8xe2m1", "accumulator": "int32"},
        ),
        (ValueError, "stages of accumulator aligned:13 must be from 1 to 29, not 0", {"stages": 0}),
        (
            ValueError,
            "stages of accumulator aligned:13 must be from 1 to 29, not 30",
            {"stages": 30},
        ),
        (
            ValueError,
            "stages of accumulator hopper-promoted must be from 2 to 7, not 1",
            {"accumulator": "hopper-promoted", "stages": 1},
        ),
        (
            ValueError,
            "stages of accumulator int32 with result int32 must be from 1 to 5, not 6",
            {"formats": "int8", "accumulator": "int32", "out": "int32", "stages": 6},
        ),
        (
            TypeError,
            "stages of accumulator aligned:13 must be an integer from 1 to 29, not 2.5",
            {"stages": 2.5},
        ),
        (
            ValueError,
            (
                "out must be one of float32, bfloat16, float16, int32, FORMAT:multiply[:BITS], "
                "FORMAT:shift, FLOAT:scale (FORMAT int8_full, int8_symmetric, uint8, int4_full, "
                "int4_symmetric), not 'float64'"
            ),
            {"out": "float64"},
        ),
        (TypeError, "status must be True or False, not 1", {"status": 1}),
        (TypeError, "load_c must be True or False, not None", {"load_c": None}),
    ],
)
@pytest.mark.contract("U4")
def test_refused(error, message, arguments):
    with pytest.raises(error) as refusal:
        DotConfig(**arguments)
    assert str(refusal.value) == message


# What a unit computes ---------------------------------------------------------------------------


def test_dot_is_the_accumulators_dot():
    unit = DotConfig("e4m3,e5m2xe4m3", 16, "fused:25")
    cases = random_cases(generator("config"), ("e5m2", "e4m3"), 100, 2, 16)
    got = unit.dot(cases.a, cases.b, cases.c, stages=True)
    want = dot(cases.a, cases.b, "fused:25", cases.c, trace=True)
    np.testing.assert_array_equal(got.result.view(np.uint32), want.result.view(np.uint32))
    np.testing.assert_array_equal(got.flags.inexact, want.flags.inexact)
    assert got.stages.keys() == want.stages.keys()
    assert not unit.dot(cases.a, cases.b).stages


def test_dot_refuses_what_does_not_fit():
    unit = DotConfig("e4m3,e5m2xe4m3", 16, "exact", load_c=False)

    def cases(fmt_a, fmt_b, k):
        return random_cases(np.random.default_rng(1), (fmt_a, fmt_b), 2, 1, k)

    fits, blocks, formats = (
        cases("e5m2", "e4m3", 16),
        cases("e4m3", "e4m3", 32),
        cases("e4m3", "e5m2", 16),
    )
    assert unit.dot(fits.a, fits.b).result.shape == (2,)
    for bad, c, message in (
        (blocks, None, "block_size of a must be the unit's 16, not 32"),
        (formats, None, "formats of a and b must be among e4m3,e5m2xe4m3, not e4m3xe5m2"),
        (fits, fits.c, "c must be None: this unit has no c input"),
    ):
        with pytest.raises(ValueError, match=message):
            unit.dot(bad.a, bad.b, c)


def test_text_may_have_spaces_and_capitals():
    spaced = DotConfig(" E5M2 x e4m3, INT8", accumulator=" Exact ", out=" Float16 ")
    assert spaced == DotConfig("e5m2xe4m3,int8", accumulator="exact", out="float16")


def test_a_sequence_of_formats_is_modes_and_a_pair_is_nested():
    assert DotConfig([E5M2, E4M3]).formats_text == "e5m2,e4m3"
    assert DotConfig([(E5M2, E4M3)]).formats_text == "e5m2xe4m3"


@pytest.mark.contract("M8")
def test_lanes_do_not_pass_a_promotion():
    preset = Preset(
        name="own",
        terms=16,
        fraction_bits=13,
        result_bits=13,
        nan=0x7FC00000,
        promote=32,
        source="",
    )
    assert DotConfig(lanes=32, accumulator=preset).lanes == 32
    with pytest.raises(ValueError, match="lanes must be at most 32 with own, not 64"):
        DotConfig(lanes=64, accumulator=preset)


def test_dot_refuses_plain_arrays():
    with pytest.raises(TypeError, match="a must be an MXArray, not ndarray"):
        DotConfig().dot(np.zeros(32), np.zeros(32))  # type: ignore[arg-type]


def test_a_pickled_unit_is_the_same_unit():
    unit = DotConfig("e5m2xe4m3", accumulator="hopper")
    again = pickle.loads(pickle.dumps(unit))
    assert again == unit
    assert str(again) == str(unit)


@pytest.mark.parametrize(
    ("interleave", "bits"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4)]
)
def test_a_slot_is_numbered_from_zero(interleave, bits):
    config = DotConfig("e2m1", 4, "exact", interleave=interleave)
    assert config.slot_bits == bits


@pytest.mark.parametrize("kind", [DotConfig, QuantizeConfig, MatmulConfig])
def test_a_docstring_names_a_default_only_where_it_is_a_value(kind):
    """None and the values of switches are told in words, or by the flag's own name."""
    defaults = re.findall(r"Default: (.+?)\.", kind.__doc__)
    assert defaults
    assert not {"None", "True", "False"} & set(defaults)


def test_options_in_study_files():
    """Switches keep their field's name; `formats` and `out` have their flag's."""
    of = DotConfig.options()
    assert {name for name, o in of.items() if o.key != name} == {"formats", "out"}
    assert (of["formats"].key, of["out"].key, of["gate_idle"].key) == (
        "format", "result", "gate_idle",
    )  # fmt: skip
    numbers = {name for name, option in of.items() if option.is_number}
    assert numbers == {"lanes", "stages", "interleave", "scale_block"}
    assert QuantizeConfig.options()["seed"].key == "lfsr_seed"
    assert QuantizeConfig.options()["seed"].parse.__name__ == "number"  # argparse prints it


def test_zero_points_of_outputs_are_signed_as_their_integers():
    for out, signed in (("int8_full:multiply", True), ("uint8:multiply", False)):
        unit = DotConfig("int8", 4, "int32", out=out, zero_points="a")
        assert unit.is_signed("zero_out") == signed
        assert unit.is_signed("zero_a")
        assert not unit.is_signed("multiplier")


def test_a_dot_unit_before_a_quantizer_has_no_status():
    assert not DotQuantizeConfig(DotConfig("e2m1", 4, "exact"), "e2m1", 4).dot.status
