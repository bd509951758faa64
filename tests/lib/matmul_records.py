"""Operands of a matrix unit and the records that hold them."""

from math import ceil

import numpy as np

from mxdot.model import MXArray


def operand(rng, fmt, rows, blocks, lanes=4, scales=range(100, 150)):
    codes = rng.integers(0, 2**fmt.bits, (rows, blocks * lanes)).astype(fmt.dtype)
    return MXArray(codes, rng.choice(scales, (rows, blocks)).astype(np.uint8), fmt, lanes)


def step(x, bits, rows, kb):
    """The records of these rows and this block: elements of so many bits, then the scale."""
    text = b""
    for row in rows:
        whole = 0
        if row < x.shape[0]:
            for lane in range(4):
                whole |= int(x.codes[row, 4 * kb + lane]) << bits * lane
            whole |= int(x.scales[row, kb]) << 8 * ceil(bits / 2)
        text += whole.to_bytes(ceil(bits / 2) + 1, "little")
    return text
