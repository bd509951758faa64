"""Results of checks, kept for docs/evidence.md where `make verify` asks for them."""

import os
import time
from pathlib import Path
from typing import Any

from ..util.keys import task_key
from ..util.store import Outcome, Store

FOLDER = "MXDOT_EVIDENCE"
"""Variable of the environment that names the folder of results (tools/evidence.py sets it)."""


def record(kind: str, name: str, seconds: float, **columns: Any) -> None:
    """Keep the columns of one row, if anybody asks; a later result of it takes its place.

    kind: the table: `proof`, `mutants` or `coverage`.
    """
    folder = os.environ.get(FOLDER)
    if folder:
        label = f"{kind} {name}"
        row = Outcome(task_key(kind, name), label, columns, None, round(seconds, 1), time.time())
        Store(Path(folder)).put(row)
