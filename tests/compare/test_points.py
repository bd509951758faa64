"""Sweep texts, units and points."""

import pickle

import pytest

from compare_sample import swept
from mxdot.compare.studies import Generated, Sampling, points_of, units_of
from mxdot.compare.studies.flows import Synthesis, flow_options, flow_text, target_text
from mxdot.compare.studies.points import SWEPT
from mxdot.compare.studies.session import command_of
from mxdot.compare.studies.study import data_names
from mxdot.model import DotConfig
from mxdot.synth import Flow
from mxdot.util.sweep import expand, items, number_list


@pytest.mark.parametrize(
    ("item", "values"),
    [
        ("exact", ["exact"]),
        ("aligned:6..9", ["aligned:6", "aligned:7", "aligned:8", "aligned:9"]),
        ("aligned:6..11/2", ["aligned:6", "aligned:8", "aligned:10"]),
        ("aligned:6..10/2", ["aligned:6", "aligned:8", "aligned:10"]),
        ("fixed:32:-12..-10", ["fixed:32:-12", "fixed:32:-11", "fixed:32:-10"]),
        ("fixed:8..9:-2..2/4", ["fixed:8:-2", "fixed:8:2", "fixed:9:-2", "fixed:9:2"]),
        ("fixed:32:-4..-3:wrap", ["fixed:32:-4:wrap", "fixed:32:-3:wrap"]),
        ("7..7", ["7"]),
    ],
)
def test_expand(item, values):
    assert expand(item, "accumulator") == values


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("aligned:9..6", "accumulator: a range must run upwards, not '9..6'"),
        ("aligned:6..9/0", "accumulator: the step of a range must be at least 1, not '6..9/0'"),
        ("aligned:6..", "accumulator must hold ranges as a..b or a..b/step, not 'aligned:6..'"),
        ("aligned:a..b", "accumulator must hold ranges as a..b or a..b/step, not 'aligned:a..b'"),
        ("aligned:6/2", "accumulator must hold ranges as a..b or a..b/step, not 'aligned:6/2'"),
        ("0..99999", "accumulator must stand for at most 10000 values, not '0..99999' (100000)"),
    ],
)
def test_expand_refuses(item, message):
    with pytest.raises(ValueError, match="accumulator") as error:
        expand(item, "accumulator")
    assert str(error.value) == message


def test_items():
    assert items("a, b:1..2 ,c", "format") == ["a", "b:1..2", "c"]
    with pytest.raises(ValueError, match="format must be items separated by commas, not 'a,,b'"):
        items("a,,b", "format")


def test_units_are_the_product_in_order():
    found = units_of(swept("e4m3,e5m2", "exact,aligned:6..7", "4..8/4", "3"))
    assert [str(unit.config) for unit in found] == [
        f"{fmt} {rule} x{lanes} stages 3"
        for fmt in ("e4m3", "e5m2")
        for rule in ("exact", "aligned:6", "aligned:7")
        for lanes in (4, 8)
    ]


def test_equal_units_are_one():
    assert len(units_of(swept("e4m3,e4m3xe4m3", "aligned:6,aligned:6..7", "8"))) == 2


def test_an_incompatible_combination_of_a_product_is_left_out_with_a_note():
    notes = []
    found = units_of(swept("e4m3,e5m2,int8", "exact,int32", "8"), notes.append)
    assert [f"{unit.format} {unit.accumulator}" for unit in found] == [
        "e4m3 exact",
        "e5m2 exact",
        "int8 exact",
        "int8 int32",
    ]
    assert notes == [
        "left out e4m3 int32: accumulator int32 takes integer formats only, not e4m3 x e4m3",
        "left out e5m2 int32: accumulator int32 takes integer formats only, not e5m2 x e5m2",
    ]


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        (swept("e4m3", "int32"), "int32 takes integer formats only, not e4m3 x e4m3"),
        (swept("e4m3,e5m2", "int32"), "int32 takes integer formats only"),
        (swept("e4m3,e9m9", "exact"), "formats must be one of"),
        (swept("e4m3", "exact,alined:3"), "accumulator must be one of exact, aligned:F"),
        (swept("e4m3", "aligned:60..70,aligned:65..66"), "F of aligned must be from 0 to 64"),
        (swept(lanes="8,3"), "lanes must be one of 4, 8, 16, 32, 64, 128, not 3"),
        (swept(lanes="many"), "lanes must be integers or ranges a..b, not 'many'"),
        (swept(stages="30"), "stages of accumulator aligned:13 must be from 1 to 29, not 30"),
        (
            swept("e4m3,e5m2,int8", "fixed:2..101:-49..0"),
            "a sweep must stand for at most 10000 units, not 15000",
        ),
    ],
)
def test_what_cannot_be_built_at_all_is_refused(sweep, message):
    with pytest.raises(ValueError, match=message):
        units_of(sweep)


def test_an_accumulator_of_none_of_the_formats_is_left_out_too():
    notes = []
    assert len(units_of(swept("e4m3,e5m2", "exact,int32", "8"), notes.append)) == 2
    assert len(notes) == 2


def test_stages_that_one_accumulator_has_and_another_has_not():
    notes = []
    found = units_of(swept("e4m3", "exact,aligned:6", "8", "20..21"), notes.append)
    assert [unit.stages for unit in found] == [20, 20, 21]
    (note,) = notes
    assert note == "left out e4m3 exact: stages of accumulator exact must be from 1 to 20, not 21"


def test_a_unit_survives_pickling():
    unit = Generated(DotConfig("e5m2xe4m3", 8, "fixed:40:-20:wrap", 2, "bfloat16", False, False))
    again = pickle.loads(pickle.dumps(unit))
    assert again == unit
    assert again.config.out is unit.config.out
    assert again.config.formats[0][0] is unit.config.formats[0][0]


def test_points():
    both = units_of(swept("e4m3", "exact,aligned:6", "8"))
    found = points_of(both, [Flow(), None], ["normal", "real"], Sampling())
    assert len(found) == 2 * 2 * 2
    assert points_of(both, [None], [None], Sampling()) == []


def test_the_command_of_a_point_rebuilds_it():
    (point,) = points_of(
        units_of(swept("e5m2xe4m3", "fixed:40:-20", "16", "3", "float16", status=False)),
        [Flow(target_levels=30)],
        ["my file.npz#a,b"],
        Sampling((64, 32), 10, 7),
    )
    assert command_of(point) == (
        "mxdot compare --format e5m2xe4m3 --accumulator fixed:40:-20 --lanes 16 --stages 3 "
        "--result float16 --no-status --flow gates --target-levels 30 --data 'my file.npz#a,b' "
        "--lengths 32,64 --count 10 --seed 7"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lengths": ()}, "lengths must name at least one length, not none"),
        ({"lengths": (0,)}, "lengths must be from 1 to 1048576, not 0"),
        ({"count": 0}, "count must be from 1 to 1000000, not 0"),
        ({"seed": -1}, "seed must be from 0 to"),
        ({"encoder": 41}, "encoder must be from 0 to 40, not 41"),
    ],
)
def test_sampling_refuses(settings, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**settings)


def test_flows(tmp_path):
    library = tmp_path / "tiny.lib.gz"
    library.write_text("")
    found = Synthesis("gates,cells,xilinx,xilinx-dsp", library, (500, 900), (30,)).flows()
    assert [(flow_text(f), target_text(f)) for f in found] == [
        ("gates", "30 levels"),
        ("cells tiny", "500 ps"),
        ("cells tiny", "900 ps"),
        ("xilinx", None),
        ("xilinx-dsp", None),
    ]
    assert flow_options(found[1]) == f"--flow cells --liberty {library} --target-ps 500"
    assert Synthesis("none").flows() == [None]
    assert flow_text(None) is target_text(None) is None
    assert flow_options(None) == "--flow none"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"flow": "asic"},
            r"flow must be one of gates, sky130, ihp, asap7, gt2n, cells, .*, none, not 'asic'",
        ),
        ({"flow": "gates,none"}, "flow must be one of .* not 'none'"),
        ({"flow": "cells"}, "flow cells needs a cell library: --liberty FILE"),
        ({"target_ps": (1,)}, "target-ps is for flow cells or ecp5, not gates"),
        ({"flow": "xilinx", "target_levels": (9,)}, "target-levels is for flow gates, not xilinx"),
        ({"effort": "much"}, "effort must be one of area, balanced, speed, both, not 'much'"),
    ],
)
def test_flows_refuse(options, message):
    with pytest.raises(ValueError, match=message):
        Synthesis(**options).flows()


def test_a_library_must_be_there(tmp_path):
    with pytest.raises(ValueError, match=r"liberty .*no.lib is not a file"):
        Synthesis("cells", tmp_path / "no.lib").flows()


def test_data_names_keep_the_names_of_tensors():
    assert data_names("normal,f.npz#a,b") == ["normal", "f.npz#a,b"]
    assert data_names("normal, real") == ["normal", "real"]
    assert data_names("none") == []
    assert number_list("32,64..66", "lengths") == (32, 64, 65, 66)


def test_every_option_of_a_unit_can_be_swept():
    assert [option.keyword for option in SWEPT.values()] == list(DotConfig.options())
    units = units_of(swept("e4m3", "exact", "8", "8", interleave="1..3/2"))
    assert [unit.config.interleave for unit in units] == [1, 3]
    assert len({unit.name for unit in units}) == 2
    with pytest.raises(ValueError, match="interleave must be from 1 to 16, not 17"):
        units_of(swept(interleave="17"))
    units = units_of(swept("e4m3", "exact", "8", "4", delays="asap7,gt2n"))
    assert [unit.config.delays for unit in units] == ["asap7", "gt2n"]
    assert [unit.options.partition(" --delays ")[2] for unit in units] == ["", "gt2n"]
    with pytest.raises(ValueError, match="delays must be one of asap7, sky130, ihp, gt2n, not 'x'"):
        units_of(swept(delays="asap7,x"))
