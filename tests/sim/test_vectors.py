"""Golden vectors: the model and the oracle reproduce them; the file format."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import generate
from compare import FLAGS, FULL
from mxdot.model import PRESETS, DotConfig, MXArray, accumulator, dot, rounding
from mxdot.sim.dot.vectors import ARRAYS, Vectors, draw, evaluate, load, save
from rational import dot as oracle

GOLDEN = Path(__file__).parents[1] / "vectors"

NAMES = list(generate.FILES)
LIMIT = 2 * 2**20
UNITS = [(name, text) for name, file in generate.FILES.items() for text in file.accumulators]


def products(vectors: Vectors) -> list[list[tuple[list[int], list[int], int, int]]]:
    """Each dot product's blocks (codes of a, codes of b, scale of a, scale of b)."""
    config = vectors.configs[0]
    codes = (side.reshape(-1, config.scale_block).tolist() for side in (vectors.a, vectors.b))
    scales = (side.ravel().tolist() for side in (vectors.scale_a, vectors.scale_b))
    rows = list(zip(*codes, *scales, strict=True))
    spans = np.stack([vectors.first, vectors.last + 1], axis=1) * config.scale_blocks
    return [rows[first:end] for first, end in spans.tolist()]


def want(vectors: Vectors, unit: int, first: int = 0, step: int = 1) -> list[oracle.Result]:
    """Results and flags in the file, of one of so many dot products."""
    flags = vectors.flags[unit][:, None] >> np.arange(len(FLAGS)) & 1
    return [
        oracle.Result(result, *map(bool, row))
        for result, row in zip(
            vectors.result[unit][first::step].tolist(), flags[first::step].tolist(), strict=True
        )
    ]


def model_results(vectors: Vectors, unit: int, index: int) -> oracle.Result:
    """Results of `mxdot.model.dot` for one dot product alone."""
    config = vectors.configs[unit]
    rows = slice(vectors.first[index], vectors.last[index] + 1)
    (formats,) = config.formats
    operands = [
        MXArray(codes[rows].reshape(1, -1), scales[rows].reshape(1, -1), fmt, config.scale_block)
        for codes, scales, fmt in zip(
            (vectors.a, vectors.b), (vectors.scale_a, vectors.scale_b), formats, strict=True
        )
    ]
    with np.errstate(invalid="ignore"):  # a signalling NaN
        c = vectors.c[index : index + 1].view(np.float32)
        a, b = operands
        scales = config.scales
        trace = dot(a, b, config.accumulator, c, trace=True, stages=False, scale_format=scales)
    flags = (bool(getattr(trace.flags, name)[0]) for name in FLAGS)
    return oracle.Result(int(trace.result.view(np.uint32)[0]), *flags)


def report(
    vectors: Vectors, unit: int, got: list[oracle.Result], first: int = 0, step: int = 1
) -> str:
    """Every dot product that differs, in a line; empty when none does. got: one of so many."""
    pairs = zip(got, want(vectors, unit, first, step), strict=True)
    return "\n".join(
        f"{i} ({vectors.cases[vectors.case[i]]}): got {g}, want {w}"
        for i, (g, w) in zip(count(first, step), pairs)
        if g != w
    )


# Golden vectors ---------------------------------------------------------------------------------


def test_files_are_all_there_is_and_small():
    files = sorted(GOLDEN.glob("*.npz"))
    assert {file.stem for file in files} == set(NAMES)
    assert sum(file.stat().st_size for file in files) <= LIMIT


def test_every_accumulator_and_format_is_there():
    texts = {text for _, text in UNITS}
    keywords = {accumulator(text).keyword for text in texts}
    assert keywords == {"exact", "aligned", "fused", "fixed", "float32", "int32", "preset"}
    assert set(PRESETS) <= texts
    assert {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "int8"} <= set(NAMES)


@pytest.mark.parametrize("name", [n for n, file in generate.FILES.items() if file.scales == "e4m3"])
def test_every_kind_of_e4m3_scale_is_there(name):
    """Zero, the ends of subnormal and normal numbers, NaN, in every place, and others between."""
    vectors = load(GOLDEN / f"{name}.npz")
    config = vectors.configs[0]
    for scales in (vectors.scale_a, vectors.scale_b):
        places = scales.reshape(-1, config.scale_blocks)
        for column in places.T:
            assert {0, 1, 7, 8, 126, 127} <= set(column.tolist())
            assert len(np.unique(column)) > 80


@pytest.mark.parametrize("name", NAMES)
def test_regenerating_gives_the_same_bytes(name, tmp_path):
    """The model computes the results in the files."""
    save(generate.golden(name), tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (GOLDEN / f"{name}.npz").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_model_reproduces_one_at_a_time(name):
    """Every ninth dot product by itself, with another accumulator each time."""
    vectors = load(GOLDEN / f"{name}.npz")
    units = len(vectors.configs)
    for index in range(0, len(vectors), 9):
        unit = index // 9 % units
        assert model_results(vectors, unit, index) == want(vectors, unit)[index], index


@pytest.mark.parametrize(("name", "text"), UNITS)
def test_oracle_reproduces(name, text):
    """Each dot product under some accumulators, with FULL=1 under all."""
    first, _, second = generate.FILES[name].formats.partition("x")
    pair = first, second or first
    vectors = load(GOLDEN / f"{name}.npz")
    texts = [str(config.accumulator) for config in vectors.configs]
    unit, step = texts.index(text), 1 if FULL else 3
    first = unit % step
    starts = list(zip(products(vectors), vectors.c.tolist(), strict=True))[first::step]
    scales = vectors.configs[0].scales
    got = [oracle.dot(*pair, blocks, text, c, scales) for blocks, c in starts]
    assert report(vectors, unit, got, first, step) == ""


@pytest.mark.parametrize("name", NAMES)
def test_vectors_exercise_every_flag(name):
    vectors = load(GOLDEN / f"{name}.npz")
    for config, flags, result in zip(vectors.configs, vectors.flags, vectors.result, strict=True):
        raised = {flag for bit, flag in enumerate(FLAGS) if (flags >> bit & 1).any()}
        expected = {"invalid", "inexact"}
        wide = config.accumulator == accumulator("fixed:640:-286")
        if config.accumulator.keyword == "fixed" and not wide:
            expected |= {"saturated"}
        elif config.scales == "e8m0":  # E4M3's are too near one to leave the range of float32
            expected |= {"overflow", "underflow"} if wide else {"overflow"}
        assert expected <= raised, config
        assert len(np.unique(result)) > len(result) // 10, config


def test_hopper_facts_are_among_the_vectors():
    vectors = load(GOLDEN / "e4m3.npz")
    unit = [str(config.accumulator) for config in vectors.configs].index("hopper")
    facts = vectors.result[unit][vectors.case == vectors.cases.index("facts")].view(np.float32)
    alone, with_c = facts[0::2].tolist(), facts[1::2].tolist()
    assert alone == with_c == [65544.0, 65536.0, 65784.0, 65536.0]
    assert 0x7FFFFFFF in vectors.result[unit]


WRONG_MODELS = {
    "RZ to 12 fraction bits instead of 13": (
        "toward_zero",
        lambda x, bits=23: TOWARD_ZERO(x, 12 if bits == 13 else bits),
        {"hopper", "hopper-promoted", "ada"},
    ),
    "no odd bit for what a sum lost": ("to_odd", lambda total, error: total, {"exact"}),
}
TOWARD_ZERO = rounding.toward_zero


@pytest.mark.parametrize(("name", "wrong", "seen"), WRONG_MODELS.values(), ids=WRONG_MODELS)
def test_a_wrong_model_is_noticed(monkeypatch, name, wrong, seen):
    monkeypatch.setattr(rounding, name, wrong)
    got, want = generate.golden("e5m2"), load(GOLDEN / "e5m2.npz")
    np.testing.assert_array_equal(got.a, want.a)
    different = (got.result != want.result).any(axis=1)
    assert {generate.ACCUMULATORS[i] for i in np.flatnonzero(different)} >= seen


def test_a_wrong_result_is_reported():
    vectors = load(GOLDEN / "e2m1.npz")
    got = want(vectors, 0)
    vectors.result[0, 7] ^= 1
    assert report(vectors, 0, got).startswith("7 (zeros): got Result(bits=")


# The file format --------------------------------------------------------------------------------


@pytest.fixture
def small() -> Vectors:
    config = DotConfig(formats="e2m1,e3m2xe4m3", accumulator="exact", lanes=4)
    return evaluate([config], *draw(config, 40, 3, 5), {"command": "none"})


def test_load_gives_what_was_saved(small, tmp_path):
    save(small, tmp_path / "small.npz")
    loaded = load(tmp_path / "small.npz")
    assert (loaded.configs, loaded.cases, loaded.origin) == (
        small.configs,
        small.cases,
        small.origin,
    )
    for name, array in small.arrays.items():
        np.testing.assert_array_equal(loaded.arrays[name], array)


def test_draw_is_deterministic_and_counts(small):
    assert len(small) == 40
    assert small.blocks.max() == 3
    assert set(small.mode.tolist()) == {0, 1}
    again = evaluate(small.configs, *draw(small.configs[0], 40, 3, 5), {"command": "none"})
    other = evaluate(small.configs, *draw(small.configs[0], 40, 3, 6), {"command": "none"})
    assert all((again.arrays[name] == small.arrays[name]).all() for name in ARRAYS)
    assert not np.array_equal(other.c, small.c)


def test_every_sequence_takes_part():
    config = DotConfig(lanes=4)
    batches, order = draw(config, 5000, 100, 1)
    vectors = evaluate([config], batches, order, {})
    assert len(vectors) == 5000
    assert set(vectors.case.tolist()) == set(range(len(vectors.cases)))
    assert len(vectors.cases) > 10
    assert vectors.blocks.max() == 100


BAD_ARRAYS = {
    "dtype": ({"c": np.zeros(40, np.int64)}, "c of .* must be uint32 of 1 axes, not int64"),
    "axes": ({"a": np.zeros(40, np.uint8)}, "a of .* must be uint8 of 2 axes, not uint8"),
    "rows": ({"case": np.zeros(3, np.uint8)}, r"case of .* must have shape \(40,\), not \(3,\)"),
    "blocks": ({"blocks": np.ones(40, np.uint16)}, "must have shape"),
    "no blocks": ({"blocks": 0}, "blocks of .* must be from 1 to 1024, not from 0"),
    "code": ({"a": 64}, "a of .* must be from 0 to 15, not from 64 to 64"),
    "mode": ({"mode": 2}, "mode of .* must be from 0 to 1, not from 2 to 2"),
    "case": ({"case": 200}, "case of .* must be from 0 to"),
    "flags": ({"flags": 32}, "flags of .* must be from 0 to 31, not from 32 to 32"),
}


@pytest.mark.parametrize(("change", "message"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_load_checks_arrays(small, tmp_path, change, message):
    ((name, value),) = change.items()
    if isinstance(value, int):
        value = np.full_like(small.arrays[name], value)
    if name == "blocks" and not value.all():
        value = small.blocks.copy()
        value[:2] = 0, value[0] + value[1]
    save(replace(small, **{name: value}), tmp_path / "bad.npz")
    with pytest.raises(ValueError, match=message) as error:
        load(tmp_path / "bad.npz")
    assert "\n" not in str(error.value)


BAD_MANIFESTS = {
    "schema": ({"schema": 2}, "schema of .* must be 1"),
    "accumulator": ({"accumulators": ["best"]}, "does not hold .* accumulator must be one of"),
    "format": ({"formats": "e9m9"}, "does not hold what its schema says: formats must be"),
    "lanes": ({"lanes": 3}, "does not hold what its schema says: lanes must be"),
    "unknown": ({"extra": 1}, "does not hold what its schema says: manifest"),
    "units": ({"accumulators": ["exact", "float32"]}, r"must have shape \(2, 40\)"),
    "narrow": ({"out": "float16"}, "result of .* must be from 0 to 65535"),
}


@pytest.mark.parametrize(("change", "message"), BAD_MANIFESTS.values(), ids=BAD_MANIFESTS)
def test_load_checks_the_manifest(small, tmp_path, change, message):
    manifest = json.dumps({**small.manifest(), **change})
    np.savez(tmp_path / "bad.npz", manifest=np.array(manifest), **small.arrays)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "bad.npz")


def test_load_refuses_other_files(small, tmp_path):
    path = tmp_path / "vectors.npz"
    save(small, path)
    whole = path.read_bytes()
    np.save(tmp_path / "array.npy", small.a)
    contents = {
        "truncated": whole[:-100],
        "empty": b"",
        "text": b"not a zip file",
        "array": (tmp_path / "array.npy").read_bytes(),
    }
    for content in contents.values():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"vectors\.npz cannot be read as test vectors: "):
            load(path)
    np.savez(path, a=small.a)
    with pytest.raises(ValueError, match="cannot be read as test vectors: 'manifest'"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.npz")
