"""The examples of the documentation run."""

import pytest

from doc_examples import examples, run

EXAMPLES = {
    f"{page}-{i}": block
    for page, blocks in examples("gpu").items()
    for i, block in enumerate(blocks)
}


def test_readme_and_docs_have_examples():
    assert {name.split("-")[0] for name in EXAMPLES} >= {"README.md", "gpu.md"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name):
    run([EXAMPLES[name]])
