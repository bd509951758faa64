"""Traffic from hostile software: the matrix unit answers all of it, and its next job is right.

A driver may write anything anywhere, with any strobes, and send beats that are no packet. Each
access gets its response, constant registers keep their values, and after a reset the unit computes.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import fuzz, outcome
from matmul_bench import Beat, Bench
from matmul_jobs import DOT, Job
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.model.units.matmul.layout import unpack_c
from mxdot.model.units.matmul.registers import REGISTERS, constants, fields, word

CONFIG = MatmulConfig(DOT, rows=2, columns=2, depth=4, initial_c=True)
OKAY, SLVERR = 0, 2
RESET = REGISTERS["CONTROL"].field("reset").mask
CONSTANTS = {name: word(REGISTERS[name], values) for name, values in constants(CONFIG).items()}

words = st.sampled_from([0, 1, 2, 3, 0xFFFF, 0x10000, 0xFFFFFFFF]) | st.integers(0, 2**32 - 1)
places = st.sampled_from([each.offset for each in REGISTERS.values()]) | st.integers(0, 255)
writes = st.tuples(st.just("write"), places, words, st.integers(0, 15))
reads = st.tuples(st.just("read"), places)
starts = st.tuples(st.just("start"), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
beats = st.tuples(
    st.just("beat"), st.sampled_from(list(CONFIG.inputs)), st.integers(0, 2**64 - 1), st.booleans()
)


async def hostile(bench, action):
    kind, *values = action
    if kind == "write":
        offset, value, strobe = values
        assert await bench.write(offset, value, strobe) in (OKAY, SLVERR)
    elif kind == "read":
        got, response = await bench.read(values[0])
        assert response in (OKAY, SLVERR)
        assert 0 <= got < 2**32
    elif kind == "start":
        for name, value in zip(("M_TILES", "N_TILES", "K_BLOCKS"), values, strict=True):
            assert await bench.write(name, value) in (OKAY, SLVERR)
        assert await bench.write("CONTROL", 1) == OKAY
    else:
        side, bits, last = values
        width = CONFIG.stream_bytes(side)
        data = bits.to_bytes(8, "little").ljust(width, b"\x5a")[:width]
        bench.send[side].append(Beat(data, bits >> 8 & 2**width - 1, last))


@fuzz(15)
@given(st.lists(st.one_of(writes, reads, starts, beats), max_size=20), st.integers(0, 99))
def test_traffic(actions, seed):
    async def software(bench):
        bench.resets = True  # a write of CONTROL at its offset may be one, too
        for action in actions:
            await hostile(bench, action)
            bench.resets = True
        await bench.tick(20)
        for beats in bench.send.values():
            beats.clear()
        assert await bench.write("CONTROL", RESET) == OKAY
        await bench.tick(20)
        for name, want in CONSTANTS.items():
            assert await bench.read(name) == (want, OKAY)
        assert await bench.write("STATUS", 2**32 - 1) == OKAY  # sticky, a reset leaves it
        assert await bench.status() == set()
        await Job(CONFIG, 3, 2, 2, seed, use_d=True).run(bench)

    Bench(CONFIG, seed=seed).run(software)


@fuzz(200)
@given(st.sampled_from(list(REGISTERS.values())), st.integers(0, 2**32 - 1))
def test_words(register, value):
    """Bits of no field are lost, all others come back."""
    mask = sum(field.mask for field in register.fields)
    assert word(register, fields(register, value)) == value & mask


@fuzz(100)
@given(st.binary(max_size=200), st.integers(-1, 5), st.integers(-1, 5))
def test_packets_of_results(data, m, n):
    """Every packet gives m x n results with its own bits, or ValueError."""
    got = outcome(unpack_c, data, CONFIG, m, n, errors=ValueError)
    if got is not None:
        assert got.shape == (m, n)
        assert got[0, 0].tobytes() == data[:4]


def test_packets_of_another_length():
    with pytest.raises(ValueError, match="data must be 16 bytes long for C"):
        unpack_c(np.zeros(3, np.float32).tobytes(), CONFIG, 2, 2)
