"""Registries that a test may fill, and that are as they were after it."""

from typing import Any

import pytest

from mxdot.model.accumulators import KINDS
from mxdot.model.formats import FORMATS, SCALE_FORMATS
from mxdot.model.schemes import SCHEMES
from mxdot.model.schemes.rules import RULES
from rational.formats import FORMATS as ORACLE_FORMATS
from rational.formats import TABLES as ORACLE_TABLES

TABLES: list[dict[Any, Any]] = [
    KINDS, FORMATS, SCALE_FORMATS, SCHEMES, RULES, ORACLE_FORMATS, ORACLE_TABLES,
]  # fmt: skip


@pytest.fixture(autouse=True)
def registries():
    kept = [dict(table) for table in TABLES]
    yield
    for table, rows in zip(TABLES, kept, strict=True):
        table.clear()
        table.update(rows)
