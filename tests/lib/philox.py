"""Philox4x32-10 (Salmon et al., SC 2011) in NumPy, as its paper writes it."""

import numpy as np


def philox(counter, key):
    """Four words of a counter of four and a key of two, integers or arrays of them."""
    c, k = [np.uint64(x) for x in counter], [np.uint64(x) for x in key]
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for i in range(10):
        if i:
            k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
        first, second = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (second >> half) ^ c[1] ^ k[0],
            second & mask,
            (first >> half) ^ c[3] ^ k[1],
            first & mask,
        ]
    return c


def words(seed, offset, shape):
    """The uint32 word of every element of an array."""
    i = np.arange(int(np.prod(shape)), dtype=np.uint64)
    low = 0xFFFFFFFF
    counter = i // np.uint64(4) & np.uint64(low), i >> np.uint64(34), offset & low, offset >> 32
    four = np.stack(np.broadcast_arrays(*philox(counter, (seed & low, seed >> 32))))
    return four[i % np.uint64(4), i].astype(np.uint32).reshape(shape)
