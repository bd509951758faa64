"""docs/evidence.md: its tables are made of kept results, and old ones are marked."""

import sys
from dataclasses import replace

import evidence
import pytest

from mxdot.util.store import Store
from mxdot.verify.mutate.parts import PARTS

PRINTS = """
print("[1/1] holds  scale-adder: proved for 2^16 inputs in 2.0 s; with a bug refuted in 1.0 s")
print("noise")
"""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Results of this test alone."""
    monkeypatch.setattr(evidence, "KEPT", Store(tmp_path))
    monkeypatch.setattr(evidence, "digest_of", evidence.cache(lambda sources: digests[sources]))
    digests = dict.fromkeys(
        (
            *evidence.SOURCES.values(),
            *evidence.PARTS.values(),
            *(step.sources for step in evidence.STEPS.values()),
        ),
        "1",
    )
    return digests


def test_a_step_keeps_its_results(kept, capsys):
    assert evidence.step("formal", [sys.executable, "-c", PRINTS]) == 0
    rows = evidence.taken({})
    assert rows.keys() == {"proof scale-adder", "step formal"}
    assert rows["step formal"]["result"] == "1 of 1 claims hold"
    assert "noise" in capsys.readouterr().out
    page = evidence.render("<!-- evidence: proofs -->\n<!-- end -->", rows)
    assert "| 1/1 | 2^16 to 2^16 | 2 s |" in page
    assert "older" not in page


def test_a_result_of_other_sources_is_older(kept):
    for name in ("formal", "soak"):
        evidence.step(name, [sys.executable, "-c", PRINTS])
    rows = evidence.taken({})
    assert "older" not in evidence.steps(rows)
    kept[evidence.SOURCES["proof"]] = "2"
    evidence.digest_of.cache_clear()
    assert "1 older" in evidence.proofs(rows)
    older = [line for line in evidence.steps(rows).splitlines() if "older" in line]
    assert len(older) == 1
    assert "`make formal`" in older[0]


def test_mutants_of_another_seed_are_older(kept, monkeypatch):
    program = "print('a: 9 mutants, killed by x; equivalent 2, survived 1: score')"
    evidence.step("mutate", [sys.executable, "-c", program, "--seed 7"])
    (row,) = (row for name, row in evidence.taken({}).items() if name == "mutants a")
    assert row["seed"] == 7
    for seed, older in ((7, False), (8, True)):
        step = replace(evidence.STEPS["mutate"], command=f"make mutate ARGS='--seed {seed}'")
        monkeypatch.setitem(evidence.STEPS, "mutate", step)
        rows = {"mutants a": row, "step mutate": evidence.taken({})["step mutate"]}
        assert ("older" in evidence.mutants(rows)) is older
        assert ("older" in evidence.steps(rows)) is older


def test_the_result_of_a_simulation_is_its_totals():
    lines = ["table", "2 units, 9 dot products compared with the model, 0 mismatches", "a layer"]
    assert evidence.summary({}, lines) == lines[1]
    ends = ["5 passed", "", "make[1]: Leaving directory 'x'"]
    assert evidence.summary({}, ends) == "5 passed"
    assert evidence.summary({}, []) == ""
    assert evidence.summary({}, ["coverage of 2 units: line 9 of 9; 0 holes; closed"]) == "0 holes"
    rows = {"mutants a": {"mutants": 20, "equal": 2, "survived": 1}}
    assert evidence.summary(rows, lines) == "17 of 18 killed"


def test_a_page_made_before_and_after_saving_is_one(kept):
    """Times that add up to 0 s in the other order, where each sum is rounded."""
    times = {"a": 1e16, "b": -1e16, "c": 1.0}
    row = {"verdict": "proved", "bug": "refuted", "space": "2^4", "date": "", "digest": ""}
    rows = {f"proof multiplier:{name}": row | {"seconds": s} for name, s in times.items()}
    assert evidence.proofs(rows) == evidence.proofs(dict(reversed(rows.items())))
    assert " 1 s " in evidence.proofs(rows)


def test_a_regression_is_told_by_its_counts(kept):
    text = "2 units, 9 dot products compared with the model, 0 mismatches, coverage 100%, 4 s"
    evidence.step("sim-full", [sys.executable, "-c", f"print({text!r})"])
    assert "| 2 units, 9 dot products: 0 mismatches |" in evidence.steps(evidence.taken({}))


def test_a_failure_is_told(kept):
    assert evidence.step("fuzz", [sys.executable, "-c", "print('no'); raise SystemExit(1)"]) == 1
    assert "FAILED: no" in evidence.steps(evidence.taken({}))


CHANGES = """
import sys
from pathlib import Path
Path(sys.argv[1]).write_text("2")
print("a: 9 mutants, killed by x; equivalent 2, survived 1: score")
"""


def test_rows_whose_sources_change_meanwhile_are_not_kept(kept, tmp_path, monkeypatch):
    """Others of the step are."""
    changed = tmp_path / "changed"
    changed.write_text("1")
    of_fuzz = evidence.STEPS["fuzz"].sources

    def digest(sources):
        return changed.read_text() if sources == of_fuzz else "1"

    monkeypatch.setattr(evidence, "digest_of", evidence.cache(digest))
    for name, labels in (("fuzz", {"mutants a"}), ("mutate", {"mutants a", "step mutate"})):
        changed.write_text("1")
        evidence.step(name, [sys.executable, "-c", CHANGES, str(changed)])
        assert evidence.taken({}).keys() == labels


def test_a_step_that_the_machine_ends_has_no_row(kept):
    for end in (
        "os.kill(os.getpid(), 9)",
        "print(os.strerror(errno.ENOSPC)); sys.exit(1)",
    ):
        assert evidence.step("fuzz", [sys.executable, "-c", f"import errno, os, sys; {end}"])
        assert evidence.taken({}) == {}


def test_an_unknown_step():
    with pytest.raises(ValueError, match=r"step must be one of test-full, .*, not 'nothing'"):
        evidence.step("nothing", [])


def test_every_step_of_verify_has_a_row():
    words = (evidence.ROOT / "Makefile").read_text().splitlines()
    names = [
        line.partition(":=")[2].split() for line in words if line.startswith(("STEPS", "SOAKS"))
    ]
    assert {name for line in names for name in line} == evidence.STEPS.keys() - {"fuzz"}


def test_the_page_is_made_of_the_data():
    """Except for marks of age, which depend on sources."""
    text = evidence.PAGE.read_text(encoding="utf-8")
    rows = evidence.load()
    assert without_dates(evidence.render(text, rows)) == without_dates(text), (
        "run python tools/evidence.py"
    )


def without_dates(text):
    return [line.rpartition("|")[0].rpartition("|")[0] for line in text.splitlines()]


def test_a_claim_of_no_group():
    with pytest.raises(ValueError, match="claim 'odd:1' must be in one group"):
        evidence.group_of("odd:1")


def test_mutants_of_a_part_depend_on_what_makes_them():
    assert all("verify/mutate" in evidence.sources_of("mutants", part.name) for part in PARTS)


@pytest.mark.parametrize(("digest", "when"), [("", "2 older"), ("1", "0.1.0")])
def test_dates_of_a_group_are_the_oldest(kept, digest, when):
    row = {"space": "2^4", "verdict": "proved", "bug": "refuted", "seconds": 1, "digest": digest}
    old = dict(row, date="2026-01-01", version="0.1.0")
    new = dict(row, date="2026-02-01", version="0.1.0")
    text = evidence.proofs({"proof multiplier:2": old, "proof multiplier:4": new})
    assert f"| 2026-01-01, {when} |" in text
