"""Liberty files from strangers: a library of finite numbers, or SynthesisError in one line."""

import gzip
import math
import os

import pytest
from hypothesis import given

from fuzz import damaged, fuzz, misspelt, outcome, refusal
from liberty_texts import LIBRARY as TIMED
from liberty_texts import SMALL
from mxdot.synth import Flow, SynthesisError, gates
from mxdot.synth.flow import library_of
from mxdot.synth.liberty import Library, parse
from mxdot.synth.liberty_syntax import Function

GATES = gates.liberty_text()
FUNCTIONS = ("!(A B)", "(A' + B')", "A ^ B & !C | 1", "D[0] * (E + F)'")


def read(text: str) -> Library:
    """Parses a library and reads every part that is read on demand."""
    library = parse(text, "odd.lib")
    for cell in library.cells.values():
        _ = cell.is_nand2, cell.levels, cell.is_flipflop
        outcome(lambda cell=cell: cell.timing, errors=SynthesisError)
    _ = library.latch
    outcome(lambda: library.nand2, errors=SynthesisError)
    return library


@fuzz(60)
@given(misspelt((SMALL, TIMED, GATES[:3000] + "}")))
def test_texts(text):
    library = outcome(read, text, errors=SynthesisError)
    if library is not None:
        cells = library.cells.values()
        numbers = [value for cell in cells for value in (cell.area, *cell.inputs.values())]
        assert all(map(math.isfinite, [library.time_ps, library.capacitance_ff, *numbers]))
        assert min(cell.area for cell in cells) >= 0
        assert library.time_ps > 0
        assert library.capacitance_ff > 0


@fuzz(30)
@given(damaged([SMALL.encode(), TIMED.encode()]))
def test_files(tmp_path, data):
    path = tmp_path / "odd.lib"
    path.write_bytes(data)
    outcome(library_of, Flow("cells", liberty=(path,)), errors=SynthesisError)
    packed = tmp_path / "odd.lib.gz"
    packed.write_bytes(data)  # which it is not
    outcome(library_of, Flow("cells", liberty=(packed,)), errors=SynthesisError)
    assert {each.name for each in tmp_path.iterdir()} == {path.name, packed.name}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["pipe.lib", "pipe.lib.gz"])
def test_what_is_no_file(tmp_path, name):
    os.mkfifo(tmp_path / name)
    flow = Flow("cells", liberty=(tmp_path / name,))
    with pytest.raises(SynthesisError, match="must be a regular file, not a pipe") as error:
        library_of(flow)
    refusal(error.value)


def test_a_library_that_unpacks_to_far_more(tmp_path, monkeypatch):
    monkeypatch.setattr("mxdot.synth.flow.LARGEST", 2**20)
    path = tmp_path / "bomb.lib.gz"
    path.write_bytes(gzip.compress(bytes(2**24)))
    with pytest.raises(SynthesisError, match=r"bomb.lib.gz must have at most 1048576 bytes"):
        library_of(Flow("cells", liberty=(path,)))


@fuzz(200)
@given(misspelt(FUNCTIONS))
def test_functions(text):
    function = outcome(Function.parse, text, errors=ValueError)
    if function is not None:
        for value in (0, 1):
            assert function.evaluate(dict.fromkeys(function.names, value), 1) in (0, 1)
