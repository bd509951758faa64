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
from ...model.formats import E8M0, ElementFormat
from .tensors import LARGEST, REAL_FILE, SUFFIXES, Rows, load_tensors, values_of, weight_names
from .weights import MOST_WEIGHTS, HeldRows, activations, is_checkpoint, joined, spread_names

F32 = NDArray[np.float32]
Operands = tuple[F32, F32]
HeldOperands = tuple[Rows, Rows]
Draw = Callable[[Generator, int, int, int], Operands]

STUDENT_FREEDOM = 3.0  # the least integer with a finite variance; the kurtosis is infinite
OUTLIER_SHARE = 64  # one channel in 64 is an outlier
OUTLIER_GAIN = 32.0
CANCELLING_GAIN = 16.0  # of the terms that cancel inside a block
ACTIVATION_ROWS = 256  # to draw from, where a weight of a checkpoint meets them
OPPOSING_GAIN = 64.0  # of the blocks that cancel later blocks


@dataclass(frozen=True)
class DataSet:
    """A name, what it stands for in one line, and its generator.

    draw(rng, count, length, block) gives x and y; `block` is the accumulator's block size, which
    only adversarial data looks at. modified: a file's time of change, ns; data sets that are equal
    draw the same. draw_held: as draw, with the codes of quantised weights; None without any.
    """

    name: str
    summary: str
    draw: Draw = field(compare=False)
    modified: int = 0
    draw_held: Callable[[Generator, int, int], HeldOperands] | None = field(
        default=None, compare=False
    )

    def operands(self, rng: Generator, count: int, length: int, block: int) -> HeldOperands:
        """Operands of `draw`, with HeldRows of quantised weights of a checkpoint."""
        if self.draw_held is None:
            return self.draw(rng, count, length, block)
        return self.draw_held(rng, count, length)

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
    and B. A checkpoint (``FILE.safetensors``, ``FILE.gguf`` or a directory) takes its quantised
    weights, `MOST_WEIGHTS` at most, or those of the names, against normal activations.
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
    if not is_file(file):
        known = ", ".join([*DATA_SETS, REAL, *(f"FILE{suffix}" for suffix in SUFFIXES)])
        raise ValueError(f"data must be one of {known}, not {text!r}")
    return _tensor_set(text, Path(file), tuple(n for n in names.split(",") if n))


def is_file(text: str, folder: Path = Path()) -> bool:
    """True for the name of a file of tensors, and of a checkpoint's directory in `folder`."""
    if text in (*DATA_SETS, REAL):
        return False
    return text.endswith(SUFFIXES) or is_checkpoint(folder / text)


def weights_note(text: str, fmt: ElementFormat, lanes: int) -> str | None:
    """How blocks of `lanes` elements take the weights of a checkpoint; None without any."""
    rng = np.random.default_rng(0)
    _, y = data_set(text).operands(rng, MOST_WEIGHTS, lanes, lanes)
    if not isinstance(y, HeldRows):
        return None
    if y.under(fmt, E8M0.name, lanes, lanes) is None:
        return f"weights of {text}: their values, quantised to {fmt} in blocks of {lanes}"
    return f"weights of {text}: {y}"


def _tensor_set(text: str, path: Path, names: tuple[str, ...]) -> DataSet:
    modified = path.stat().st_mtime_ns if path.exists() else 0
    pairs = _tensor_pairs(path, names, modified)

    def draw_held(rng: Generator, count: int, length: int) -> HeldOperands:
        return draw_rows(pairs, rng, count, length)

    def draw(rng: Generator, count: int, length: int, block: int) -> Operands:
        x, y = draw_held(rng, count, length)
        return values_of(x), values_of(y)

    return DataSet(text, f"rows of tensors of {path.name}", draw, modified, draw_held)


@lru_cache(maxsize=4)
def _tensor_pairs(path: Path, names: tuple[str, ...], modified: int) -> tuple[HeldOperands, ...]:
    """The pairs of arrays of a file; `modified` makes a changed file another one."""
    chosen = [names]
    if not names:
        chosen = [(name,) for name in spread_names(weight_names(path))] or [names]
    if not names and path.suffix == ".npz":
        chosen = _layers(path) or chosen
    pairs = [_with_activations(load_tensors(path, each), each) for each in chosen]
    for pair in pairs:
        for x in pair:
            if not np.isfinite(values_of(x)).all():
                raise ValueError(f"{path} must hold finite values, not NaN or infinity")
    return tuple(pairs)


def _with_activations(pair: HeldOperands, names: tuple[str, ...]) -> HeldOperands:
    """The pair, with more rows of activations where a single weight of a checkpoint meets them."""
    x, y = pair
    if len(names) == 1 and isinstance(y, HeldRows):
        x = activations(names[0], y.shape[1], ACTIVATION_ROWS)
    return x, y


def _layers(path: Path) -> list[tuple[str, ...]]:
    try:
        with opened(path, LARGEST) as file:
            inputs = [n for n in file.names if n.endswith(".input")]
            pairs = [(n, n.removesuffix(".input") + ".weight") for n in inputs]
            return [p for p in pairs if p[1] in file.names]
    except (OSError, ValueError):  # load_values says what is wrong with the file
        return []


def draw_rows(
    pairs: tuple[HeldOperands, ...], rng: Generator, count: int, length: int
) -> HeldOperands:
    """Dot products of random rows of each pair in turn.

    A shorter product is a random stretch of a row; a longer one joins rows, as in a wider layer.
    Stretches of quantised weights begin with a block.
    """
    drawn = [
        _stretches(pair, rng, len(range(i, count, len(pairs))), length)
        for i, pair in enumerate(pairs)
    ]
    order = np.empty(count, np.intp)
    order[np.concatenate([np.arange(i, count, len(pairs)) for i in range(len(pairs))])] = np.arange(
        count
    )
    sides = []
    for parts in zip(*drawn, strict=True):
        held = [part for part in parts if isinstance(part, HeldRows)]
        if len(held) == len(parts):
            sides.append(joined(held, order))
        else:
            sides.append(np.concatenate([values_of(part) for part in parts])[order])
    return sides[0], sides[1]


def _stretches(pair: HeldOperands, rng: Generator, rows: int, length: int) -> HeldOperands:
    """Random rows of one pair."""
    held = [side.block for side in pair if isinstance(side, HeldRows)]
    step = max(1, *held) if held else 1
    row = [np.empty((rows, length), np.intp) for _ in pair]
    column = np.empty((rows, length), np.intp)
    width = min(pair[0].shape[1], length)
    for start in range(0, length, width):
        stop = min(start + width, length)
        room = (pair[0].shape[1] - width) // step
        offset = step * rng.integers(0, room + 1, rows)
        column[:, start:stop] = offset[:, None] + np.arange(stop - start)
        for target, source in zip(row, pair, strict=True):
            target[:, start:stop] = rng.integers(0, len(source), rows)[:, None]
    x, y = (source[chosen, column] for source, chosen in zip(pair, row, strict=True))
    return x, y
