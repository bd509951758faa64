"""Code books in RTL: a unit whose mode is each block's selectors computes products of schemes."""

from itertools import product

import numpy as np
import pytest

from compare import FULL, generator
from mxdot.model import INT4, DotConfig, schemes
from unit_bench import Work, drive, evaluate

ROWS, LENGTH, LANES = 150, 128, 32
MODES = {
    "mixed8": "e4m3,e4m3xe5m2,e4m3xint8,e5m2xe4m3,e5m2,e5m2xint8,int8xe4m3,int8xe5m2,int8",
    "mixed6": "e2m3,e2m3xe3m2,e3m2xe2m3,e3m2",
    "mixed4": "e2m1,e2m1xint4,int4xe2m1,int4",
}
RULES = ("exact", "aligned:13", "aligned:3", "fused:13", "hopper", "float32")
FEW = [("mixed8", "aligned:3"), ("mixed6", "fused:13"), ("mixed4", "exact")]


def operand(rng, name):
    """Rows in which every format of the code book is the best for some block."""
    shape = ROWS, LENGTH // LANES, LANES
    spread = rng.choice([0, 2, 4, 20], (*shape[:2], 1))
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, 1, shape)
    few_digits = rng.integers(4, 8, shape) * 2.0 ** rng.integers(-spread, 1, shape)
    x = np.where(rng.random((*shape[:2], 1)) < 0.5, x, few_digits)
    array = schemes.quantize(x.reshape(ROWS, LENGTH).astype(np.float32), name)
    assert set(np.unique(selectors_of(array))) == set(range(len(array.scheme.elements)))
    return array


def selectors_of(array):
    assert array.selectors is not None
    return array.selectors.astype(np.int64)


def lanes_of(array, formats):
    """Codes (rows, blocks, lanes), and scales (rows, blocks) of formats that lanes have.

    INT4 of a scheme has units of 1, of a lane units of 1/4.
    """
    shape = ROWS, LENGTH // LANES, LANES
    codes = array.codes.reshape(shape).astype(np.int64)
    scales = array.scales[0].astype(np.int64)
    for index, (element, lane) in enumerate(zip(array.scheme.elements, formats, strict=True)):
        if element.is_integer and not element.is_mx:
            assert lane is INT4
            chosen = selectors_of(array) == index
            values = element.values[array.codes].reshape(shape).astype(np.int64)
            codes = np.where(chosen[..., None], values & 15, codes)
            scales = scales + 2 * chosen
    assert scales.max() < 255
    return codes, scales


@pytest.mark.parametrize(("name", "rule"), [*product(MODES, RULES)] if FULL else FEW)
@pytest.mark.contract("T7", "U7")
def test_the_mode_comes_with_the_block(name, rule):
    rng = generator("code books", name, rule)
    config = DotConfig(MODES[name], LANES, rule)
    a, b = operand(rng, name), operand(rng, name)
    count = len(a.scheme.elements)
    side_a = [config.formats[i * count][0] for i in range(count)]
    side_b = [config.formats[i][1] for i in range(count)]
    (codes_a, scale_a), (codes_b, scale_b) = lanes_of(a, side_a), lanes_of(b, side_b)
    mode = (selectors_of(a) * count + selectors_of(b)).reshape(-1)
    assert len(np.unique(mode)) == count**2
    blocks = LENGTH // LANES
    place = np.tile(np.arange(blocks), ROWS)
    flat = {"a": codes_a.reshape(-1, LANES), "b": codes_b.reshape(-1, LANES)}
    flat |= {"scale_a": scale_a.reshape(-1), "scale_b": scale_b.reshape(-1), "mode": mode}
    flat |= {"first": place == 0, "last": place == blocks - 1, "c": np.zeros(len(mode), np.int64)}
    want = np.diagonal(schemes.matmul(a, b, rule, lanes=LANES)).astype(np.float32)
    start = np.arange(ROWS + 1) * blocks
    work = Work(config, flat, start, {"result": want.view(np.uint32).astype(np.int64)})
    evaluate(config, drive(work, rng, streams=30, gap=0.2, stall=0.2)).check()
