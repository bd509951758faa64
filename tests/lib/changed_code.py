"""Keys as they are after a change of the code."""

from pathlib import Path
from types import ModuleType

import pytest

from mxdot.util.keys import ROOT, fingerprint


def change(monkeypatch: pytest.MonkeyPatch, module: ModuleType, file: str) -> None:
    """Let keys that `module` makes see another content of a file of code."""
    read = Path.read_bytes

    def changed(path: Path) -> bytes:
        return read(path) + b"#" * (path == ROOT / file)

    monkeypatch.setattr(Path, "read_bytes", changed)
    monkeypatch.setattr(module, "fingerprint", fingerprint.__wrapped__)
