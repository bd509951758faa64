"""AMD's machines at the ends of their rules (docs/numerics.md): results and flags of the RTL, in
literal numbers.
"""

import numpy as np
import pytest

from amd_facts import FACTS, cases_of
from compare import generator
from mxdot.model import MACHINES, DotConfig, format_pairs
from mxdot.model.trace import FLAG_NAMES
from unit_bench import drive, evaluate, join, products

UNITS = {text: (name, facts) for text, (name, facts) in FACTS.items() if MACHINES[name].has_unit}


@pytest.mark.parametrize(("name", "facts"), UNITS.values(), ids=UNITS)
def test_the_ends_of_rules(name, facts):
    machine = MACHINES[name]
    config = DotConfig(machine.operands[-1], accumulator=machine, **machine.own_unit)
    work = join(config, products(config, cases_of(name, facts, config.lanes)))
    run = evaluate(config, drive(work, generator("facts", name)))
    run.check()
    values = run.got["result"].astype(np.uint32).view(np.float32).tolist()
    for i, (a, b, c, want, flags) in enumerate(facts):
        np.testing.assert_equal(values[i], want, err_msg=f"{name}: {a} x {b} + {c}")
        raised = {flag for flag in FLAG_NAMES if run.got[flag][i]}
        assert raised == flags | ({"invalid"} if np.isnan(want) else set()), (a, b, c)


def test_a_machine_without_a_unit_says_so():
    message = "accumulator amx-bf16 has no RTL: the model, the GPU path and exports have it"
    with pytest.raises(ValueError, match=message):
        DotConfig("bf16", accumulator="amx-bf16")


@pytest.mark.parametrize("name", [name for name, row in MACHINES.items() if row.has_unit])
def test_every_machine_has_a_unit_of_its_own_step(name):
    machine = MACHINES[name]
    for text in machine.operands:
        config = DotConfig(text, accumulator=machine, **machine.own_unit)
        assert config.formats == format_pairs(text)
        assert config.latency >= 1
