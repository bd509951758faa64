"""Mutants of Python modules, and the tests that judge them."""

import ast
import tomllib
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from mxdot.util.keys import ROOT
from mxdot.verify.mutate import parts, python_source
from mxdot.verify.mutate.score import Fate

SOURCE = '''
CHUNK = 2**16
A, B = 1, 2


def _looks_up_once(x: int) -> bool:
    return x + 1 > 2


@overload
def f(x: None, y: bool = False) -> None: ...
def f(x: int | None = 3) -> int:
    """Doc."""
    if x < 2 and not x:
        raise ValueError("x must be 1 + 1")
    if not device.interpreted():
        return 3
    kernel(x, num_warps=4, num_stages=3)
    return -x + sum(zip((5,), strict=True))
'''


def test_mutants_of_python_change_one_expression():
    kept = ["CHUNK", "(A, B)", "_looks_up_once"]
    changes = python_source.sample(SOURCE, 100, "seed", kept)
    assert Counter(change.operator for change in changes) == {
        "swapped operator": 1, "swapped comparison": 1, "swapped condition": 1,
        "dropped sign or negation": 2, "off by one": 6,
    }  # fmt: skip
    texts = {change.text for change in changes} | {ast.unparse(ast.parse(SOURCE))}
    assert len(texts) == len(changes) + 1
    assert all("x must be 1 + 1" in text and "x: int | None" in text for text in texts)
    assert all("CHUNK = 2 ** 16\nA, B = (1, 2)\n" in text for text in texts)
    assert python_source.sample(SOURCE, 4, "seed", kept) == changes[:4]
    assert len(python_source.sample(SOURCE, 100, "seed")) > len(changes)


def test_names_that_are_kept_exist():
    kept = tomllib.loads((ROOT / parts.EQUAL_MUTANTS).read_text())["kept"]
    for file, names in kept.items():
        nodes = list(ast.walk(ast.parse((ROOT / file).read_text())))
        assigned = {ast.unparse(node.targets[0]) for node in nodes if isinstance(node, ast.Assign)}
        functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        assert assigned | functions >= set(names), file


@pytest.mark.parametrize(
    ("tests", "fate"),
    [
        (("model/test_blocks", "model/test_quantize"), Fate.KILLED),
        (("model/test_trace",), Fate.SURVIVED),
    ],
)
@pytest.mark.slow_except(2)
def test_a_mutant_of_the_model(tests, fate):
    part = parts.Part("rules", ("schemes/rules.py",), tests)
    (mutant,) = parts.mutants(part, 1, 1)
    outcome = parts.judged(part, *mutant)
    assert outcome.fate is fate, outcome
    assert not parts.failing(parts.Part("rules", (), tests[:1]))


def equal_mutants():
    """Part, file and change of each mutant in EQUAL_MUTANTS, which must be one, and its reason."""
    every = cache(lambda text: python_source.sample(text, len(text), ""))
    for entry in tomllib.loads((ROOT / parts.EQUAL_MUTANTS).read_text())["equal"]:
        package, file = entry["file"].split("/", 1)
        (part,) = (p for p in parts.PARTS if p.package == package and file in p.modules)
        text = (ROOT / entry["file"]).read_text()
        lines = [line.strip() for line in text.splitlines()]
        (number,) = (n for n, line in enumerate(lines, 1) if line == entry["line"])
        for words in entry["changes"]:
            (change,) = (c for c in every(text) if (c.line, c.words) == (number, words))
            yield (part, file, change), entry["why"]


def test_an_equal_mutant_is_one_with_a_reason(monkeypatch):
    monkeypatch.setattr(parts, "failing", lambda *_: "")
    for mutant, why in equal_mutants():
        outcome = parts.judged(*mutant)
        assert (outcome.fate, outcome.by) == (Fate.EQUIVALENT, why)
    (part, file, change), _ = next(equal_mutants())
    for other in (replace(change, wrong="1"), replace(change, line=1)):
        assert parts.judged(part, file, other).fate is Fate.SURVIVED
    monkeypatch.setattr(parts, "failing", lambda *_: "model/test_wide")
    killed = parts.judged(part, file, change)
    assert killed.fate is Fate.KILLED
    assert killed.by == f"model/test_wide, against {parts.EQUAL_MUTANTS}"


def has_mutants(file):
    return bool(python_source.sample(file.read_text(), 1, ""))


@pytest.mark.parametrize("folder", ["model", "hw/verilog", "gpu/kernels"])
def test_each_module_that_computes_is_in_one_part(folder):
    root = parts.checkout()
    names = [(part.package, name) for part in parts.PARTS for name in (*part.modules, *part.leaves)]
    of = Counter("/".join(name) for name in names)
    files = {path.relative_to(root).as_posix(): path for path in (root / folder).rglob("*.py")}
    for name, path in files.items():
        assert of[name] == 1 or (not of[name] and not has_mutants(path)), (name, of[name])


def test_other_files_of_the_model_judge_last(part_of):
    script = 'case "$*" in *test_trace.py*) ;; *test_wide.py*) exit 1;; esac'
    part = replace(part_of(script), also_model=True)
    assert parts.failing(part) == "other tests of model/"


def test_tests_of_parts_are_files():
    for part in parts.PARTS:
        for name in part.tests:
            assert (parts.checkout() / "tests" / f"{name}.py").is_file(), name


def test_a_sample_of_many_files_begins_at_none():
    """Fewer mutants than files: the seed says which files have one."""
    (part,) = (part for part in parts.PARTS if part.name == "gpu-kernels")
    files = [{file for file, _ in parts.mutants(part, 8, seed)} for seed in range(8)]
    assert all(len(each) > 4 for each in files)
    assert len(set.union(*files)) > 20


@pytest.fixture
def part_of(tmp_path):
    """A part whose Python is a script of the shell."""

    def part_of(script):
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        return parts.Part("odd", (), ("model/test_trace",), python=str(python))

    return part_of


def test_a_fault_of_its_own_kills_and_a_kill_does_not(part_of):
    assert parts.failing(part_of("kill -s SEGV $$")) == "model/test_trace"
    with pytest.raises(ValueError, match=r"^model/test_trace cannot run: status -9$"):
        parts.failing(part_of("kill -s KILL $$"))


def test_tests_of_a_mutant_that_do_not_end_kill_it(part_of):
    assert parts.failing(replace(part_of("sleep 60"), limit=0.1)) == "model/test_trace"


def test_tests_of_a_part_find_no_module_in_the_current_directory(part_of, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    script = 'case ":$PYTHONPATH:" in *::*) exit 1;; esac'
    assert not parts.failing(part_of(script))
    monkeypatch.setenv("PYTHONPATH", "/x:")
    assert parts.failing(part_of(script)) == "model/test_trace"
