"""The examples of the documentation run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = {
    f"{path.name}-{i}": example
    for path in sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
    for i, example in enumerate(
        re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.S)
    )
    if "mxdot.gpu" in example
}


def test_readme_and_docs_have_examples():
    assert {name.split("-")[0] for name in EXAMPLES} >= {"README.md", "gpu.md"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name):
    exec(compile(EXAMPLES[name], name, "exec"), {})
