"""Pareto fronts, and what to build."""

import math
from dataclasses import replace

from mxdot.compare.studies import Row
from mxdot.compare.studies.answers import WISHES, answers
from mxdot.compare.studies.pareto import accumulator, front, marked, total

INF = math.inf


def row(area, sqnr, total_db=20.0, **more) -> Row:
    given = {"unit": f"u{area}", "generated": True, "flow": "gates", "lanes": 8, "stages": 4}
    given |= {"data": "normal", "format": "e4m3", "accumulator": "aligned:6", "area": area}
    return Row(**given | {"sqnr_accumulator_db": sqnr, "sqnr_total_db": total_db} | more)


def test_the_front_is_what_nothing_beats():
    rows = [row(100, 30), row(120, 50), row(110, 20), row(130, 50), row(140, INF), row(90, 10)]
    assert [r.area for r in front(rows, accumulator)] == [90, 100, 120, 140]


def test_equals_are_on_the_front_together():
    rows = [row(100, 30), row(100, 30.04), row(100, 29)]
    assert [r.sqnr_accumulator_db for r in front(rows, accumulator)] == [30, 30.04]


def test_less_than_a_tenth_of_a_decibel_is_no_progress():
    rows = [row(100, 30, 26.86), row(120, 40, 26.89), row(140, 50, 27.2)]
    assert [r.area for r in front(rows, total)] == [100, 140]


def test_rows_that_failed_or_know_too_little_take_no_part():
    rows = [row(1, 99, status="failed"), row(2, None), row(100, 30), replace(row(3, 50), area=None)]
    assert [r.area for r in front(rows, accumulator)] == [100]


def test_marks_are_those_of_peers():
    rows = marked(
        [
            row(100, 30), row(102, 30), row(104, 30), row(150, 30, format="int8"),
            row(150, 30, 40.0, lanes=16), row(90, 60, status="bound exceeded"),
        ]
    )  # fmt: skip
    assert [r.pareto_format for r in rows] == ["front", "near", None, "front", "front", None]
    assert [r.pareto_total for r in rows] == ["front", "near", None, None, "front", None]


def test_answers_are_the_smallest_units_that_grant_a_wish():
    some = {"sqnr_format_db": 20.05}
    rows = [
        row(100, 30, 19.0, **some), row(110, 45, 20.0, **some),
        row(150, 141, 20.05, **some), row(140, 139.5, 20.05, **some),
        row(300, 141, 20.05, accumulator="float32", **some),
        row(200, 150, 20.05, accumulator="exact", **some),
        row(50, 200, 20.05, status="failed", **some),
    ]  # fmt: skip
    (answer,) = answers(rows)
    assert {wish: unit.area for wish, unit in answer.units.items()} == {
        "smallest": 100, "no visible loss": 110, "as good as float32": 150, "float32": 300,
        "exact": 200,
    }  # fmt: skip
    assert answer.reference == 200
    assert list(answer.units) == list(WISHES)


def test_a_requantised_sum_is_not_exact():
    """The INT32 sum is; what a shift leaves of it is no reference."""
    rows = [
        row(100, 40, 30, accumulator="int32", generated=True, stages=4, unit=f"int8 {text}")
        for text in ("int32 x8 stages 4 int8_full:shift", "int32 x8 stages 4 int8_full:multiply")
    ]
    (answer,) = answers(rows)
    assert "exact" not in answer.units
    whole = row(120, 150, 38, accumulator="int32", generated=True, stages=4,
                unit="int8 int32 x8 stages 4 int32")  # fmt: skip
    (answer,) = answers([*rows, whole])
    assert answer.units["exact"] is whole
