"""Digests of the exported texts of every rule.

After an intended change, `python tests/model/test_export_stored.py` stores new ones.
"""

import hashlib
import json
from pathlib import Path

import pytest

from exports import RULES
from mxdot.model.accumulators import accumulator
from mxdot.model.export import LANGUAGES, export

STORED = Path(__file__).with_name("exports.json")
WIDEST = [
    *((rule, "bf16", "bf16") for rule in ("fused:64", "fused:40", "rvbna:64", "aligned:48")),
    ("fused:57:bfloat16", "e5m2", "tf32"),
    *(("fixed:1024:-1024:wrap", fmt, fmt) for fmt in ("int3", "bf16")),
]
PAIRS = [(rule, a, b) for rule, pairs in RULES.items() for a, b, _ in pairs] + WIDEST
EACH = {f"{rule}, {a} x {b}": (rule, a, b) for rule, a, b in PAIRS}


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
