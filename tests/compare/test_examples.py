"""The multiply-adds of examples: their gates compute what their comments say."""

from pathlib import Path

import numpy as np
import pytest

from mxdot.compare.studies.extra import load_extra
from mxdot.model import E4M3
from mxdot.synth import gates, measure_netlist
from mxdot.synth.activity import Activity, pack, unpack

EXAMPLES = Path(__file__).parents[2] / "examples"
STREAMS, CYCLES = 256, 40


def outputs(file: str, top: str, cache: Path, a, b, **parameters: int):
    """Each output after every cycle as integers (cycles, streams); a and b: codes
    (cycles, streams, lanes). A new dot product starts in cycles 0 and 25; cycle 30 is not valid."""
    text = (EXAMPLES / file).read_text()
    _, netlist = measure_netlist(text, top, cache_dir=cache, parameters=parameters)
    run = Activity(netlist, gates.library(), STREAMS)
    found: dict[str, list[np.ndarray]] = {}
    for cycle in range(len(a) + 1):  # an output is seen a cycle after its edge
        inputs = {"in_valid": [run.ones if cycle != 30 else 0]}
        inputs["in_first"] = [run.ones if cycle in (0, 25) else 0]
        if cycle < len(a):
            inputs["in_a"] = pack(np.unpackbits(a[cycle], axis=1, bitorder="little").astype(bool))
            inputs["in_b"] = pack(np.unpackbits(b[cycle], axis=1, bitorder="little").astype(bool))
        for name, words in run.cycle(inputs).items():
            bits = unpack(words, STREAMS)
            value = bits @ (1 << np.arange(bits.shape[1], dtype=np.int64))
            found.setdefault(name, []).append(value)
    return {name: np.array(values[1:]) for name, values in found.items()}


def codes(lanes: int, seed: int):
    """Two arrays (CYCLES, STREAMS, lanes) of any codes."""
    shape = (2, CYCLES, STREAMS, lanes)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def running(terms, step):
    """The sum after each cycle; `terms` (cycles, streams), `step(sum, term)` adds."""
    total, sums = np.zeros(terms.shape[1], terms.dtype), []
    for cycle, term in enumerate(terms):
        if cycle != 30:
            total = step(np.zeros_like(total) if cycle in (0, 25) else total, term)
        sums.append(total)
    return np.array(sums)


def int8_terms(a, b):
    return (a.view(np.int8).astype(np.int64) * b.view(np.int8)).sum(axis=2)


def test_int8_mac(tmp_path):
    a, b = codes(1, 1)
    a[:2, :4, 0], b[:2, :4, 0] = 0x80, [0x80, 0x7F, 0x01, 0x00]
    got = outputs("int8_mac.v", "int8_mac", tmp_path, a, b)["out_sum"]
    want = running(int8_terms(a, b), np.add)
    np.testing.assert_array_equal(got.astype(np.uint32).view(np.int32), want)


def test_int8_array(tmp_path):
    a, b = codes(8, 2)
    a[0, 0], b[0, 0] = 0x80, 0x80
    got = outputs("int8_mac.v", "int8_array", tmp_path, a, b, LANES=8)["out_sum"]
    want = running(int8_terms(a, b), np.add)
    np.testing.assert_array_equal(got[2:].astype(np.uint32).view(np.int32), want[:-2])


def rounded(values, fraction: int):
    """float64 `values` rounded to nearest, ties to even, to 1 + `fraction` bits."""
    significand, exponent = np.frexp(values)
    return np.ldexp(np.rint(np.ldexp(significand, fraction + 1)), exponent - fraction - 1)


@pytest.mark.parametrize("fraction", [10, 23])
@pytest.mark.parametrize("spread", ["any codes", "cancelling"])
def test_e4m3_mac(fraction, spread, tmp_path):
    a, b = codes(1, 3)
    if spread == "cancelling":  # each product is taken back by the next
        a[1::2], b[1::2] = a[::2] ^ 0x80, b[::2]
    finite = (a & 0x7F != 0x7F) & (b & 0x7F != 0x7F)
    if spread == "cancelling":
        a[~finite], b[~finite] = 0, 0
    found = outputs("e4m3_mac.v", "e4m3_mac", tmp_path, a, b, FRACTION=fraction)
    table = E4M3.decode(np.arange(256, dtype=np.uint8)).astype(np.float64)
    products = np.where(np.isnan(table[a] * table[b]), 0, table[a] * table[b])[:, :, 0]
    nan = running(np.isnan(table[a] * table[b])[:, :, 0], np.logical_or)
    want = running(products, lambda total, term: rounded(total + term, fraction))
    got = (found["out_sum"] << (23 - fraction)).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(found["out_nan"], nan)
    np.testing.assert_array_equal(got[~nan], want[~nan])
    assert not np.signbit(got[~nan][want[~nan] == 0]).any()
    if fraction == 23:  # the same by another route
        single = running(products.astype(np.float32), np.add)
        np.testing.assert_array_equal(got[~nan], single[~nan])
    assert (~nan).sum() > CYCLES * STREAMS / 2


def test_extra_file():
    units = load_extra(EXAMPLES / "macs.toml")
    assert [unit.top for unit in units] == ["int8_array", "int8_mac", "e4m3_mac", "e4m3_mac"]
