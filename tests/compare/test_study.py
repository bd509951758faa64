"""Study files and files of extra units: what they mean, and what is said when they are wrong."""

from dataclasses import replace

import pytest

from compare_sample import MINE, STUDY
from mxdot.compare.studies import (
    DEFAULT,
    WIDTHS,
    Foreign,
    Generated,
    Sampling,
    load_extra,
    load_study,
)
from mxdot.compare.studies.flows import Synthesis
from mxdot.synth import Flow


@pytest.fixture
def write(tmp_path):
    (tmp_path / "a.v").write_text("module mac; endmodule")
    (tmp_path / "b.v").write_text("module sub; endmodule")

    def write(text):
        path = tmp_path / "study.toml"
        path.write_text(text)
        return path

    return write


def test_a_study(write):
    study = load_study(write(STUDY))
    assert study.title == "Two formats"
    assert study.synthesis == Synthesis(target_levels=(30, 40), effort="area")
    assert study.sampling == Sampling((32, 64), 10, 3, 2)
    points = study.points()
    generated = [p.unit for p in points if isinstance(p.unit, Generated)]
    assert len(generated) == (2 * 3 * 2 + 2) * 2 * 2
    assert not generated[0].config.status
    foreign = [p for p in points if isinstance(p.unit, Foreign)]
    assert [(p.unit.name, p.data) for p in foreign] == [("mine", None), ("mine", None)]
    (unit,) = study.extra
    assert unit.verilog == "module mac; endmodule\nmodule sub; endmodule\n"
    assert unit.reading["parameters"] == {"WIDTH": 8}


def test_the_default_study_is_at_a_clock_in_real_processes():
    points = load_study(DEFAULT).points(lambda note: pytest.fail(note))
    clocks = {(p.flow.process, p.clock_ps) for p in points if p.flow is not None}
    assert clocks == {("asap7", 1000.0), ("sky130", 5000.0)}
    rules = {str(p.unit.accumulator) for p in points if p.unit.format == "e4m3"}
    assert {"exact", "float32", "hopper", "aligned:8", "fixed:32:-16"} <= rules
    assert "int32" in {p.unit.accumulator for p in points if p.unit.format == "int8"}
    assert {p.unit.lanes for p in points} == {32}
    assert {p.data for p in points} == {"normal", "outliers", "real"}


def test_the_study_of_widths_is_the_classical_question():
    points = load_study(WIDTHS).points(lambda note: pytest.fail(note))
    units = {p.unit for p in points}
    assert {unit.format for unit in units} == {"e4m3", "e5m2", "int8"}
    for fmt in ("e4m3", "e5m2"):
        rules = {str(unit.accumulator) for unit in units if unit.format == fmt}
        assert {"exact", "float32", "hopper"} < rules
        assert sum(rule.startswith("aligned") for rule in rules) >= 4
        assert any(rule.startswith("fixed") for rule in rules)
    assert "int32" in {unit.accumulator for unit in units if unit.format == "int8"}
    assert {unit.lanes for unit in units} == {32}
    gates, asap7 = Flow("gates"), Flow("cells", process="asap7")
    alone = replace(asap7, sections=False)
    assert {p.flow for p in points} == {gates, asap7, alone}
    measured = {p.unit for p in points if p.data}
    assert all({gates, asap7} == {p.flow for p in points if p.unit == unit} for unit in measured)
    clocked = [p.unit for p in points if p.flow == alone and isinstance(p.unit, Generated)]
    assert not measured & set(clocked)
    assert {unit.config.stages for unit in clocked} == {1, 2, 6, 8, 9, 11, 13, 17}


def test_a_sweep_with_a_process_of_its_own(write):
    """The sweep has no accuracy, and ignores the study's options of the flow."""
    more = '[[sweep]]\nlanes=8\nprocess="asap7"\naccuracy=false\n'
    points = load_study(write(STUDY.replace("[[extra]]", more + "[[extra]]"))).points()
    alone = Flow("cells", process="asap7", effort="area", sections=False)
    (point,) = (p for p in points if p.flow == alone)
    assert (point.unit.name, point.data) == ("e4m3 aligned:13 x8 stages 4", None)
    assert not point.sampling.encoder
    assert not point.energy
    assert [p for p in points if p != point] == load_study(write(STUDY)).points()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[sweep", "is not valid TOML"),
        ("speed = 3", "the study's keys are title, sweep, extra, cost, accuracy, not 'speed'"),
        ("title = 3", "title must be text, not 3"),
        ("[sweep]\nformat='e4m3'", r"sweep must be a table \[\[sweep\]\], with two brackets"),
        ("[[sweep]]\nform='e4m3'", r"\[\[sweep\]\] keys are format, .*, not 'form'"),
        ("[[sweep]]\nlanes=[8.5]", r"\[\[sweep\]\] lanes must be text, a number or a list"),
        ("[[sweep]]\nstatus=1", r"\[\[sweep\]\] status must be true or false, not 1"),
        ("cost = 3", r"cost must be a table \[cost\], not 3"),
        ("[cost]\nflows='gates'", r"\[cost\] keys are flow, .*, not 'flows'"),
        ("[cost]\nliberty=3", r"\[cost\] liberty must be text or a list of texts, not 3"),
        ("[cost]\nenergy='no'", r"\[cost\] energy must be true or false, not 'no'"),
        ("[cost]\ntarget_ps='fast'", "target_ps must be integers or ranges a..b, not 'fast'"),
        ("[accuracy]\ncount='3'", r"\[accuracy\] count must be an integer, not '3'"),
        ("[accuracy]\ncount=true", r"\[accuracy\] count must be an integer, not True"),
        (
            "[[sweep]]\nformat=[]",
            r"\[\[sweep\]\] format must be text, a number or a list of those, ",
        ),
        ("[accuracy]\nencoder=41", "encoder must be from 0 to 40, not 41"),
        ("[accuracy]\ncount=0", "count must be from 1 to 1000000, not 0"),
        ("[accuracy]\ndata=3", r"\[accuracy\] data must be text or a list of texts, not 3"),
        ("[accuracy]\nlengths='a'", "lengths must be integers or ranges a..b, not 'a'"),
        ("a = " + "[" * 3000, "must not nest its values more than 16 deep"),
        ("[" + ".".join("a" * 17) + "]", "must not nest its values more than 16 deep"),
        ("[" + ".".join(["a"] * 2000) + "]", "must have at most 1000 dots in a line"),
        ("#" * 2**20 + "\n", "cannot be read: it must have at most 1048576 bytes"),
        ("[[sweep]]\n" * 1001, r"\[\[sweep\]\] must be there at most 1000 times, not 1001"),
        ("[[extra]]\n" * 1001, r"\[\[extra\]\] must be there at most 1000 times, not 1001"),
        ("a = " + "9" * 5000, "is not valid TOML: Exceeds the limit"),
        ('"a\\nb" = 1', r"keys are title, .*, not 'a\\nb'"),
        ('[[sweep]]\n"a\\nb" = 1', r"\[\[sweep\]\] keys are format, .*, not 'a\\nb'"),
        (
            "[accuracy]\nlengths='0..99999999999999999999'",
            "lengths: .* at most 18 digits, not '0..",
        ),
        ("[cost]\ntarget_ps='" + "9" * 5000 + "'", "target_ps must be integers or ranges a..b"),
        ('[cost]\nliberty="a\\u0000"', "liberty must be one line of printable text, not"),
        ("extra = []", r"must hold at least one table \[\[extra\]\]"),
    ],
)
def test_a_malformed_study_is_one_clear_line(write, text, message):
    path = write(text)
    with pytest.raises(ValueError, match=message) as error:
        load_study(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[[sweep]]\naccumulator='fixed:1..99:0..99'\n" * 11,
            "at most 100000 units in all, not 108",
        ),
        (
            "[[sweep]]\nlanes='1..9000,1..9000'",
            "lanes must stand for at most 10000 values, not 18000",
        ),
        (
            "[[sweep]]\naccumulator='fixed:20..99:-9..0'\n[cost]\ntarget_levels='1..5000'",
            "units x flows x targets x data must be at most 100000, not 4000000",
        ),
    ],
)
def test_a_study_of_more_than_anyone_waits_for(write, text, message):
    with pytest.raises(ValueError, match=message):
        load_study(write(text)).points()


def test_a_study_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"no.toml cannot be read: No such file or directory"):
        load_study(tmp_path / "no.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a study must hold at least one \[\[sweep\]\] or \[\[extra\]\]"),
        ("[[sweep]]\n[accuracy]\ndata='weird'", "data must be one of normal"),
        ("[[sweep]]\n[cost]\nflow='none'\n[accuracy]\ndata='none'", "leave nothing to measure"),
        ("[[sweep]]\n[cost]\nflow='none'\neffort='most'", "effort must be one of area, "),
        ("[[sweep]]\n[accuracy]\ndata='no.npz'", "no.npz: no such file"),
    ],
)
def test_a_study_that_cannot_be_done(write, text, message):
    study = load_study(write(text))
    with pytest.raises(ValueError, match=message):
        study.points()


def test_an_extra_unit_cannot_have_the_name_of_another(write):
    sweep = "[[sweep]]\nformat='e2m1'\naccumulator='exact'\nlanes=4\nstages=1\n"
    name = "e2m1 exact x4 stages 1"
    study = load_study(write(sweep + MINE.replace("mine", name)))
    message = f"names of units must differ, not '{name}' of a sweep and of the extra unit in .*a.v"
    with pytest.raises(ValueError, match=message):
        study.points()
    twice = load_study(write(MINE))
    other = replace(twice.extra[0], verilog="module other; endmodule")
    with pytest.raises(ValueError, match="not 'mine' of the extra unit in"):
        replace(twice, extra=(*twice.extra, other)).points()
    assert len(replace(twice, extra=twice.extra * 2).points()) == 1


def test_an_extra_unit_of_a_known_rule_has_an_accuracy(write):
    (unit,) = load_extra(write(MINE + 'format="int8"\naccumulator="int32"\nlanes=16'))
    assert unit.rule is not None
    assert str(unit.rule[1]) == "int32"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"must hold at least one table \[\[extra\]\]"),
        ("title='x'\n" + MINE, r"tables must be \[\[extra\]\], not 'title'"),
        ("extra = [3]", r"extra must be a table \[\[extra\]\], not 3"),
        ('[[extra]]\nname = "m"\ntop = "t"', "extra 'm': verilog is missing"),
        (MINE.replace("a.v", "c.v"), "extra 'mine': .*c.v cannot be read: No such file"),
        (MINE.replace("a.v", r"a\u0000"), "verilog must be one line of printable text, not"),
        (MINE.replace("mine", "=1+1"), "name must not begin a formula of a spreadsheet, as '=1"),
        (MINE + "lanes = 'many'", "'mine': lanes must be an integer of at least 1, not 'many'"),
        (MINE + "lanes = 0", "extra 'mine': lanes must be an integer of at least 1, not 0"),
        (MINE + "format = ''", "extra 'mine': format must be text, not empty, not ''"),
        (MINE + "area = 3", "extra 'mine': keys are name, .* not 'area'"),
        (MINE + "format = 'e9m9'", "extra 'mine': formats must be one of"),
        (MINE + "format = 'e4m3,int8'", "extra 'mine': format must be one format or pair"),
        (MINE + "accumulator = 'best'", "extra 'mine': accumulator must be one of"),
        (
            MINE + "format='e4m3'\naccumulator='int32'\nlanes=8",
            "extra 'mine': .*integer formats only",
        ),
        (MINE + "parameters = { W = 1.5 }", "parameters must be a table of numbers and texts"),
        (MINE + MINE, "names of extra units must differ, 'mine' is there twice"),
    ],
)
def test_a_malformed_extra_file_is_one_clear_line(write, text, message):
    with pytest.raises(ValueError, match=message) as error:
        load_extra(write(text))
    assert "\n" not in str(error.value)
