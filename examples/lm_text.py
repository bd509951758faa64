"""The text of the example: Python's own documentation and library, as bytes."""

import hashlib
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import Tensor

NOT_READ = {"test", "tests", "idle_test", "site-packages", "dist-packages"}
HELD_OUT = 20  # one file in so many is for validation


@dataclass(frozen=True)
class Text:
    """Bytes to train on and bytes held out, uint8 (n,); sha256: of both, in hex."""

    train: Tensor
    validation: Tensor
    sha256: str


def read_text() -> Text:
    """The topics of `help()` and every module of the standard library, docstrings included.

    Differs from one version of Python to another, hence the digest.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = (p for p in root.rglob("*.py") if not NOT_READ & set(p.relative_to(root).parts))
    files = [topics[name].encode() for name in sorted(topics)]
    files += [path.read_bytes() for path in sorted(paths)]
    train = b"".join(file for i, file in enumerate(files) if i % HELD_OUT)
    validation = b"".join(files[::HELD_OUT])
    digest = hashlib.sha256(train + validation).hexdigest()
    return Text(_tensor(train), _tensor(validation), digest)


def _tensor(text: bytes) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def windows(text: Tensor, starts: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Inputs and the bytes to predict, int64 (batch, length), from each start on."""
    rows = text[starts[:, None] + torch.arange(length + 1, device=text.device)].long()
    return rows[:, :-1], rows[:, 1:]
