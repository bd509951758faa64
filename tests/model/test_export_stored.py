"""Exported texts of every rule, as digests that are stored: they do not change unnoticed.

Where a change is meant, `python tests/model/test_export_stored.py` stores what there is now.
"""

import hashlib
import json
from pathlib import Path

import pytest

from exports import RULES
from mxdot.model.accumulators import accumulator
from mxdot.model.export import LANGUAGES, export

STORED = Path(__file__).with_name("exports.json")
EACH = {f"{rule}, {a} x {b}": (rule, a, b) for rule, pairs in RULES.items() for a, b, _ in pairs}


def digest(name: str) -> str:
    """Digest of the texts in all languages."""
    texts = [export(language, *EACH[name]) for language in LANGUAGES]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", EACH)
def test_exports_are_those_stored(name):
    assert digest(name) == json.loads(STORED.read_text())[name]


def test_nothing_else_is_stored():
    assert set(json.loads(STORED.read_text())) == set(EACH)
    assert all(str(accumulator(rule)) == rule for rule, _, _ in EACH.values())


if __name__ == "__main__":
    STORED.write_text(json.dumps({name: digest(name) for name in EACH}, indent=1) + "\n")
