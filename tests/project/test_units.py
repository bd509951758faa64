"""The kinds of units: each described once, and known to every room."""

import json
import re
from pathlib import Path

import pytest

from mxdot.hw.verilog import TOPS
from mxdot.model.units import KINDS
from mxdot.sim.engine.regression_units import default_matrix
from mxdot.sim.kinds import KINDS as BENCHES
from verilog_text import KINDS as EXAMPLES

ROOT = Path(__file__).parents[2]
EXAMPLE_OF = {type(config).kind: config for config in EXAMPLES.values()}


def test_every_room_knows_every_kind():
    kinds = set(KINDS.values())
    assert set(TOPS) == set(BENCHES) == kinds
    assert {type(unit.config) for unit in default_matrix()} == kinds
    assert set(EXAMPLE_OF) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS.values())
def test_options_of_a_kind_have_names_of_their_own(kind):
    options = kind.options()
    assert [option.keyword for option in options.values()] == list(options)
    assert len({option.flag for option in options.values()}) == len(options)
    assert all(option.help for option in options.values())
    assert all(option.default_text or option.default in (None, True, False)
               for option in options.values())  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_is_its_arguments(kind):
    config = EXAMPLE_OF[kind]
    plain = json.loads(json.dumps(config.arguments))
    again = KINDS[kind].of(**plain)
    assert again == config
    assert again.name == config.name
    assert again.timing == f"latency {config.latency}, interval {config.interval}"


@pytest.mark.parametrize("kind", KINDS)
def test_options_make_what_arguments_make(kind):
    """Arguments with those of dot units among the others, without what the unit itself decides."""
    config = EXAMPLE_OF[kind]
    flat = dict(config.arguments)
    flat = {**flat.pop("dot", {}), **flat}
    chosen = {name: flat[name] for name in KINDS[kind].options()}
    assert KINDS[kind].of_options(**chosen) == config


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_has_the_files_that_every_kind_has(kind):
    folder = ROOT / "sim" / kind.replace("-", "_")
    wanted = {"item.py", "stimulus.py", "features.py", "unit.py"}
    if kind != "dot-quantize":
        wanted |= {"bench.sv"}
    if BENCHES[KINDS[kind]].subject:
        wanted |= {"subject.py", "failures.py"}
    assert wanted <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("room", ["bench", "engine"])
def test_what_all_kinds_share_imports_none(room):
    """But for the list of units, engine/regression_units.py."""
    kinds = "|".join(kind.replace("-", "_") for kind in KINDS)
    files = [
        path for path in (ROOT / "sim" / room).glob("*.py") if path.name != "regression_units.py"
    ]
    assert files
    for path in files:
        assert not re.search(rf"^ *(from|import) .*sim\.({kinds})\b", path.read_text(), re.M), path
        assert not re.search(rf"^ *from \.\.({kinds})\b", path.read_text(), re.M), path
