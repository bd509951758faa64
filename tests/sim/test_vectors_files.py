"""Vectors for other benches: files for $readmemh, and `mxdot vectors`."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import refusal
from mxdot.cli import main
from mxdot.model import DotConfig
from mxdot.sim.dot.target import Target
from mxdot.sim.dot.vectors import Vectors, draw, evaluate, load, save, save_hex

GOLDEN = Path(__file__).parents[1] / "vectors"


@pytest.fixture
def small() -> Vectors:
    config = DotConfig(formats="e2m1,e3m2xe4m3", accumulator="exact", lanes=4)
    return evaluate([config], *draw(config, 40, 3, 5), {"command": "none"})


def words(path: Path) -> list[int]:
    return [int(line, 16) for line in path.read_text().splitlines()]


def test_hex_files_hold_the_vectors(small, tmp_path):
    save_hex(small, tmp_path)
    config = small.configs[0]
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert {path.name for path in tmp_path.iterdir()} == {
        *manifest["files"],
        "manifest.json",
        "README.txt",
        "vectors.vh",
    }
    assert {k: v for k, v in manifest.items() if k != "files"} == small.manifest()
    for name, about in manifest["files"].items():
        lines = (tmp_path / name).read_text().splitlines()
        assert len(lines) == about["lines"]
        assert {len(line) for line in lines} == {-(-about["bits"] // 8) * 2}
        assert max(words(tmp_path / name)) < 2 ** about["bits"]
    for side, width in (("a", config.bits_a), ("b", config.bits_b)):
        got = words(tmp_path / f"{side}.hex")
        mask = 2**width - 1
        codes = [[word >> width * i & mask for i in range(config.lanes)] for word in got]
        np.testing.assert_array_equal(codes, small.arrays[side])
        assert words(tmp_path / f"scale_{side}.hex") == small.arrays[f"scale_{side}"].tolist()
    assert words(tmp_path / "c.hex") == np.repeat(small.c, small.blocks).tolist()
    assert words(tmp_path / "expected.hex") == small.result[0].tolist()
    assert words(tmp_path / "flags.hex") == small.flags[0].tolist()
    control = np.array(words(tmp_path / "control.hex"))
    assert np.flatnonzero(control & 1).tolist() == small.first.tolist()
    assert np.flatnonzero(control & 2).tolist() == small.last.tolist()
    assert (control >> 2).tolist() == np.repeat(small.mode, small.blocks).tolist()


def test_header_names_the_ports_that_there_are(tmp_path):
    for load_c, status, out in ((True, True, "float32"), (False, False, "float16")):
        config = DotConfig(lanes=4, load_c=load_c, status=status, out=out)
        save_hex(evaluate([config], *draw(config, 5, 2, 0), {}), tmp_path)
        header = (tmp_path / "vectors.vh").read_text()
        assert "`define MXDOT_PRODUCTS 5\n" in header
        assert "`define MXDOT_A_BITS 32\n" in header
        assert f"`define MXDOT_RESULT_BITS {config.out.bits}\n" in header
        assert ("`define MXDOT_C 1\n" in header) == load_c
        assert ("`define MXDOT_STATUS 1\n" in header) == status
        assert "MXDOT_MODE_BITS" not in header
        # Files of the first unit that the second has not are gone.
        assert (tmp_path / "c.hex").exists() == load_c
        assert (tmp_path / "flags.hex").exists() == status


SCALED = DotConfig("e2m1", 16, "blackwell", scales="e4m3", scale_block=4)
SCALE_CODES = (0, 1, 7, 8, 56, 126, 127)  # zero, the ends of subnormals and normals, one, NaN


def with_every_scale() -> Vectors:
    """Seven dot products of one block of ones, then drawn ones: each of SCALE_CODES is in each
    place once, of a as of b."""
    turn, place = np.ogrid[:7, :4]
    scale_a, scale_b = (np.take(SCALE_CODES, i % 7).astype(np.uint8) for i in (turn + place, turn))
    ones = np.full((7, 1, 16), 2, np.uint8)
    scales = scale_a[:, None], np.repeat(scale_b, 4, axis=1)[:, None]
    directed = replace(Target(SCALED, 0).batch(ones, ones, scales), has_unit_scales=True)
    drawn, order = draw(SCALED, 60, 3, 5)
    order = np.concatenate([np.arange(7), 7 + order])
    return evaluate([SCALED], [directed, *drawn], order, {"command": "none"})


def test_several_scales_of_a_block(tmp_path):
    """Seven bits each, that of lane 0 lowest; and as an array (blocks, 4) in the other file."""
    vectors = with_every_scale()
    save(vectors, tmp_path / "scaled.npz")
    loaded = load(tmp_path / "scaled.npz")
    assert loaded.configs[0].arguments["scale_block"] == 4
    np.testing.assert_array_equal(loaded.scale_a, vectors.scale_a)
    assert vectors.scale_a.shape == (len(vectors.a), 4)
    assert vectors.scale_a[:7].tolist() == [
        *([0, 1, 7, 8], [1, 7, 8, 56], [7, 8, 56, 126], [8, 56, 126, 127]),
        *([56, 126, 127, 0], [126, 127, 0, 1], [127, 0, 1, 7]),
    ]
    assert vectors.scale_b[:7, 0].tolist() == list(SCALE_CODES)
    sums = [0, 2**-7 * (1 + 2**-5), 7 * 2**-7 * (449 + 15 * 2**-9)]
    assert vectors.result[0, :3].view(np.float32).tolist() == sums
    assert vectors.result[0, 3:7].tolist() == [0x7FFFFFFF] * 4  # a NaN among the scales
    save_hex(vectors, tmp_path)
    got = words(tmp_path / "scale_a.hex")
    want = [sum(int(code) << 7 * i for i, code in enumerate(row)) for row in vectors.scale_a]
    assert got == want
    assert "`define MXDOT_SCALE_BITS 28\n" in (tmp_path / "vectors.vh").read_text()
    about = json.loads((tmp_path / "manifest.json").read_text())["files"]["scale_b.hex"]
    assert about["holds"] == "E4M3 scale codes, that of lane 0 in the lowest bits, of b"


def test_a_scale_with_a_sign_is_refused(tmp_path):
    vectors = evaluate([SCALED], *draw(SCALED, 5, 2, 5), {})
    signed = np.full_like(vectors.scale_a, 0xB8)
    save(replace(vectors, scale_a=signed), tmp_path / "bad.npz")
    with pytest.raises(ValueError, match=r"scale_a of .* must be from 0 to 127, not from 184"):
        load(tmp_path / "bad.npz")


def test_hex_files_are_of_one_unit(tmp_path):
    with pytest.raises(ValueError, match="vectors must be of one unit, not of 16"):
        save_hex(load(GOLDEN / "e2m1.npz"), tmp_path / "hex")
    assert not (tmp_path / "hex").exists()


def test_hex_files_hold_few_modes(tmp_path, capsys):
    formats = ["e5m2", "e4m3", "e3m2", "e2m3", "e2m1", "int8", "int4", "bf16", "fp16"]
    pairs = [f"{a}x{b}" for a in formats for b in formats][:65]
    vectors = evaluate([config := DotConfig(pairs, 4)], *draw(config, 5, 2, 0), {})
    with pytest.raises(ValueError, match="formats must be at most 64 pairs in text files, not 65"):
        save_hex(vectors, tmp_path / "hex")
    words = ["vectors", "--format", ",".join(pairs), "--lanes", "4"]
    said = refusal(capsys, *words, "-o", tmp_path / "v.npz", "--hex", tmp_path / "hex")
    assert said == "formats must be at most 64 pairs in text files, not 65"
    assert not [*tmp_path.iterdir()]


# The command line -------------------------------------------------------------------------------

OPTIONS = ["--format", "e5m2xe4m3", "--accumulator", "hopper", "--lanes", "4", "--count", "50"]


def test_command_writes_both(tmp_path, capsys):
    npz, directory = tmp_path / "new" / "vectors.npz", tmp_path / "hex"
    assert main(["vectors", *OPTIONS, "--out", str(npz), "--hex", str(directory)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{npz} {directory}: 50 dot products, ")
    assert len(out.splitlines()) == 1
    vectors = load(npz)
    assert vectors.origin["command"] == (
        "mxdot vectors --format e5m2xe4m3 --accumulator hopper --lanes 4 --result float32 "
        "--blocks=8 --count=50 --seed=1"
    )
    assert words(directory / "expected.hex") == vectors.result[0].tolist()
    first = {path.name: path.read_bytes() for path in [npz, *directory.iterdir()]}
    assert main([*vectors.origin["command"].split()[1:], "--out", str(npz)]) == 0
    shutil.rmtree(directory)
    assert main(["vectors", *OPTIONS, "--stages", "1", "--hex", str(directory)]) == 0
    again = {path.name: path.read_bytes() for path in [npz, *directory.iterdir()]}
    assert again == first


BAD_COMMANDS = {
    "integer results": (
        ["--out", "x.npz", "--format", "int8", "--accumulator", "int32", "--result", "int32"],
        "out must be a float to write vectors, not int32",
    ),
    "interleave": (
        ["--out", "x.npz", "--interleave", "2"],
        "interleave must be 1 to write vectors, not 2",
    ),
    "micro": (["--out", "x.npz", "--micro"], "micro must be False to write vectors, not True"),
    "nowhere to write": ([], "vectors needs -o FILE, --hex DIR or both"),
    "count": (["--out", "x.npz", "--count", "0"], "count must be from 1 to 1000000, not 0"),
    "blocks": (["--out", "x.npz", "--blocks", "0"], "blocks must be from 1 to 1024, not 0"),
    "seed": (["--out", "x.npz", "--seed", "-1"], "seed must be at least 0, not -1"),
    "lanes": (["--out", "x.npz", "--lanes", "3"], "lanes must be one of 4, 8, 16, 32, 64, 128"),
    "format": (["--out", "x.npz", "--format", "fp8"], "formats must be one of e4m3"),
    "int32": (["--out", "x.npz", "--accumulator", "int32"], "int32 takes integer formats only"),
    "a directory": (["--out", "."], "output must be a file, not the directory ."),
    "a file": (["--hex", "file"], "hex must be a directory that can be written, not file"),
}


@pytest.mark.parametrize(("options", "message"), BAD_COMMANDS.values(), ids=BAD_COMMANDS)
def test_command_refuses_in_one_line(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert message in refusal(capsys, "vectors", *options)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
