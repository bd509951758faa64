"""Every rule of the numeric contract has a test; one about the RTL has bins of coverage too."""

import re
from functools import cache

import contract
import pytest

from mxdot.model import DotConfig, QuantizeConfig
from mxdot.sim.dot.features import goals as dot_goals
from mxdot.sim.engine.regression_units import smoke_matrix
from mxdot.sim.quantize.features import goals as quantize_goals

IN_RTL = ("3. Products and scales", "Status flags", "Narrower outputs")
"""Sections of which each rule is about the RTL."""


@cache
def points() -> dict[str, frozenset[str]]:
    """The bins of every cover point, `kind.point`, over the smoke matrix."""
    features = {DotConfig: ("dot", dot_goals), QuantizeConfig: ("quantize", quantize_goals)}
    result: dict[str, set[str]] = {}
    for unit in smoke_matrix():
        kind, goals = features.get(type(unit.config), ("", lambda config: {}))
        for point, bins in goals(unit.config).items():
            result.setdefault(f"{kind}.{point}", set()).update(map(str, bins))
    return {name: frozenset(bins) for name, bins in result.items()}


def has_bin(name: str) -> bool:
    """Whether the cover point of `kind.point=text` exists, and has a bin with that text."""
    point, _, text = name.partition("=")
    return any(text in bins for bins in points().get(point, ()))


def complaints(rules, tests, bins) -> list[str]:
    names = [rule.id for rule in rules]
    lacks = [f"two rules {name}" for name in dict.fromkeys(names) if names.count(name) > 1]
    for rule in rules:
        if (rule.id in tests) == (rule.id in contract.OPEN):
            lacks.append(f"rule {rule.id} must have a test or a reason in OPEN: {rule.words}")
        if rule.section in IN_RTL and not bins.get(rule.id):
            lacks.append(f"rule {rule.id} must have a bin: {rule.words}")
    lacks += [
        f"{test[0]} holds {name}, no rule" for name, test in tests.items() if name not in names
    ]
    lacks += [f"{name} has bins and is no rule" for name in bins if name not in names]
    return lacks + [
        f"no bin {b} ({name})" for name, all_ in bins.items() for b in all_ if not has_bin(b)
    ]


@pytest.fixture
def parts():
    return contract.all_rules(), contract.tests_of_rules(), contract.bins_of_rules()


def test_every_rule_has_a_test_and_its_bins(parts):
    assert not complaints(*parts)


def test_what_is_missing_is_noticed(parts):
    rules, tests, bins = parts
    page = "## 3. Products and scales\n\n**P1** Once.\n\n**P1** Twice.\n\n**Z9** A `new` rule."
    more = contract.rules("numerics.md", page)
    assert [rule.words for rule in more] == ["Once.", "Twice.", "A new rule."]
    assert complaints([*rules, *more], tests, bins) == [
        "two rules P1",
        "rule Z9 must have a test or a reason in OPEN: A new rule.",
        "rule Z9 must have a bin: A new rule.",
    ]
    assert complaints(rules, tests | {"Z9": ["a::b"]}, bins) == ["a::b holds Z9, no rule"]
    assert complaints(rules, tests, bins | {"Z9": []}) == ["Z9 has bins and is no rule"]
    assert complaints(rules, tests, bins | {"G3": ["dot.flags=nothing"]}) == [
        "no bin dot.flags=nothing (G3)"
    ]
    (lack,) = complaints(rules, tests | {"M3": ["a::b"]}, bins)
    assert lack.startswith("rule M3 must have a test or a reason")


def test_marks_are_read():
    source = '@pytest.mark.contract("A2", "A3")\ndef test_x(): ...\n@other("A4")\ndef test_y(): ...'
    assert list(contract.marks(source)) == [("test_x", "A2"), ("test_x", "A3")]


def test_the_table_has_a_row_per_rule(parts):
    rows = re.findall(r"^\| \[([A-Z]\d+)\]", contract.table(), re.M)
    assert rows == [rule.id for rule in parts[0]]
