"""Packed arrays: round trips, bytes laid out by hand, totals equal to `storage`; files."""

import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest

from compare import generator
from mxdot.model import pack as pack_mx
from mxdot.model import quantize as quantize_mx
from mxdot.model.schemes import (
    INT4_FULL,
    SCHEMES,
    Level,
    Limits,
    PackedArray,
    ScaledArray,
    UnsignedFormat,
    block,
    calibrate,
    load,
    pack,
    quantize,
    save,
    storage,
    unpack,
)
from scheme_cases import assert_same, has_tiles, random_array, shrunk


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.contract("S41", "S44")
def test_round_trips_and_totals(name, tmp_path):
    rng = generator("packing", name)
    for kind in ("any", "nan", "ends"):
        scheme = shrunk(SCHEMES[name])
        array = random_array(rng, scheme, 24, 48, kind)
        packed = pack(array)
        assert_same(unpack(packed), array)
        assert packed.nbytes == storage(scheme, 24, 48).total
    save(tmp_path / "array.npz", array)
    assert_same(load(tmp_path / "array.npz"), array)
    x = rng.standard_normal((2, 128, 3, 128)).astype(np.float32)
    for values, axis in ((x, -1), (x, 1), (x[0, 0, 0], -1)):
        if has_tiles(SCHEMES[name]) and values.ndim > 2:
            values, axis = np.moveaxis(values, 2, 1), 3 if axis == -1 else 2
        elif has_tiles(SCHEMES[name]):
            continue
        array = quantize(values, name, axis=axis)
        assert_same(unpack(pack(array)), array)
        rows = array.matrix_shape
        assert pack(array).nbytes == storage(name, *rows).total
    save(tmp_path / "array.npz", array)
    got = load(tmp_path / "array.npz")
    assert_same(got, array)
    assert isinstance(got, ScaledArray)
    assert got.scheme is SCHEMES[name]


def test_bytes_by_hand():
    """INT4 two to a byte, the first in the low nibble; micro-exponents eight to a byte."""
    (level,) = SCHEMES["int4_g32"].levels
    scheme = replace(SCHEMES["int4_g32"], levels=(replace(level, granularity=block(4)),))
    packed = pack(quantize(np.array([7, -3.5, 0.5, 1.5, 14, 14, -14, 1], np.float32), scheme))
    assert packed.elements.tolist() == [[0xC7, 0x20, 0x77, 0x09]]
    assert packed.scales[0].view(np.float16).tolist() == [[1, 2]]

    x = np.array([1.5, 0.25, 0.75, 0.5, 0.25, 0.125] + [0] * 10, np.float32)
    packed = pack(quantize(x, "mx4"))  # codes 3 0 3 2 1 0, three bits each
    assert packed.elements.tolist()[0][:3] == [0b11_000_011, 0b0_001_010_0, 0]
    assert packed.scales[0].tolist() == [[127]]
    assert packed.scales[1].tolist() == [[0b11111110]]

    peaked = np.where(np.arange(32) == 5, 4.0, 0.5)
    rows = np.concatenate([peaked, np.arange(32) % 8, peaked]).astype(np.float32)
    packed = pack(quantize(rows, "mixed4"))
    assert packed.selectors is not None
    assert packed.selectors.tolist() == [[0b010]]

    affine = quantize(np.repeat(np.array([-1, 14, -8, 7], np.float32), 64), "int4_affine_g128")
    packed = pack(affine)
    assert np.asarray(affine.zero_points).tolist() == [-7, 0]
    assert np.asarray(packed.zero_points).tolist() == [[0x09]]  # -7 is 1001


@pytest.mark.parametrize("name", ["mxfp4", "mxfp6_e2m3", "mxfp8_e4m3"])
def test_mx_codes_are_packed_as_by_pack(name):
    array = random_array(generator("as before", name), SCHEMES[name], 5, 96, "any")
    want = pack_mx(array.codes, array.scheme.elements[0])  # type: ignore[arg-type]
    np.testing.assert_array_equal(pack(array).elements, want)


def test_own_schemes_and_limits_in_files(tmp_path):
    levels = (*SCHEMES["nvfp4"].levels, Level(block(2), UnsignedFormat(11)))
    own = replace(SCHEMES["nvfp4"], name="own", levels=levels)
    changed = replace(SCHEMES["mx9"], source="another")  # a name of the table, but not its row
    for scheme in (own, changed):
        array = random_array(generator("own", scheme.name), scheme, 4, 32, "any")
        save(tmp_path / "own.npz", array)
        assert_same(load(tmp_path / "own.npz"), array)
    x = generator("limits").standard_normal((6, 64)).astype(np.float32)
    limits = calibrate([x], "int8_channel", "percentile:99")
    save(tmp_path / "limits.npz", limits)
    got = load(tmp_path / "limits.npz")
    assert isinstance(got, Limits)
    np.testing.assert_array_equal(got.low, limits.low)
    np.testing.assert_array_equal(got.high, limits.high)


def test_refusals(tmp_path):
    array = quantize(np.ones((4, 32), np.float32), "int4_g32")
    packed = pack(array)
    message = r"elements of a packed int4_g32 must be uint8 of shape (4, 16), not uint8 (4, 15)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        unpack(replace(packed, elements=packed.elements[:, 1:]))
    message = r"scales of a packed int4_g32 must be uint8 of shape (4, 2), not uint8 (3, 2)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        unpack(replace(packed, scales=(packed.scales[0][1:],)))
    message = r"shape of a packed int4_g32 must be that of at least one value, not (0, 32)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        unpack(replace(packed, shape=(0, 32)))
    with pytest.raises(TypeError, match=r"^array must be a ScaledArray, not ndarray$"):
        pack(np.ones(4))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^packed must be a PackedArray, not ScaledArray$"):
        unpack(array)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^value must be a ScaledArray or Limits, not int$"):
        save(tmp_path / "x.npz", 1)  # type: ignore[arg-type]
    assert not (tmp_path / "x.npz").exists()
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    (tmp_path / "text.npz").write_text("no zip")
    for name in ("other", "text"):
        path = tmp_path / f"{name}.npz"
        with pytest.raises(
            ValueError, match=f"^{re.escape(str(path))} must hold a quantised array or limits: "
        ):
            load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")
    for name, reason in (
        (7, "name of a scheme must be text, not 7"),
        ("new", "it has no 'levels'"),
    ):
        header = {"kind": "array", "scheme": {"name": name, "elements": []}}
        np.savez(tmp_path / "forged.npz", header=np.array(json.dumps(header)))
        with pytest.raises(ValueError, match=f"must hold a quantised array or limits: {reason}$"):
            load(tmp_path / "forged.npz")
    assert isinstance(packed, PackedArray)


def test_files_of_nothing_and_of_unknown_elements(tmp_path):
    """Three elements take two bits, of which one pattern names none."""
    array = random_array(generator("three"), SCHEMES["mixed4"], 4, 64, "one")
    three = replace(array.scheme, name="three", elements=(*array.scheme.elements, INT4_FULL))
    selectors = np.array([[0, 1], [2, 0], [1, 3], [2, 2]], np.uint8)
    good, codes = np.minimum(selectors, 2), array.codes & 7  # which are codes of all three
    right = replace(array, scheme=three, codes=codes, selectors=good)
    assert_same(unpack(pack(right)), right)
    wrong = np.array([[0b0100], [0b0010], [0b1101], [0b1010]], np.uint8)  # the packed selectors
    message = "selectors of three must be from 0 to 2, not 3"
    for call in (
        lambda: replace(right, selectors=selectors),
        lambda: unpack(replace(pack(right), selectors=wrong)),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            call()
    with pytest.raises(ValueError, match=rf"three.npz must hold a quantised .*: {message}$"):
        load(changed(tmp_path / "three.npz", right, selectors=wrong))

    path = changed(tmp_path / "empty.npz", array, shape=[0, 64])
    with pytest.raises(ValueError, match=r"at least one value, not \(0, 64\)$"):
        load(path)


def changed(path, array, shape=None, **others):
    """A file of `array` with other parts."""
    save(path, array)
    with np.load(path) as file:
        parts = dict(file) | others
    header = json.loads(str(parts.pop("header")))
    header["shape"] = shape or header["shape"]
    np.savez(path, header=np.array(json.dumps(header)), **parts)
    return path


@pytest.mark.parametrize(
    ("name", "level", "stored", "message"),
    [
        ("int8_channel", 0, np.float32(0), "from 1.4013e-45 to 3.40282e+38, or NaN, not 0"),
        ("int8_channel", 0, np.float32(-1), "from 1.4013e-45 to 3.40282e+38, or NaN, not -1"),
        ("int4_g32", 0, np.float16(np.inf), "from 5.96046e-08 to 65504, or NaN, not inf"),
        ("nvfp4", 1, np.uint8(0x80), "from 0.00195312 to 448, or NaN, not -0"),
        ("nvfp4", 1, np.uint8(0xB8), "from 0.00195312 to 448, or NaN, not -1"),
        ("vsquant4_u4", 1, np.uint8(0), "from 1 to 15, not 0"),
        ("vsquant4_u4", 1, np.uint8(16), "from 1 to 15, not 16"),
        ("mx9", 1, np.uint8(2), "from 0 to 1, not 2"),
    ],
)
@pytest.mark.contract("S8", "S9", "S10", "S11", "S12", "S14")
def test_scales_that_no_scheme_has_are_refused(tmp_path, name, level, stored, message):
    array = random_array(generator("scales", name), SCHEMES[name], 4, 32, "one")
    assert array.scales[level].dtype == stored.dtype
    scales = [scale.copy() for scale in array.scales]
    scales[level].flat[-1] = stored
    message = f"scales[{level}] of {name} must be {message}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        replace(array, scales=tuple(scales))
    if message.endswith("not 16") or name == "mx9":
        return  # of more bits than a file has for it
    bits = scales[level].view(f"u{stored.itemsize}")
    if name == "vsquant4_u4":
        bits = bits[:, 0::2] | bits[:, 1::2] << 4
    path = changed(tmp_path / "array.npz", array, **{f"scales{level}": bits.view(np.uint8)})
    with pytest.raises(ValueError, match=f": {re.escape(message)}$"):
        load(path)


@pytest.mark.contract("S29")
def test_a_nan_scale_is_taken():
    array = random_array(generator("nan scale"), SCHEMES["nvfp4"], 4, 32, "one")
    outer, inner = (scale.copy() for scale in array.scales)
    outer[0, 0], inner[0, 0] = np.nan, 0xFF
    assert np.isnan(replace(array, scales=(outer, inner)).dequantize()).all()


def test_an_mx_array_is_a_scaled_array(tmp_path):
    x = generator("mx").standard_normal((3, 4, 64)).astype(np.float32)
    for axis, block_size in ((-1, 32), (1, 2)):
        mx = quantize_mx(x, "e2m1", block_size=block_size, axis=axis)
        save(tmp_path / "mx.npz", mx)
        for got in (unpack(pack(mx)), load(tmp_path / "mx.npz")):
            assert isinstance(got, ScaledArray)
            np.testing.assert_array_equal(got.codes, mx.codes)
            np.testing.assert_array_equal(got.scales[0], mx.scales)
            np.testing.assert_array_equal(got.dequantize(), mx.dequantize())
            assert (got.scheme, got.axis) == (mx.scheme, axis)
    assert replace(mx, block_size=1, scales=np.repeat(mx.scales, 2, 1)).scheme != mx.scheme


@pytest.mark.parametrize(
    ("more", "message"), [(0, "it begins like no zip file"), (1, "at most 687")]
)
def test_files_of_64_gib_are_the_largest(tmp_path, more, message):
    path = tmp_path / "holes.npz"
    path.touch()
    os.truncate(path, 2**36 + more)  # which takes no room
    with pytest.raises((OSError, ValueError), match=message):
        load(path)
    path.unlink()
