"""Data sets: the operands of dot products whose accuracy is measured.

Each draws x and y, float32 (count, length), one dot product a row. The same seed gives the same
rows. To add one, write a function and a row of `DATA_SETS`; a file of tensors needs neither:
`data_set("FILE.npz")`.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model.errors import cell_text
from ...model.files import opened
from .tensors import LARGEST, REAL_FILE, SUFFIXES, load_values

F32 = NDArray[np.float32]
Operands = tuple[F32, F32]
Draw = Callable[[Generator, int, int, int], Operands]

STUDENT_FREEDOM = 3.0  # the least integer with a finite variance; the kurtosis is infinite
OUTLIER_SHARE = 64  # one channel in 64 is an outlier
OUTLIER_GAIN = 32.0
CANCELLING_GAIN = 16.0  # of the terms that cancel inside a block
OPPOSING_GAIN = 64.0  # of the blocks that cancel later blocks


@dataclass(frozen=True)
class DataSet:
    """A name, what it stands for in one line, and its generator.

    draw(rng, count, length, block) gives x and y; `block` is the accumulator's block size, which
    only adversarial data looks at. modified: a file's time of change, ns; data sets that are equal
    draw the same.
    """

    name: str
    summary: str
    draw: Draw = field(compare=False)
    modified: int = 0

    @property
    def stream(self) -> int:
        """Number to join with a seed; it is the same for a file in any directory."""
        file, mark, tensors = self.name.partition("#")
        return zlib.crc32(f"{Path(file).name}{mark}{tensors}".encode())


def _normal(rng: Generator, count: int, length: int, block: int) -> Operands:
    x, y = rng.standard_normal((2, count, length), dtype=np.float32)
    return x, y


def _uniform(rng: Generator, count: int, length: int, block: int) -> Operands:
    x, y = rng.random((2, count, length), dtype=np.float32) * np.float32(2) - np.float32(1)
    return x, y


def _student_t(rng: Generator, count: int, length: int, block: int) -> Operands:
    x, y = rng.standard_t(STUDENT_FREEDOM, (2, count, length)).astype(np.float32)
    return x, y


def _log_normal(rng: Generator, count: int, length: int, block: int) -> Operands:
    x, y = np.exp(rng.standard_normal((2, count, length), dtype=np.float32))
    return x, y


def _outlier_channels(rng: Generator, count: int, length: int, block: int) -> Operands:
    x, y = _normal(rng, count, length, block)
    channels = rng.choice(length, max(1, length // OUTLIER_SHARE), replace=False)
    x[:, channels] *= np.float32(OUTLIER_GAIN)
    return x, y


def _cancellation(rng: Generator, count: int, length: int, block: int) -> Operands:
    """Inside each block the last quarter takes back the first, which is larger than the rest.

    In the same way the last quarter of the blocks takes back the first, so that the running value
    is large while the blocks that decide the result arrive. What is taken back repeats x and
    negates y, so that its products cancel exactly in every format.
    """
    x, y = _normal(rng, count, length, block)
    block = min(block, length)
    blocks = length // block
    whole = slice(0, blocks * block)
    x_blocks, y_blocks = (v[:, whole].reshape(count, blocks, block) for v in (x, y))
    _take_back(x_blocks, y_blocks, -1, block // 4, CANCELLING_GAIN)
    _take_back(x_blocks, y_blocks, -2, blocks // 4, OPPOSING_GAIN)
    x[:, whole] = x_blocks.reshape(count, blocks * block)
    y[:, whole] = y_blocks.reshape(count, blocks * block)
    return x, y


def _take_back(x: F32, y: F32, axis: int, part: int, gain: float) -> None:
    """Enlarge the first `part` of `axis`, and let its last `part` cancel it, in place."""
    if part:
        x, y = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
        x[:part] *= np.float32(gain)
        x[-part:], y[-part:] = x[:part], -y[:part]


DATA_SETS = {
    d.name: d
    for d in (
        DataSet("normal", "standard normal", _normal),
        DataSet("uniform", "uniform between -1 and 1", _uniform),
        DataSet("student-t", "Student's t with 3 degrees of freedom: heavy tails", _student_t),
        DataSet("log-normal", "e^normal: every product positive, sums only grow", _log_normal),
        DataSet("outliers", "normal, 1 channel of x in 64 is 32 times larger", _outlier_channels),
        DataSet("cancellation", "large terms and blocks cancel; small ones remain", _cancellation),
    )
}
REAL = "real"


def data_set(text: str) -> DataSet:
    """The data set of a name, of ``real``, or of a tensor file.

    ``real`` is the slice of a sentence encoder's weights and activations in util/data/real.
    ``FILE.npz``, ``FILE.npy`` or ``FILE.safetensors`` takes its first two arrays that fit each
    other, or all pairs NAME.input and NAME.weight that it has; ``FILE.npz#A,B`` takes the arrays A
    and B.
    Raises ValueError naming the text, or the file and what is wrong with it.
    """
    if not isinstance(text, str):
        raise TypeError(f"data must be text, not {text!r}")
    cell_text("data", text)
    if text in DATA_SETS:
        return DATA_SETS[text]
    if text == REAL:
        return _tensor_set(text, REAL_FILE, ())
    file, _, names = text.partition("#")
    if not file.endswith(SUFFIXES):
        known = ", ".join([*DATA_SETS, REAL, *(f"FILE{suffix}" for suffix in SUFFIXES)])
        raise ValueError(f"data must be one of {known}, not {text!r}")
    return _tensor_set(text, Path(file), tuple(n for n in names.split(",") if n))


def _tensor_set(text: str, path: Path, names: tuple[str, ...]) -> DataSet:
    modified = path.stat().st_mtime_ns if path.exists() else 0
    pairs = _tensor_pairs(path, names, modified)

    def draw(rng: Generator, count: int, length: int, block: int) -> Operands:
        return draw_rows(pairs, rng, count, length)

    return DataSet(text, f"rows of tensors of {path.name}", draw, modified)


@lru_cache(maxsize=4)
def _tensor_pairs(path: Path, names: tuple[str, ...], modified: int) -> tuple[Operands, ...]:
    """The pairs of arrays of a file; `modified` makes a changed file another one."""
    layers = [] if names or path.suffix != ".npz" else _layers(path)
    pairs = [load_values(path, chosen) for chosen in layers or [names]]
    for pair in pairs:
        for x in pair:
            if not np.isfinite(x).all():
                raise ValueError(f"{path} must hold finite values, not NaN or infinity")
    return tuple(pairs)


def _layers(path: Path) -> list[tuple[str, ...]]:
    try:
        with opened(path, LARGEST) as file:
            inputs = [n for n in file.names if n.endswith(".input")]
            pairs = [(n, n.removesuffix(".input") + ".weight") for n in inputs]
            return [p for p in pairs if p[1] in file.names]
    except (OSError, ValueError):  # load_values says what is wrong with the file
        return []


def draw_rows(pairs: tuple[Operands, ...], rng: Generator, count: int, length: int) -> Operands:
    """Dot products of random rows of each pair in turn.

    A shorter product is a random stretch of a row; a longer one joins rows, as in a wider layer.
    """
    x = np.empty((count, length), np.float32)
    y = np.empty((count, length), np.float32)
    for i, pair in enumerate(pairs):
        rows = len(x[i :: len(pairs)])
        width = min(pair[0].shape[1], length)
        for start in range(0, length, width):
            stop = min(start + width, length)
            offset = rng.integers(0, pair[0].shape[1] - width + 1, rows)
            columns = offset[:, None] + np.arange(stop - start)
            for target, source in zip((x, y), pair, strict=True):
                chosen = rng.integers(0, len(source), rows)
                target[i :: len(pairs), start:stop] = source[chosen[:, None], columns]
    return x, y
