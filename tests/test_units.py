"""The kinds of units: each described once, and known to every room."""

import json

import pytest

from mxdot.cli.options import OPTIONS, options_of
from mxdot.hw.verilog import TOPS
from mxdot.model.units import KINDS
from mxdot.sim.engine.matrix import default_matrix
from mxdot.sim.kinds import KINDS as BENCHES
from verilog_text import KINDS as EXAMPLES

EXAMPLE_OF = {type(config).kind: config for config in EXAMPLES.values()}


def test_every_room_knows_every_kind():
    kinds = set(KINDS.values())
    assert set(TOPS) == set(BENCHES) == kinds
    assert {type(unit.config) for unit in default_matrix()} == kinds
    assert set(EXAMPLE_OF) == set(KINDS)


def test_what_can_be_chosen_has_one_option():
    used = [option for kind in KINDS.values() for option in options_of(kind)]
    assert set(used) == set(OPTIONS)
    assert len({option.flag for option in OPTIONS}) == len(OPTIONS)
    assert len({option.keyword for option in OPTIONS}) == len(OPTIONS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_is_its_arguments(kind):
    config = EXAMPLE_OF[kind]
    plain = json.loads(json.dumps(config.arguments))
    again = KINDS[kind].of(**plain)
    assert again == config
    assert again.name == config.name
    assert again.timing == f"latency {config.latency}, interval {config.interval}"


@pytest.mark.parametrize("kind", KINDS)
def test_keywords_make_what_arguments_make(kind):
    """Arguments with those of dot units among the others, without what the unit itself decides."""
    config = EXAMPLE_OF[kind]
    flat = dict(config.arguments)
    flat = {**flat.pop("dot", {}), **flat}
    chosen = {name: flat[name] for name in KINDS[kind].keywords()}
    assert KINDS[kind].of_keywords(**chosen) == config
