"""Files keep all that a format is."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from mxdot.model.formats import E4M3, E8M0, INT8, FloatFormat, IntegerFormat, PowerFormat
from mxdot.model.schemes import SCHEMES, ScaledArray, load, quantize, save
from mxdot.model.schemes.files import described, restored
from stored_formats import E3M3, NARROW, OTHER_E4M3, own_scheme


def test_own_formats_have_their_values(tmp_path):
    x = np.linspace(-4, 4, 64, dtype=np.float32).reshape(1, 64)
    array = quantize(x, own_scheme())
    save(tmp_path / "own.npz", array)
    got = load(tmp_path / "own.npz")
    assert isinstance(got, ScaledArray)
    assert got.scheme == array.scheme
    np.testing.assert_array_equal(got.dequantize(), array.dequantize())


@pytest.mark.parametrize(
    ("element", "scale", "taken"), [(E4M3, NARROW, E8M0), (OTHER_E4M3, E8M0, E4M3)]
)
def test_a_name_with_other_contents_is_refused(tmp_path, element, scale, taken):
    array = quantize(np.ones((1, 32), np.float32), own_scheme(element, scale))
    mine = scale if taken is E8M0 else element
    message = f"format of the name {taken.name} must be {taken!r}, not {mine!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        save(tmp_path / "own.npz", array)
    assert not list(tmp_path.iterdir())
    forged = described(replace(mine, name="forged")) | {"name": taken.name}
    with pytest.raises(ValueError, match=f"^format of the name {taken.name} must be "):
        restored(forged)


@pytest.mark.parametrize(
    "fmt",
    [
        E3M3,
        E4M3,
        E8M0,
        INT8,
        *SCHEMES["vsquant4_u4"].elements,
        SCHEMES["vsquant4_u4"].levels[1].format,
    ],
)
def test_json_and_back(fmt):
    assert restored(json.loads(json.dumps(described(fmt)))) == fmt


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (3, "format must be a description, not 3"),
        (
            {"kind": "fixed"},
            "kind of format must be one of float, integer, unsigned, power, table, not",
        ),
        ({"kind": "float", "name": 3}, "name of format must be text, not 3"),
        (
            {**described(E3M3), "specials": "SOME"},
            "specials must be one of NONE, NAN_ONLY, IEEE, FNUZ, not 'SOME'",
        ),
        ({**described(E3M3), "native": True}, "native of e3m3 must be False: there is no float"),
        ({**described(E3M3), "more": 1}, "unexpected keyword argument 'more'"),
    ],
)
def test_descriptions_that_are_none(text, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        restored(text)


def test_a_class_with_values_of_its_own_is_refused():
    class Mine(FloatFormat):
        pass

    known = "FloatFormat, IntegerFormat, UnsignedFormat, PowerFormat, TableFormat"
    with pytest.raises(ValueError, match=f"^format e3m3 must be one of {known}, not Mine$"):
        described(Mine("e3m3", 3, 3))


def test_integers_may_share_a_name(tmp_path):
    """MX and a caller's scheme each have a format `int8`."""
    plain = IntegerFormat("int8", 8, -127, 127)
    scheme = own_scheme(plain)
    array = quantize(np.ones((1, 32), np.float32), scheme)
    save(tmp_path / "own.npz", array)
    got = load(tmp_path / "own.npz")
    assert isinstance(got, ScaledArray)
    assert got.scheme == scheme


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 9}, "bits of own must be from 1 to 8, not 9"),
        ({"emin": -2000}, "emin of own must be from -1022 to 1023, not -2000"),
        ({"emax": -121}, "emax of own must be from -120 to 1023, not -121"),
        ({"sign": 0}, "sign of own must be 1 or -1, not 0"),
        ({"bias": 119}, "codes of own must be from 0 to 255, not from -1 to 239"),
        ({"nan_code": 256}, "nan_code of own must be from 0 to 255, not 256"),
    ],
)
def test_powers_that_no_code_has(change, message):
    fields = {"name": "own", "bits": 8, "emin": -120, "emax": 120, "bias": 120, "nan_code": 255}
    with pytest.raises(ValueError, match=f"^{message}$"):
        PowerFormat(**fields | change)
