"""Verilog of every kind of unit is clean under lint, whatever its options."""

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import random_units
from compare import FULL
from mxdot.hw import generate
from mxdot.hw.verilog import default_top
from mxdot.model import accumulator
from mxdot.model.pipeline.delays import DELAYS
from mxdot.model.pipeline.widths import Widths
from mxdot.model.units import DotConfig, DotQuantizeConfig, MatmulConfig, QuantizeConfig, UnitConfig
from verilog_text import KINDS, QUICK, WAIVERS, check_lint, check_names, generated, warnings

CHAPTER = (Path(__file__).parents[2] / "docs" / "dot-unit.md").read_text(encoding="utf-8")
MOST_LANES = 16 if FULL else 4
MOST_REGISTER = 32
"""Bits of a `fixed` register."""
MOST_SUM = 2**12 if FULL else 100
"""Bits of a sum of products."""
COUNT = 3000 if FULL else 400
"""Units drawn, to choose from."""
STAGES = ("stages", "quantizer_stages")

NAMED = [
    *KINDS.values(),
    DotConfig("e5m2,e2m1", 4, "fixed:16:-150:wrap", 1, load_c=False),
    DotConfig("e3m2xe2m3", 4, "fused:30", 1, "float16"),
    DotConfig("e2m1xe2m3", 4, "float32", status=False, load_c=False),
    DotConfig("e4m3fnuz", 8, "cdna3-fp8", scale_block=4, status=False),
    DotConfig("int8xint4", 8, "int32", out="uint8:multiply", scales="u4", zero_points="ab"),
    # Slots have every number that their bits can say, or not.
    *[DotConfig("e2m1", 4, "exact", interleave=slots) for slots in (2, 3, 4)],
    *[DotConfig("e4m3", 8, "exact", interleave=slots) for slots in (2, 4, 5, 8, 16) if FULL],
    MatmulConfig(DotConfig("e2m1", 4, "fused:13", interleave=4), 1, 2, 4, initial_c=True),
    # Products that micro-exponents move less far than their digits reach.
    DotConfig("int8", 4, "aligned:13", micro=True),
    DotConfig("int4", 8, "aligned:13", micro=True),
    *[DotConfig("int5", 16, "aligned:13", micro=True)] * FULL,
    # Streams narrower and wider than what they carry, and no initial values.
    MatmulConfig(QUICK, 2, 3, 4, b_bytes=7, initial_c=True),
    MatmulConfig(DotConfig("e3m2", 4, "exact", 1, status=False), 2, 1, 4, 1, 1, 1),
    MatmulConfig(
        DotConfig("e2m1,e5m2xe4m3", 4, "hopper", out="float16"), 1, 1, 8, 3, 40, 5, 64, True
    ),
    # Blocks that end inside a byte.
    MatmulConfig(DotConfig("int5xint3", 4, "fixed:24:-6"), 1, 2, 4, 3, 2, keep_b=True),
    DotQuantizeConfig(
        DotConfig("e5m2xe4m3", 4, "hopper", 2, out="bfloat16"), "e2m1", 8, "even", "stochastic"
    ),
    QuantizeConfig("e2m1", 16, scales="e4m3"),
    QuantizeConfig("sm8,int3", 8, micro=True, beats=2),
    QuantizeConfig("e3m2,e2m3,sm6", 4, "bfloat16", nonfinite="element", select=8, stages=6),
    QuantizeConfig("e5m2", 4, "float16", "ceil", "stochastic", random="lfsr", stages=6),
    QuantizeConfig("e4m3,e5m2,e3m2,e2m3,e2m1,int8,int4", 4, "float32", "even,ceil", stages=1),
    QuantizeConfig("int8", 8, "float16", "even", "toward_zero", "element", beats=8),
]


def other_registers(rng: random.Random, dot: DotConfig) -> DotConfig:
    """The dot unit with other registers, and with products in flight if it may have them."""
    turns = rng.choice([1, 2, 4, rng.randint(2, 16)])
    arguments = dot.arguments | {"delays": rng.choice([*DELAYS]), "interleave": turns}
    low, high = DotConfig(**{**arguments, "stages": None}).stage_limits
    arguments["stages"] = rng.choice([low, high, rng.randint(low, high)])
    return DotConfig(**arguments)


def drawn(number: int) -> UnitConfig:
    """A random unit of one of the kinds, with any registers."""
    rng = random.Random(f"lint {number}")
    kinds = (random_units.dot, random_units.matmul, random_units.integer)
    make = rng.choice([*kinds, random_units.quantizer, random_units.dot_quantizer])
    config = make(rng)
    if isinstance(config, DotConfig):
        return other_registers(rng, config)
    if isinstance(config, MatmulConfig):
        return replace(config, dot=other_registers(rng, config.dot))
    return config


def small(config: Any) -> bool:
    """True if the unit's Verilog is generated quickly."""
    if isinstance(config, QuantizeConfig):
        return config.block <= MOST_LANES
    if isinstance(config, DotQuantizeConfig) and not small(config.quantizer):
        return False
    if isinstance(config, MatmulConfig) and not FULL:
        return False
    dot = config if isinstance(config, DotConfig) else config.dot
    register = dot.accumulator.register
    if register is not None and register.width > MOST_REGISTER:
        return False
    return dot.lanes <= MOST_LANES and Widths(dot).total_bits <= MOST_SUM


def options(config: UnitConfig) -> set[tuple[str, object]]:
    """Options that decide a unit's Verilog; lists by their items, accumulators by their class."""
    arguments = config.arguments
    choices: set[tuple[str, object]] = {("kind", config.kind)}
    if "dot" in arguments:
        choices |= options(DotConfig(**arguments.pop("dot")))
    for name, value in arguments.items():
        if name == "accumulator":
            choices.add((name, type(accumulator(value))))
        elif name in ("formats", "format", "scale_rule"):
            choices |= {(name, item) for item in re.split("[x,]", value)}
            choices.add((f"several {name}", "," in value))
        elif name == "interleave":
            choices.add((name, "a power of two" if value & value - 1 == 0 else "another number"))
            choices.add(("turns", value > 1))
        elif name not in ("a_bytes", "b_bytes", "c_bytes", "d_bytes", "seed", *STAGES):
            choices.add((name, value))
    return choices


def covering(units: Iterable[UnitConfig], together: int) -> list[UnitConfig]:
    """Units that cover every choice of `together` options; the first add the most."""
    left = {unit: {*combinations(sorted(options(unit), key=str), together)} for unit in units}
    chosen: list[UnitConfig] = []
    while left:
        best = max(left, key=lambda unit: len(left[unit]))
        new = left.pop(best)
        if not new:
            break
        chosen.append(best)
        left = {unit: missing - new for unit, missing in left.items()}
    return chosen


DRAWN = covering(filter(small, map(drawn, range(COUNT))), 1 + FULL)


@pytest.mark.parametrize("config", [*NAMED, *DRAWN], ids=str)
def test_clean_under_lint(config, tmp_path):
    text = generated(config)
    check_names(text)
    check_lint(text, default_top(config), tmp_path)


def test_a_bit_without_a_reader_is_waived(tmp_path):
    config, unit = QuantizeConfig("e4m3,int8", 8, "bfloat16", select=4), tmp_path / "unit.v"
    unit.write_text(generated(config))
    assert warnings(unit, default_top(config), WAIVERS) == []


def test_every_waiver_has_a_reason():
    lines = WAIVERS.read_text().splitlines()
    rules = [index for index, line in enumerate(lines) if line.startswith("lint_off")]
    assert rules
    for index in rules:
        assert lines[index - 1].startswith("// "), lines[index]


def lint_as_documented(text: str, directory: Path) -> str:
    """Output of the commands of docs/dot-unit.md for a unit's Verilog, under `directory`."""
    block = re.search(r"```sh\n([^`]*--lint-only[^`]*)```", CHAPTER)
    assert block is not None
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    (directory / "build").mkdir(exist_ok=True)
    (directory / "build" / "dot.v").write_text(text)
    done = subprocess.run(
        block[1], shell=True, cwd=directory, text=True, check=False,
        env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert bool(done.returncode) == ("%Warning" in done.stdout), done.stdout
    return done.stdout


def test_the_documented_command(tmp_path):
    text = generate(QUICK)
    assert "%" not in lint_as_documented(text, tmp_path)
    wrong = text.replace("\nendmodule\n", "\n  wire never = clk > 1'b1;\nendmodule\n", 1)
    assert "%Warning-CMPCONST" in lint_as_documented(wrong, tmp_path)
