"""The examples of the documentation run; the comparison of compare.md is only described."""

import pytest

from doc_examples import RUN, check_commands, examples, run

EXAMPLES = examples("compare")


def test_pages_have_examples():
    assert set(EXAMPLES) >= {"accuracy.md", "compare.md", "cost.md"}


@pytest.mark.parametrize("page", EXAMPLES)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # they write files
    run(EXAMPLES[page])


@pytest.mark.parametrize("page", [page for page in RUN if page in examples("compare", "sh")])
def test_commands_print_what_is_shown(page):
    check_commands(page, "compare")
