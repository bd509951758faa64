"""Blocks to quantise: random, not finite, and where a scale rule changes its mind."""

import numpy as np

from mxdot.model import FORMATS, quantize

RULES = ("floor", "ceil", "even", "twice")


ROUNDINGS = ("nearest_even", "toward_zero", "stochastic")


POLICIES = ("poison", "element")


FLOAT32_MAX = np.finfo(np.float32).max


def random_blocks(rng, n, k):
    """Blocks of every magnitude and spread, with zeros and float32 subnormals."""
    centre = rng.integers(-149, 128, (n, 1))
    spread = rng.choice([0, 3, 12, 60], (n, 1))
    exponent = np.clip(centre - rng.integers(0, spread + 1, (n, k)), -149, 127)
    with np.errstate(over="ignore"):
        x = np.ldexp(rng.uniform(-2, 2, (n, k)), exponent).astype(np.float32)
    x = np.clip(x, -FLOAT32_MAX, FLOAT32_MAX)
    return np.where(rng.random((n, k)) < 0.1, np.float32(-0.0), x)


def with_nonfinite(rng, blocks):
    odd = rng.choice(np.array([np.nan, np.inf, -np.inf], np.float32), blocks.shape)
    return np.where(rng.random(blocks.shape) < rng.choice([0, 0.2], (len(blocks), 1)), odd, blocks)


def edge_amax(fmt):
    """Float32 values of amax where a scale rule may change its mind, and their neighbours."""
    f = FORMATS[fmt]
    exponents = np.array([-149, -148, -127, -126, -118, -20, -1, 0, 1, 8, 100, 127])
    ties = 2 - 2.0 ** -(f.mantissa_bits + 1)  # rounds up to 2 under `even`, half away from zero
    largest = f.largest_finite / 2.0**f.emax
    with np.errstate(over="ignore"):
        points = np.ldexp(np.array([[1.0], [ties], [largest]]), exponents).astype(np.float32)
    points = np.append(points[np.isfinite(points) & (points > 0)], FLOAT32_MAX)
    bits = points.view(np.uint32)
    points = np.unique(np.concatenate([bits - 1, bits, bits + 1])).view(np.float32)
    return points[(points > 0) & np.isfinite(points)]


def edge_blocks(rng, fmt):
    """Blocks of 4 with these maxima, of either sign."""
    amax = edge_amax(fmt)
    with np.errstate(under="ignore"):
        others = (amax[:, None] * rng.uniform(-1, 1, (len(amax), 3))).astype(np.float32)
    signed = amax * rng.choice([-1, 1], len(amax)).astype(np.float32)
    return np.concatenate([others, signed[:, None]], axis=1)


def model_quantize_block(
    bits: list[int], fmt: str, rule: str, rounding: str, policy: str, words: list[int] | None = None
) -> tuple[int, list[int]]:
    """`quantize_block` of the rational oracle by `mxdot.model.quantize`."""
    made = quantize(
        np.array(bits, np.uint32).view(np.float32),
        fmt,
        block_size=len(bits),
        scale_rule=rule,
        rounding=rounding,
        nonfinite=policy,
        rng=None if words is None else np.array(words, np.uint32),
    )
    return int(made.scales[0]), made.codes.tolist()
