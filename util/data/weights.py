"""Weights of quantised checkpoints as rows of dot products: their codes as they are, or values."""

import zlib
from dataclasses import dataclass
from math import gcd
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...model.checkpoints import Checkpoint
from ...model.errors import one_line, reason_of
from ...model.formats import BLOCK_SCALES, E4M3, E8M0, FORMATS, ElementFormat, FloatFormat
from ...model.schemes import ScaledArray

__all__ = [
    "MOST_ROWS",
    "MOST_WEIGHTS",
    "HeldRows",
    "activations",
    "checkpoint_files",
    "is_checkpoint",
    "joined",
    "load_weight",
    "open_checkpoint",
    "spread_names",
]

MOST_ROWS = 1024
"""Rows of a weight that are read where not all are, evenly spread."""
MOST_WEIGHTS = 8
"""Weights of a checkpoint that are read where no name chooses one, evenly spread."""
GGUF = ".gguf"
ONES = {E8M0.name: E8M0.encode(0), E4M3.name: E4M3.encode(np.float32(1))}
"""Code of a scale of one, by the name of its format."""


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Rows of a quantised weight.

    values: (rows, K), decoded. codes: (rows, K) of `format`, None where no unit takes them.
    scales: code of each element's scale, of `scale_format`; both None for scales that multiply a
    finished sum: one for a row or a tensor. block: neighbours under one scale, 0 for a whole row.
    """

    values: NDArray[np.float32]
    codes: NDArray | None = None
    format: ElementFormat | None = None
    scales: NDArray[np.uint8] | None = None
    scale_format: str | None = None
    block: int = 0

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        """The codes and scales that a unit takes, in words."""
        if self.scale_format is None:
            return f"their {self.format} codes without the scales of whole rows"
        scales = f"their {self.scale_format} scales, one per {self.block} elements"
        return f"their {self.format} codes under {scales}"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __getitem__(self, where: object) -> "HeldRows":
        """Rows, or elements, of every part."""
        parts = {"codes": self.codes, "scales": self.scales}
        cut = {k: None if v is None else v[where] for k, v in parts.items()}  # pyright: ignore[reportArgumentType, reportCallIssue]
        values = self.values[where]  # pyright: ignore[reportArgumentType, reportCallIssue]
        return HeldRows(values, cut["codes"], self.format, cut["scales"], self.scale_format,
                        self.block)  # fmt: skip

    def under(
        self, fmt: ElementFormat, scales: str, block: int, lanes: int
    ) -> tuple[NDArray, NDArray[np.uint8]] | None:
        """Codes and the scales of blocks as a unit takes them, or None where it does not.

        scales: name of the unit's scale format. block: its elements under a scale. Rows are filled
        up to whole beats of `lanes` with zeros under scales of one.
        """
        fits = self.scale_format in (None, scales) and self.block % block == 0
        if self.codes is None or self.format != fmt or not fits:
            return None
        padding = ((0, 0), (0, -self.shape[1] % lanes))
        one = ONES.get(scales, ONES[E8M0.name])
        every = np.full(self.shape, one, np.uint8) if self.scales is None else self.scales
        every = np.pad(every, padding, constant_values=one)
        return np.pad(self.codes, padding), np.ascontiguousarray(every[:, ::block])


def joined(parts: list[HeldRows], order: NDArray[np.intp]) -> HeldRows:
    """Rows of several weights in this order; their codes where all have one format of each kind."""
    values = np.concatenate([part.values for part in parts])[order]
    if len({(part.format, part.scale_format) for part in parts}) > 1 or parts[0].codes is None:
        return HeldRows(values)
    first = parts[0]
    codes = np.concatenate([part.codes for part in parts if part.codes is not None])[order]
    scales = None
    if first.scales is not None:
        scales = np.concatenate([part.scales for part in parts if part.scales is not None])[order]
    block = gcd(*(part.block for part in parts))
    return HeldRows(values, codes, first.format, scales, first.scale_format, block)


# Checkpoints --------------------------------------------------------------------------------------


def is_checkpoint(path: Path) -> bool:
    """True for a GGUF file and for a directory with safetensors files."""
    return path.suffix == GGUF or (path.is_dir() and any(path.glob("*.safetensors")))


def checkpoint_files(path: Path) -> list[Path]:
    """Files that a checkpoint is read from: safetensors files and config.json."""
    folder = path if path.is_dir() else path.parent
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    return [*files, *folder.glob("config.json")]


def open_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint of a path; ValueError, without the path's name, where it cannot be read."""
    try:
        return Checkpoint(path)
    except OSError as error:
        raise ValueError(f"cannot be read: {reason_of(error)}") from None
    except ValueError as error:
        raise ValueError(str(error).removeprefix(f"{path}: ")) from None


def load_weight(checkpoint: Checkpoint, name: str, most: int | None = MOST_ROWS) -> HeldRows:
    """A weight, `most` of its rows at most, None for all; ValueError where it cannot be read."""
    try:
        return _rows(checkpoint[name], most)
    except (TypeError, ValueError) as error:
        text = one_line(str(error)).removeprefix(f"{checkpoint.path}: ")
        raise ValueError(text) from None


def _rows(array: ScaledArray, most: int | None) -> HeldRows:
    codes = array.matrix(array.codes)
    rows = slice(None, None, 1 if most is None else max(1, -(-len(codes) // most)))
    codes = codes[rows]
    with np.errstate(over="ignore", under="ignore"):
        values = array.values(codes, rows).astype(np.float32)
    fmt = _unit_format(array)
    if fmt is None:
        return HeldRows(values)
    level = array.scheme.levels[-1]
    whole_row = level.granularity.columns is None
    if whole_row and len(array.scheme.levels) == 1 and isinstance(level.format, FloatFormat):
        return HeldRows(values, codes.astype(fmt.dtype), fmt)
    is_outer_whole = all(outer.granularity.columns is None for outer in array.scheme.levels[:-1])
    name = level.format.name
    outer = 1 if name == E4M3.name else 0  # E4M3 scales have a float32 for the whole tensor
    if name not in BLOCK_SCALES or len(array.scheme.levels) != 1 + outer or not is_outer_whole:
        return HeldRows(values)
    scales = array.spread(array.level_scales[-1], -1, rows)
    block = level.granularity.columns or codes.shape[1]
    return HeldRows(values, codes.astype(fmt.dtype), fmt, scales, name, block)


def _unit_format(array: ScaledArray) -> ElementFormat | None:
    """The format in which a unit takes the codes: they mean the same but for a power of two."""
    (fmt, *others), scheme = array.scheme.elements, array.scheme
    if others or scheme.zero_point:
        return None
    return FORMATS.get(fmt.name.removesuffix("_full").removesuffix("_symmetric"))


def spread_names(names: list[str], most: int = MOST_WEIGHTS) -> list[str]:
    """At most so many names, evenly spread from the first to the last."""
    if len(names) <= most:
        return names
    return [names[i * (len(names) - 1) // (most - 1)] for i in range(most)]


def activations(name: str, length: int, rows: int) -> NDArray[np.float32]:
    """Standard normal rows to multiply a weight of this name by: a checkpoint holds none."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return rng.standard_normal((rows, length), dtype=np.float32)
