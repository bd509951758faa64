"""Real tensors as stimulus: two arrays of a file, quantised, row against row."""

from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ..model import DotConfig, quantize
from ..model.blocks import as_float32
from .item import Batch
from .job import UnitJob
from .target import Target

REAL_DATA = Path(__file__).parents[1] / "tests" / "vectors" / "real"
"""Where a checkout keeps a captured slice of real weights and activations."""


def load_tensors(path: Path, names: tuple[str, ...] = ()) -> tuple[NDArray, NDArray]:
    """Two float32 arrays (rows, K) of an npz or safetensors file, flattened to two axes.

    Without names the first two arrays that fit each other; with one name that array against itself.
    ValueError, naming the file, when it cannot be read or holds nothing that fits.
    """
    arrays = _read(path)
    if not names:
        names = _fitting(arrays)
        if not names:
            raise ValueError(f"{path} must hold two float arrays of equal last axis; name them")
    for name in names:
        if name not in arrays:
            raise ValueError(f"name must be one of {', '.join(arrays)} in {path}, not {name!r}")
    chosen = [_rows(arrays[name], name) for name in (names[0], names[-1])]
    if chosen[0].shape[1] != chosen[1].shape[1]:
        raise ValueError(
            f"{names[0]} and {names[-1]} must have equal last axes, "
            f"not {chosen[0].shape[1]} and {chosen[1].shape[1]}"
        )
    return chosen[0], chosen[1]


def _read(path: Path) -> dict[str, NDArray]:
    try:
        if path.suffix == ".safetensors":
            return _read_safetensors(path)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, EOFError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as npz or safetensors: {error}") from None
    except Exception as error:  # zip and safetensors errors share no base class
        if type(error).__name__ not in ("BadZipFile", "SafetensorError", "zlib.error"):
            raise
        raise ValueError(f"{path} cannot be read as npz or safetensors: {error}") from None


def _read_safetensors(path: Path) -> dict[str, NDArray]:
    import ml_dtypes  # noqa: F401  # makes bfloat16 a NumPy dtype
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _fitting(arrays: dict[str, NDArray]) -> tuple[str, ...]:
    usable = {n: x for n, x in arrays.items() if x.ndim >= 2 and x.dtype.kind in "fV"}
    for first, x in usable.items():
        for second, y in usable.items():
            if first != second and x.shape[-1] == y.shape[-1]:
                return first, second
    return ()


def _rows(x: NDArray, name: str) -> NDArray[np.float32]:
    if x.ndim < 1 or x.size == 0:
        raise ValueError(f"{name} must have rows to multiply, not shape {x.shape}")
    return as_float32(x).reshape(-1, x.shape[-1])


def tensor_batch(
    target: Target,
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    rng: Generator,
    limit: int | None = None,
) -> Batch:
    """Dot products of rows of `x` with rows of `y`: all of them, or `limit` at random."""
    count = len(x) * len(y)
    everything = limit is None or count <= limit
    chosen = np.arange(count) if everything else rng.choice(count, limit, replace=False)
    rows_x, rows_y = np.divmod(chosen, len(y))
    used_x, rows_x = np.unique(rows_x, return_inverse=True)
    used_y, rows_y = np.unique(rows_y, return_inverse=True)
    blocks = []
    for values, fmt in ((x[used_x], target.format_a), (y[used_y], target.format_b)):
        blocks.append(quantize(values, fmt, block_size=target.lanes, pad=True).blocks_last())
    (a, scale_a), (b, scale_b) = blocks
    scales = np.ascontiguousarray(scale_a[rows_x]), np.ascontiguousarray(scale_b[rows_y])
    return target.batch(a[rows_x], b[rows_y], scales, sequence="tensors")


def tensor_traffic(job: UnitJob, blocks: int | None) -> list[Batch]:
    """Dot products of the job's tensors in every mode, of about `blocks` blocks (None: all)."""
    if job.tensors is None:
        return []
    x, y = load_tensors(job.tensors, job.tensor_names)
    config: DotConfig = job.config
    rng = job.rng("tensors")
    length = -(-x.shape[1] // config.lanes)
    limit = None if blocks is None else max(1, blocks // (length * len(config.formats)))
    return [
        tensor_batch(Target(config, mode), x, y, rng, limit) for mode in range(len(config.formats))
    ]
