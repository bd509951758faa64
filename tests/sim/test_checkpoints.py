"""Quantised weights of checkpoints in commands: codes as they are where a unit takes them."""

import re

import numpy as np
import pytest

from checkpoint_files import COLUMNS, HELD, ROWS, floats, fp8, make, random_bytes, read, write
from mxdot.compare.accuracy.evaluation import prepare
from mxdot.compare.accuracy.scheme_units import evaluate_unit
from mxdot.model import DotConfig, format_pairs
from mxdot.model.checkpoints import LAYOUTS, Checkpoint
from mxdot.model.formats import FORMATS
from mxdot.sim.dot.tensors import quantized, tensor_traffic, weights_note
from mxdot.sim.engine.job import UnitJob
from mxdot.util.data.sets import data_set
from mxdot.util.data.tensors import load_array, load_tensors, load_values, modes_taking
from mxdot.util.data.weights import MOST_ROWS, HeldRows, spread_names
from mxdot.util.keys import data_digest


def held(path, *names):
    x, y = load_tensors(path, names)
    assert isinstance(y, HeldRows)
    return x, y


def test_every_layout_has_a_sample():
    assert {*LAYOUTS, "gguf Q8_0", "gguf MXFP4"} == {name.partition(",")[0] for name in HELD}


@pytest.mark.parametrize("layout", HELD)
def test_a_weight_of_each_layout(tmp_path, layout):
    path = make(layout, tmp_path)
    (array,) = Checkpoint(path).values()
    want = array.dequantize().reshape(ROWS, COLUMNS)
    for source in (path, *([] if path.suffix == ".gguf" else [tmp_path])):
        for names in ((), ("w",)):
            x, y = held(source, *names)
            assert isinstance(x, np.ndarray)
            assert x.shape == (16, COLUMNS)
            np.testing.assert_array_equal(y.values, want)
            fmt = None if y.format is None else y.format.name
            kinds = None if fmt is None else (fmt, y.scale_format, y.block)
            assert kinds == HELD[layout]
    np.testing.assert_array_equal(load_array(path, "w")[0].reshape(want.shape), want)
    np.testing.assert_array_equal(load_values(path, ("w", "w"))[1], want)
    assert data_digest(str(path))


@pytest.mark.parametrize("layout", [name for name, kinds in HELD.items() if kinds])
def test_codes_as_they_are(tmp_path, layout):
    """In a simulation and in a comparison: every code and scale of the file."""
    fmt, scales, block = HELD[layout]
    path = make(layout, tmp_path)
    (array,) = Checkpoint(path).values()
    codes = array.codes.reshape(ROWS, COLUMNS)
    lanes = 16 if scales == "e4m3" else 32
    rule = "exact" if scales != "e4m3" else "fused:13"
    config = DotConfig(fmt, lanes, rule, scales=scales or "e8m0")
    job = UnitJob("unit", config, 1, tmp_path, tensors=path, all_tensors=True)
    (batch,) = tensor_traffic(job, None)
    np.testing.assert_array_equal(batch.b[:ROWS].reshape(ROWS, COLUMNS), codes)
    if scales is None:
        assert (batch.scale_b == 127).all()
    else:
        spread = array.level_scales[-1].reshape(-1, array.level_scales[-1].shape[-1])
        want = np.resize(spread.repeat(block // lanes, axis=1), (ROWS, COLUMNS // lanes))
        np.testing.assert_array_equal(batch.scale_b[:ROWS], want)
    if scales != "e4m3":
        pair = format_pairs(fmt)[0]
        operands = prepare(pair, data_set(str(path)), 32, 32, 1, 40, "floor")
        starts = range(0, COLUMNS - 31, 32 if scales else 1)
        stretches = {row[i : i + 32].tobytes() for row in codes for i in starts}
        assert {row.tobytes() for row in operands.b.codes} <= stretches


def test_nvfp4_in_a_unit_with_its_scales(tmp_path):
    """The weight against itself: codes that are kept have no error of a format."""
    path = make("nvfp4-pack-quantized", tmp_path)
    config = DotConfig("e2m1", 16, "fused:30", scales="e4m3")
    (kept,) = evaluate_unit(config, f"{path}#w,w", (64,), count=8)
    assert kept.sqnr_format_db > 120
    (other,) = evaluate_unit(config, str(path), (64,), count=8)
    assert 10 < other.sqnr_format_db < 30
    config = DotConfig("e2m1", 32, "fused:30", scales="e4m3")  # a scale of 32 elements
    (values,) = evaluate_unit(config, f"{path}#w,w", (64,), count=8)
    assert values.sqnr_format_db < 60


def test_other_units_take_values(tmp_path):
    _, y = held(make("mxfp8-quantized", tmp_path))
    for config in (
        DotConfig("e5m2", 32),
        DotConfig("e4m3", 64),  # a scale of 64 elements
        DotConfig("e4m3", 16, "fused:13", scales="e4m3"),
    ):
        fmt = config.formats[0][1]
        got, want = quantized(config, y, fmt), quantized(config, y.values, fmt)
        for part, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(part, other)
    note = f"weights of {tmp_path}: their "
    assert weights_note(tmp_path, (), DotConfig("e5m2", 32)) == f"{note}values, quantised to e5m2"
    codes_note = f"{note}e4m3 codes under their e8m0 scales, one per 32 elements"
    assert weights_note(tmp_path, (), DotConfig("e4m3", 8)) == codes_note
    codes, scales = quantized(DotConfig("e4m3", 8), y, FORMATS["e4m3"])
    assert y.codes is not None
    np.testing.assert_array_equal(codes.reshape(y.codes.shape), y.codes)
    assert scales.shape == (ROWS, COLUMNS // 8)
    assert modes_taking(DotConfig("e5m2,e4m3", 32), *held(tmp_path)) == [0, 1]


def test_stretches_begin_with_blocks(tmp_path):
    """Rows that are joined, cut inside a block, and of several weights keep codes with scales."""
    exponents = [("U8", random_bytes(ROWS, 3, low=120, high=130)) for _ in "ab"]
    tensors = {}
    for name, scale in zip("ab", exponents, strict=True):
        tensors |= {f"{name}.weight": fp8(ROWS, 96), f"{name}.weight_scale": scale}
    path = write(tmp_path / "m.safetensors", tensors)
    source = data_set(str(path))
    for length in (32, 80, 200):
        _, y = source.operands(np.random.default_rng(2), 6, length, 32)
        assert isinstance(y, HeldRows)
        kept = y.under(FORMATS["e4m3"], "e8m0", 32, 32)
        assert kept is not None
        codes, scales = kept
        values = FORMATS["e4m3"].values[codes[:, :length]]
        by = np.exp2(scales.repeat(32, axis=1)[:, :length].astype(float) - 127)
        np.testing.assert_array_equal(values * by, y.values)
    x, _ = source.draw(np.random.default_rng(2), 6, 80, 32)
    assert x.dtype == np.float32


def test_at_most_so_many_rows_and_weights(tmp_path):
    tensors = {"w.weight": fp8(3000, 32), "w.weight_scale": floats(1)}
    _, y = held(write(tmp_path / "m.safetensors", tensors))
    assert len(y) == MOST_ROWS - 24  # every third
    names = [str(i) for i in range(30)]
    assert spread_names(names) == ["0", "4", "8", "12", "16", "20", "24", "29"]
    assert spread_names(names[:3]) == names[:3]


def test_bad_checkpoints(tmp_path):
    path = make("mxfp4-pack-quantized", tmp_path)
    with pytest.raises(ValueError, match=re.escape(f"{path}: name must be one of ")):
        load_tensors(path, ("v",))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path}: {path}: it must be a safeten")):
        load_tensors(tmp_path)
    tensors = {"w.weight": fp8(), "w.weight_scale_inv": floats(3, 1)}
    write(path, tensors)
    message = f"{path}: w: scales of codes (8, 64) must have shape (1, 1), not (3, 1)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        load_tensors(path)
    write(path, {"w.weight": floats(2, 2)})
    message = f"{tmp_path}: must hold quantised weights in a layout that is known, not none"
    with pytest.raises(ValueError, match=re.escape(message)):
        load_tensors(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty: it must hold safetensors files, not none$"):
        load_tensors(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"none.gguf: no such file$"):
        load_tensors(tmp_path / "none.gguf")


@pytest.mark.parametrize("layout", HELD)
def test_damaged_bytes(tmp_path, layout):
    """Any bytes of the header: the tensors, or a ValueError of one line."""
    path, rng = make(layout, tmp_path), np.random.default_rng(5)
    whole = path.read_bytes()
    size = 90 if path.suffix == ".gguf" else 400
    for _ in range(30):
        data = bytearray(whole)
        for place in rng.integers(0, min(size, len(data)), 2):
            data[place] = rng.choice([*b'09,-]["', 255])
        path.write_bytes(data)
        try:
            load_tensors(path)
        except ValueError as error:
            text = str(error)
        else:
            continue
        assert text.startswith(f"{path}: ")
        assert "\n" not in text


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_of_other_shapes(tmp_path, layout):
    """Each of a weight's tensors replaced by another: read, or an error of one line."""
    path = make(layout, tmp_path)
    tensors = read(path)
    for name in tensors:
        for other in (("I32", np.zeros((4, 4), np.int32)), floats(), floats(3)):
            write(path, tensors | {name: other})
            text = refusal(path)
            assert text is None or re.fullmatch(f"{re.escape(str(path))}: w: .+", text)


def refusal(path):
    """Text of the error about a checkpoint's weights; None without an error."""
    try:
        for array in Checkpoint(path).values():
            array.dequantize()
    except (TypeError, ValueError) as error:
        return str(error)
    return None
