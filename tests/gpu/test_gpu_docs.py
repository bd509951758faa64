"""The examples of the documentation run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = [
    pytest.param(example, id=f"{path.name}-{i}")
    for path in sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
    for i, example in enumerate(
        re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.S)
    )
    if "from mxdot.gpu import" in example
]


def test_readme_and_docs_have_examples():
    assert {example.id.split("-")[0] for example in EXAMPLES} >= {"README.md", "gpu.md"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_runs(example):
    exec(compile(example, "example", "exec"), {})
