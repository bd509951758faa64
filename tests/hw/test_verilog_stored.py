"""Digests of the Verilog and the assertions of small units and circuits.

After an intended change, `python tests/hw/test_verilog_stored.py` stores new ones.
"""

import ast
import hashlib
import json
from pathlib import Path

import pytest

from mxdot import hw
from mxdot.hw.verilog import generate
from mxdot.hw.verilog.assertions import assertions
from mxdot.model import DotConfig, DotQuantizeConfig, MatmulConfig, QuantizeConfig
from small_circuits import DESIGNS
from verilog_bench import Around

STORED = Path(__file__).with_name("verilog.json")
LEAST = DotConfig("e2m1", 4, "exact", 1, status=False, load_c=False)
UNITS = {
    "least": LEAST,
    "aligned": DotConfig("e4m3", 4, "aligned:13", 3),
    "formats": DotConfig("e2m1,e2m3xe3m2", 4, "fused:3", 4, out="bfloat16"),
    "two products": DotConfig("e2m1", 4, "fused:3", 2, interleave=2),
    "three products": DotConfig("e2m1", 4, "fixed:12:-3", 3, interleave=3),
    "promoted": DotConfig("e4m3", 8, "hopper-promoted", 5, interleave=3),
    "a loop": DotConfig("e2m1", 4, "fused:3", 3),
    "integers": DotConfig("int8", 4, "int32", 2, out="int8_full:shift"),
    "idle": DotConfig("int4", 4, "int32", 2, out="int32", gate_idle=True),
    "fpga": DotConfig("int8", 4, "fixed:40:-12", 3, target="fpga"),
    "micro": DotConfig("int4", 4, "aligned:13", 3, micro=True),
    "quantizer": QuantizeConfig("e2m1", 4, "bfloat16", stages=3),
    "rules and formats": QuantizeConfig("e4m3,e2m1", 4, scale_rule="floor,even", stages=4),
    "beats": QuantizeConfig("e2m1", 4, "bfloat16", beats=2, stages=3),
    "four beats": QuantizeConfig("e4m3", 16, "bfloat16", "even", "stochastic", "element", beats=4),
    "shift registers": QuantizeConfig("e2m1", 4, rounding="stochastic", random="lfsr"),
    "chosen": QuantizeConfig("e2m1,int4", 4, "bfloat16", select=4),
    "divided": QuantizeConfig("e2m1", 4, "bfloat16", scales="e4m3"),
    "dot product and quantizer": DotQuantizeConfig(LEAST, "e2m1", 4),
    "matrix unit": MatmulConfig(LEAST, 1, 1, depth=4),
    "wide matrix unit": MatmulConfig(
        DotConfig("e2m1", 4, "fused:3", 2, interleave=2), 2, 1, depth=4, keep_b=True, initial_c=True
    ),
}
WITHOUT_COUNTERS = "matrix unit without counters"
NAMES = [*UNITS, *DESIGNS, WITHOUT_COUNTERS]


def digest(name: str) -> str:
    """Digest of the Verilog of a unit, with assertions, or of a circuit."""
    if name in DESIGNS:
        text = Around(DESIGNS[name]()).verilog("top")
    elif name == WITHOUT_COUNTERS:
        text = assertions(UNITS["matrix unit"], "unit", counters=False)
    else:
        text = generate(UNITS[name], "unit") + assertions(UNITS[name], "unit")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", NAMES)
def test_verilog_is_what_is_stored(name):
    assert digest(name) == json.loads(STORED.read_text())[name]


def test_nothing_else_is_stored():
    assert set(json.loads(STORED.read_text())) == set(NAMES)


def signals_without_a_name(text: str) -> list[int]:
    """Lines that assign several values at once, the last of them a signal without `name=`."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and isinstance(call := node.value.elts[-1], ast.Call)
        and ast.unparse(call.func) in ("Signal", "Signal.like")
        and not any(word.arg == "name" for word in call.keywords)
    ]


def test_python_does_not_decide_about_names():
    """Amaranth takes the last of several signals' names from bytecode, but not on Python 3.13."""
    assert signals_without_a_name("a = Signal()\nb, c = Signal(), Signal.like(a)\n") == [2]
    root = Path(hw.__file__).parent
    found = {str(path): signals_without_a_name(path.read_text()) for path in root.rglob("*.py")}
    assert len(found) > 50
    assert not any(found.values()), found


if __name__ == "__main__":
    digests = {name: digest(name) for name in NAMES}
    STORED.write_text(json.dumps(digests, indent=1) + "\n")
