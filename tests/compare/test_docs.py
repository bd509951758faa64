"""The examples of the documentation run; the comparison of compare.md is only described."""

import re

import pytest

from doc_examples import PAGES, examples, run

EXAMPLES = examples("compare")


def test_pages_have_examples():
    assert set(EXAMPLES) >= {"accuracy.md", "compare.md", "cost.md"}


@pytest.mark.parametrize("page", EXAMPLES)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # they write files
    run(page, EXAMPLES[page])


def test_accuracy_prints_what_it_says(capsys):
    ((example, output),) = re.findall(
        r"```python\n(.*?)```\n\n```\n(.*?)```", PAGES["accuracy.md"], flags=re.S
    )
    run("accuracy.md", [example])
    assert capsys.readouterr().out == output
