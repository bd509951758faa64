"""The accumulators as data: text, ranges, messages, and the formats that they take."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxdot.model import (
    FORMATS,
    PRESETS,
    Aligned,
    BFloat16,
    Exact,
    Fixed,
    Float16,
    Float32,
    Fused,
    Int32,
    Preset,
    TableFormat,
    accumulator,
)
from mxdot.model.accumulators import KINDS, MACHINES, by_kind, check_known
from mxdot.model.accumulators.hardware import hardware_of, machines_on, without_machine

ACCEPTED = (
    "accumulator must be one of exact, aligned:F[:R], fused:F[:R], fixed:W:L[:wrap], float32, "
    "float16, bfloat16, int32, rvbna:N[:G], hopper, hopper-promoted, hopper-mx, hopper-fp16, ada, "
    "blackwell, or another of `mxdot machines`, not "
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("exact", Exact()),
        ("aligned:13", Aligned(13)),
        ("fused:25", Fused(25)),
        ("fixed:48:-20", Fixed(48, -20)),
        ("fixed:48:-20:wrap", Fixed(width=48, lsb=-20, overflow="wrap")),
        ("float32", Float32()),
        ("float16", Float16()),
        ("bfloat16", BFloat16()),
        ("aligned:13:float16", Aligned(13, "float16")),
        ("fused:25:bfloat16", Fused(25, "bfloat16")),
        ("int32", Int32()),
        ("hopper", PRESETS["hopper"]),
        ("hopper-promoted", PRESETS["hopper-promoted"]),
        ("ada", PRESETS["ada"]),
        ("blackwell", PRESETS["blackwell"]),
    ],
)
def test_text_and_object(text, want):
    got = accumulator(text)
    assert got == want
    assert hash(got) == hash(want)
    assert str(got) == text
    assert accumulator(want) is want
    assert accumulator(f" {text.upper()} ") == want
    assert got.rule


def test_saturate_is_the_default():
    assert accumulator("fixed:48:-20:saturate") == accumulator("fixed:48:-20") == Fixed(48, -20)


@given(
    st.one_of(
        st.builds(Aligned, st.integers(0, 64), st.sampled_from(["float32", "float16"])),
        st.builds(Fused, st.integers(0, 64), st.sampled_from(["float32", "bfloat16"])),
        st.builds(
            Fixed,
            st.integers(2, 1024),
            st.integers(-1024, 1023),
            st.sampled_from(["saturate", "wrap"]),
        ),
    )
)
def test_text_round_trips(value):
    assert accumulator(str(value)) == value


@pytest.mark.contract("M1")
def test_presets_are_the_rows_of_the_contract():
    rows = {
        name: (p.terms, p.fraction_bits, p.result_bits, p.nan_bits, p.promote)
        for name, p in PRESETS.items()
    }
    assert rows == {
        "hopper": (32, 13, 13, 0x7FFFFFFF, None),
        "hopper-promoted": (32, 13, 13, 0x7FFFFFFF, 128),
        "hopper-mx": (32, 13, 13, 0x7FFFFFFF, 32),
        "hopper-fp16": (16, 25, 23, 0x7FFFFFFF, None),
        "ada": (16, 13, 13, 0x7FFFFFFF, None),
        "blackwell": (32, 25, 23, 0x7FFFFFFF, None),
    }
    assert [PRESETS[name].rule for name in rows] == [
        "fused:13 in steps of 32 terms, results RZ to 13 fraction bits",
        (
            "fused:13 in steps of 32 terms, results RZ to 13 fraction bits, "
            "promoted by a float32 RNE add every 128 elements"
        ),
        (
            "fused:13 in steps of 32 terms, results RZ to 13 fraction bits, "
            "promoted by a float32 RNE add every 32 elements"
        ),
        "fused:25 in steps of 16 terms",
        "fused:13 in steps of 16 terms, results RZ to 13 fraction bits",
        "fused:25 in steps of 32 terms, largest exponent at least -133",
    ]
    assert Exact().nan_bits == Fixed(48, 0).nan_bits == 0x7FC00000


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("hopper", ["wgmma, measured on an H200"]),
        ("ada", ["checked against 20,000 published results of Ada GPUs"]),
        (
            "blackwell",
            [
                "`kind::mxf8f6f4` and unscaled FP8",
                "neither `kind::mxf4nvf4` nor the B200's `mma.sync`",
            ],
        ),
    ],
)
def test_presets_say_what_they_stand_for_and_how_that_is_known(name, facts):
    assert all(p.source for p in PRESETS.values())
    assert all(fact in PRESETS[name].source for fact in facts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "aligned",
        "aligned:",
        "aligned:x",
        "aligned:13:2",
        "aligned:1.5",
        "fixed:48",
        "fixed:48:-20:wrap:1",
        "exact:1",
        "float16:1",
        "volta:1",
        "hopper:13",
        "preset",
        "tensor core",
    ],
)
def test_bad_text(text):
    with pytest.raises(ValueError) as refusal:  # noqa: PT011  # the whole message follows
        accumulator(text)
    assert str(refusal.value) == f"{ACCEPTED}{text!r}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("alined:13", "nearest: aligned"),
        ("hoper", "nearest: hopper, hopper-mx, hopper-mma"),
        (
            "mi300x",
            (
                "MI300X has mi300x-fp8, mi300x-fp16, mi300x-bf16, mi300x-tf32, "
                "and by their names cdna3-fp16, cdna3-xf32, cdna3-fp8"
            ),
        ),
        (
            "MI250-fp8",
            "MI250 has mi250-fp16, mi250-bf16, and by their names cdna2-fp16, cdna2-bf16",
        ),
    ],
)
def test_a_bad_text_is_told_what_is_near(text, hint):
    with pytest.raises(ValueError, match=r"accumulator must be") as refusal:
        accumulator(text)
    assert str(refusal.value) == f"{ACCEPTED}{text!r}; {hint}"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("h100-fp8", "hopper"),
        ("H200_BF16", "hopper-bf16"),
        ("h100-e5m2", "hopper"),
        ("rtx4090-fp8", "ada"),
        ("RTX 4090 fp16", "ada-fp16"),
        ("a100-fp16", "ampere"),
        ("b200-nvfp4", "blackwell-mxf4nvf4"),
        ("b200-fp6", "blackwell"),
        ("mi300x-bf16", "cdna3-fp16"),
        ("mi300x-fp8", "cdna3-fp8"),
        ("mi250x-bf16", "cdna2-bf16"),
        ("h100-mma", "hopper-mma"),
    ],
)
def test_hardware_and_operands_name_a_machine(text, name):
    assert accumulator(text) is MACHINES[name]


def test_every_machine_has_hardware_and_is_named_by_it():
    for machine in MACHINES.values():
        assert hardware_of(machine) or machine.name.startswith("arm-")
        for name in hardware_of(machine):
            assert machine in machines_on(name)
    assert without_machine() == ()
    assert machines_on("a25") == machines_on("hopper-fp8") == machines_on("aligned") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aligned:65", "F of aligned must be from 0 to 64, not 65"),
        ("fused:-1", "F of fused must be from 0 to 64, not -1"),
        ("fixed:1:0", "W of fixed must be from 2 to 1024, not 1"),
        ("fixed:1025:0", "W of fixed must be from 2 to 1024, not 1025"),
        ("fixed:32:1024", "L of fixed must be from -1024 to 1023, not 1024"),
        ("fixed:32:-1025", "L of fixed must be from -1024 to 1023, not -1025"),
        (
            "fused:13:float8",
            "result of fused must be one of float32, float16, bfloat16, not 'float8'",
        ),
        ("fixed:32:0:clip", "overflow of fixed must be one of saturate, wrap, not 'clip'"),
    ],
)
@pytest.mark.contract("A9")
def test_numbers_out_of_range(text, message):
    with pytest.raises(ValueError) as refusal:  # noqa: PT011  # the whole message follows
        accumulator(text)
    assert str(refusal.value) == message


def test_wrong_types():
    with pytest.raises(
        TypeError, match=r"^F of aligned must be an integer from 0 to 64, not 13\.0$"
    ):
        Aligned(13.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^W of fixed must be an integer from 2 to 1024, not '8'$"):
        Fixed("8", 0)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"^accumulator must be an Accumulator or its text, not 13$"
    ):
        accumulator(13)  # type: ignore[arg-type]


def test_int32_takes_int8_only():
    int8, e4m3 = FORMATS["int8"], FORMATS["e4m3"]
    Int32().check_formats(int8, int8)
    table = TableFormat("table", (0, 1, 2, 3))
    for a, b in ((int8, e4m3), (e4m3, int8), (e4m3, e4m3), (int8, table)):
        match = rf"^accumulator int32 takes integer formats only, not {a} x {b}$"
        with pytest.raises(ValueError, match=match):
            Int32().check_formats(a, b)
        Exact().check_formats(a, b)


@pytest.mark.parametrize("text", [*(t for kind in KINDS.values() for t in kind.examples), *PRESETS])
def test_every_accumulator_answers(text):
    rule = accumulator(text)
    assert check_known(rule) is rule
    aligns = hasattr(rule, "fraction_bits") or hasattr(rule, "guard")
    assert (rule.alignment_bits is not None) == aligns
    assert rule.steps(128) == -(-128 // rule.step_terms(128))
    assert not rule.is_fused or rule.alignment_bits is not None
    assert rule.register is None or rule.sums_exactly
    assert rule.takes_significands
    assert rule.is_wide == (text in ("exact", "float32", "float16", "bfloat16"))
    assert rule.step_terms(128) == (rule.step_limit or 128)
    assert rule.step_terms(4) == min(rule.step_limit or 4, 4)
    assert all(wider != rule and type(wider) is type(rule) for wider in rule.wider(1))


@pytest.mark.parametrize(
    ("text", "wider"),
    [
        ("aligned:13", ["aligned:17"]),
        ("fused:13:bfloat16", ["fused:17:bfloat16"]),
        ("fixed:8:0:wrap", ["fixed:12:0:wrap", "fixed:12:-4:wrap"]),
        ("rvbna:32:0", ["rvbna:32:4"]),
    ],
)
def test_rules_with_four_bits_more(text, wider):
    assert [str(rule) for rule in accumulator(text).wider(4)] == wider


def test_a_preset_is_its_rule_by_name():
    for preset in PRESETS.values():
        assert isinstance(preset, Fused)
        assert preset.wider(1) == []
        assert preset.step_limit == preset.terms


def test_a_part_is_for_its_own_class_alone():
    class Mine(Aligned):
        pass

    assert by_kind({Aligned: "aligned"}, Aligned(13), "TABLE") == "aligned"
    with pytest.raises(
        ValueError, match=r"^accumulator aligned:13 must have its class Mine in TABLE$"
    ):
        by_kind({Aligned: "aligned"}, Mine(13), "TABLE")


PRESET = {"name": "own", "terms": 16, "fraction_bits": 14, "result_bits": 14, "nan": 0x7FC00000}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"terms": 0}, "terms of own must be from 1 to 128, not 0"),
        ({"terms": 24}, "terms of own must be a power of two, not 24"),
        ({"fraction_bits": 65}, "fraction_bits of own must be from 0 to 64, not 65"),
        ({"result_bits": 24}, "result_bits of own must be from 0 to 23, not 24"),
        ({"nan": 0x7F800000}, "nan of own must be from 2139095041 to 2147483647, not 2139095040"),
        ({"promote": 8}, "promote of own must be from 16 to 65536, not 8"),
        ({"promote": 96}, "promote of own must be a power of two, not 96"),
    ],
)
def test_a_preset_is_checked(change, message):
    assert str(Preset(**PRESET, source="here")) == "own"
    with pytest.raises(ValueError) as refusal:  # noqa: PT011  # the whole message below
        Preset(**PRESET | change, source="here")
    assert str(refusal.value) == message


@pytest.mark.parametrize("text", ["aligned:1_3", "aligned:\u0663", "aligned:+3", "aligned: 3"])
def test_numbers_are_plain_digits(text):
    with pytest.raises(ValueError, match="accumulator must be one of exact, aligned:F"):
        accumulator(text)


def test_numpy_integers_become_python_integers():
    number: Any = np.int64(13)
    assert type(Aligned(number).fraction_bits) is int
