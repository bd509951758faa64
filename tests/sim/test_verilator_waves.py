"""Waves, and the headers that stand in for compression where a machine has none."""

import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from mxdot.sim.bench import bulk
from mxdot.sim.engine import verilator
from standin.build import Blocks, build_standin

WAVE_HEADERS = Path(verilator.__file__).parent / "wave_headers"


def test_waves_are_recorded(simulation_dir, tmp_path, monkeypatch):
    # Verilator's runtime for waves is compiled for this test alone.
    monkeypatch.setattr(verilator, "_QUICK", ["OPT_FAST=-O0", "OPT_SLOW=-O0", "OPT_GLOBAL=-O0"])
    build = build_standin(simulation_dir / "standin-waves", waves=True, optimize=False)
    waves = tmp_path / "dump.fst"
    records = Blocks(100, seed=1).write(tmp_path / "records")
    bulk.run(build, records, tmp_path / "results", waves=waves)
    # An FST file starts with the header block: type 0, length 329.
    assert waves.read_bytes()[:9] == bytes(7) + (329).to_bytes(2, "big")
    assert waves.stat().st_size > 100 * 64  # both operands of every block at least


def test_waves_need_a_build_for_waves(simulation_dir, tmp_path):
    build = build_standin(simulation_dir / "standin")
    with pytest.raises(ValueError, match="built without waves"):
        build.run("unused", results_xml=tmp_path / "results.xml", waves=tmp_path / "dump.fst")


@pytest.mark.parametrize("size", [0, 1, 14, 15, 16, 269, 270, 271, 0xFFFF, 0x10000, 200_000])
def test_headers_that_stand_in_for_compression(stored, size):
    data = np.random.default_rng(size).bytes(size)
    assert zlib.decompress(stored("zlib", data)) == data
    assert lz4_literals(stored("lz4", data)) == data


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Runs data through the stand-ins for compress2 and LZ4_compress_default."""
    directory = tmp_path_factory.mktemp("stored")
    (directory / "main.cpp").write_text("""
#include "lz4.h"
#include "zlib.h"
#include <iostream>
#include <iterator>
#include <string>
int main(int, char** argv) {
    const std::string in{std::istreambuf_iterator<char>{std::cin}, {}};
    std::string out;
    if (argv[1] == std::string{"zlib"}) {
        uLongf size = compressBound(in.size());
        out.resize(size);
        if (compress2((Bytef*)out.data(), &size, (const Bytef*)in.data(), in.size(), 9)) return 1;
        out.resize(size);
    } else {
        out.resize(LZ4_compressBound(in.size()));
        out.resize(LZ4_compress_default(in.data(), out.data(), in.size(), out.size()));
    }
    std::cout << out;
}
""")
    command = ["g++", "-std=c++20", "-Wall", f"-I{WAVE_HEADERS}", "main.cpp", "-o", "main"]
    subprocess.run(command, cwd=directory, check=True)

    def stored(name: str, data: bytes) -> bytes:
        command = [directory / "main", name]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout

    return stored


def lz4_literals(block: bytes) -> bytes:
    """Decodes an LZ4 block that is one sequence of literals."""
    size, at = block[0] >> 4, 1
    if size == 15:
        while block[at] == 255:
            at += 1
        size += sum(block[1 : at + 1])
        at += 1
    assert len(block) == at + size
    return block[at:]
