"""Registries that a test may fill, and that are as they were after it."""

import pytest

from mxdot.model.accumulators import KINDS
from mxdot.model.formats import FORMATS, SCALE_FORMATS
from mxdot.model.schemes import SCHEMES
from mxdot.model.schemes.rules import RULES
from rational.formats import FORMATS as ORACLE_FORMATS
from rational.formats import TABLES as ORACLE_TABLES


@pytest.fixture(autouse=True)
def registries():
    tables = KINDS, FORMATS, SCALE_FORMATS, SCHEMES, RULES, ORACLE_FORMATS, ORACLE_TABLES
    kept = [dict(table) for table in tables]
    yield
    for table, rows in zip(tables, kept, strict=True):
        table.clear()
        table.update(rows)
