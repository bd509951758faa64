"""Texts of the command line: what they name, whose own text names it again, or one clear line."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz import WORDS, fuzz, misspelt, outcome
from mxdot.cli import main
from mxdot.model import MACHINES, PRESETS, DotConfig, accumulator, format_pairs
from mxdot.model.formats import FORMATS, scale_format
from mxdot.model.formats.table import SCALE_FORMATS, pairs_text
from mxdot.model.outputs import INTEGER_OUTPUTS, OUTPUTS, output_format
from mxdot.model.schemes import SCHEMES, scheme

RULES = ("aligned:13:bfloat16", "fused:25", "fixed:48:-20:wrap", "exact", *PRESETS, *MACHINES)
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(),
    st.lists(st.text(), max_size=3),
)
PARSERS = {
    "accumulator": (accumulator, str, RULES),
    "formats": (format_pairs, pairs_text, ("e5m2xe4m3,int8", *FORMATS)),
    "output": (output_format, lambda out: out.name, (*OUTPUTS, *INTEGER_OUTPUTS)),
    "scheme": (scheme, lambda found: found.name, ("mxfp8_e4m3:ceil:b16", *SCHEMES)),
    "scales": (scale_format, lambda fmt: fmt.name, ("u7", *SCALE_FORMATS)),
}


@pytest.mark.parametrize("name", PARSERS)
@fuzz(200)
@given(st.data())
def test_texts(name, data):
    parse, text_of, valid = PARSERS[name]
    found = outcome(parse, data.draw(misspelt(valid)))
    assert found is None or parse(text_of(found)) == found


@pytest.mark.parametrize("name", PARSERS)
@fuzz(50)
@given(value=ANYTHING)
@example(value=[[]])
@example(value={})
def test_what_is_no_text(name, value):
    outcome(PARSERS[name][0], value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("accumulator", "aligned:" + "9" * 5000, "accumulator must be one of|result of aligned"),
        ("scheme", "mxfp4:b" + "9" * 5000, "what follows a scheme must be"),
        ("output", "int8_full:multiply:" + "9" * 5000, "out must be one of"),
        ("output", "int8_full:multiply:٣", "out must be one of"),
    ],
)
def test_numbers_of_thousands_of_digits(name, text, message):
    with pytest.raises(ValueError, match=message):
        PARSERS[name][0](text)


OPTIONS = ("--format", "--accumulator", "--lanes", "--stages", "--result", "--scales")


@fuzz(40)
@given(st.sampled_from(OPTIONS), st.sampled_from(WORDS) | misspelt(("e4m3", "aligned:13", "32")))
def test_units(option, text):
    """Every field of a unit's description is checked before any work."""
    name = {"--format": "formats", "--result": "out"}.get(option) or option[2:]
    values: dict[str, Any] = {name: text}
    found = outcome(lambda: DotConfig(**values))
    assert found is None or DotConfig(**found.arguments) == found


@fuzz(20)
@given(st.sampled_from(OPTIONS), st.sampled_from(WORDS))
def test_command_line(tmp_path, capsys, option, text):
    """One line and exit status 2, or a unit in the file that was asked for and nowhere else."""
    path = tmp_path / "unit.v"
    try:
        status = main(["verilog", "--lanes", "4", f"{option}={text}", "--out", str(path)])
    except SystemExit as stop:
        status = stop.code
    lines = capsys.readouterr().err.splitlines()
    assert status == 0 or (status == 2 and lines[-1].startswith("mxdot"))
    assert {each.name for each in tmp_path.iterdir()} <= {path.name}
