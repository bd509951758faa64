"""Real tensors as dot products: two arrays of a file, quantised, row against row."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import DotConfig, ElementFormat, quantize
from ...model.formats import E4M3, E8M0, FLOAT32
from ...model.schemes import CHANNEL, Level, Scheme, block
from ...model.schemes import quantize as quantize_scheme
from ...util.data.tensors import Rows, code_format, load_tensors, modes_taking
from ...util.data.weights import HeldRows
from ..engine.job import UnitJob
from .integer_stimulus import integer_batch
from .item import Batch
from .scales import with_micro
from .target import Target


def tensor_batch(
    target: Target, x: Rows, y: Rows, rng: Generator, limit: int | None = None
) -> Batch:
    """Dot products of rows of `x` with rows of `y`: all of them, or `limit` at random."""
    count = len(x) * len(y)
    everything = limit is None or count <= limit
    chosen = np.arange(count) if everything else rng.choice(count, limit, replace=False)
    rows_x, rows_y = np.divmod(chosen, len(y))
    used_x, rows_x = np.unique(rows_x, return_inverse=True)
    used_y, rows_y = np.unique(rows_y, return_inverse=True)
    (a, scale_a), (b, scale_b) = (
        quantized(target.config, values, fmt)
        for values, fmt in ((x[used_x], target.format_a), (y[used_y], target.format_b))
    )
    scales = np.ascontiguousarray(scale_a[rows_x]), np.ascontiguousarray(scale_b[rows_y])
    if target.config.has_integers:  # the codes under any scales and zero points
        c = np.zeros(len(rows_x), np.int64)
        return integer_batch(target, rng, a[rows_x], b[rows_y], c, sequence="tensors")
    batch = target.batch(a[rows_x], b[rows_y], scales, sequence="tensors")
    return with_micro(target.config, rng, replace(batch, has_unit_scales=True))


def quantized(
    config: DotConfig, values: Rows, fmt: ElementFormat, scale_rule: str = "floor"
) -> tuple[NDArray, NDArray[np.uint8]]:
    """Rows as the unit takes them, the last beat filled up with zeros.

    Returns codes (rows, beats, lanes) and scales (rows, beats), with an axis more where a beat has
    several. FP8 values are the codes, under scales of one; ValueError where they are no codes of
    `fmt`. Weights of a checkpoint keep codes and scales where the unit takes both, and else are
    quantised from their values. E4M3 scales are under a float32 per row, as those of NVFP4 under
    one per tensor. scale_rule: of E8M0 scales.
    """
    rows, beats = len(values), -(-values.shape[1] // config.lanes)
    per_beat = (config.scale_blocks,) if config.scale_blocks > 1 else ()
    if isinstance(values, HeldRows):
        held = values.under(fmt, config.scales, config.scale_block, config.lanes)
        if held is not None:
            return held[0].reshape(rows, beats, -1), held[1].reshape(rows, beats, *per_beat)
        values = values.values
    padded = np.pad(values, ((0, 0), (0, beats * config.lanes - values.shape[1])))
    own = code_format(values)
    if own is not None:
        if own != fmt:
            raise ValueError(f"tensors must hold codes of {fmt}, or values, not codes of {own}")
        shape = rows, padded.shape[1] // config.scale_block
        one = E4M3.encode(1.0) if config.scales == E4M3.name else E8M0.encode(0)
        codes, scales = padded.view(np.uint8), np.full(shape, one, np.uint8)
    elif config.scales == E4M3.name:
        levels = Level(CHANNEL, FLOAT32), Level(block(config.scale_block), E4M3)
        scheme = Scheme(f"{fmt} under E4M3", (fmt,), levels, "docs/numerics.md")
        made = quantize_scheme(padded, scheme)
        codes, scales = made.codes, made.scales[1]
    else:
        plain = quantize(padded, fmt, block_size=config.scale_block, scale_rule=scale_rule)
        codes, scales = plain.codes, plain.scales
    return codes.reshape(rows, beats, -1), scales.reshape(rows, beats, *per_beat)


def weights_note(path: Path, names: tuple[str, ...], config: DotConfig) -> str | None:
    """How the unit's first mode takes the weights of a checkpoint; None without any."""
    _, y = load_tensors(path, names)
    if not isinstance(y, HeldRows):
        return None
    fmt = config.formats[0][1]
    kept = y.under(fmt, config.scales, config.scale_block, config.lanes)
    return f"weights of {path}: {f'their values, quantised to {fmt}' if kept is None else y}"


def tensor_traffic(job: UnitJob, blocks: int | None) -> list[Batch]:
    """Dot products of the job's tensors, of about `blocks` blocks (None: all).

    They come in every mode that takes the tensors.
    """
    if job.tensors is None:
        return []
    x, y = load_tensors(job.tensors, job.tensor_names)
    config: DotConfig = job.config
    rng = job.rng("tensors")
    length = -(-x.shape[1] // config.lanes)
    modes = modes_taking(config, x, y)
    limit = None if blocks is None else max(1, blocks // (length * len(modes)))
    return [tensor_batch(Target(config, mode), x, y, rng, limit) for mode in modes]
