"""The format and the accumulator that docs/architecture.md adds, through model, RTL and bench."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from doc_examples import PAGES, files

PAGE = "architecture.md"
LIB = Path(__file__).parents[1] / "lib"

AGAINST_ORACLE = """
import nearest_oracle
import numpy as np
from mxdot.model import dot, quantize
from rational import dot as oracle

rng = np.random.default_rng(1)
rules = ("e4m3", "nearest:6"), ("e5m2", "nearest:3"), ("int8", "nearest:4"), ("fp16", "nearest:11")
for fmt, rule in rules:
    operands = rng.standard_normal((2, 300, 64), dtype=np.float32)
    a, b = (quantize(x, fmt, block_size=16) for x in operands)
    c = rng.standard_normal(300, dtype=np.float32)
    bits = dot(a, b, rule, c).view(np.uint32)
    plain = dot(a, b, rule.replace("nearest", "aligned"), c).view(np.uint32)
    assert (bits != plain).any()
    for i in range(len(bits)):
        codes = [x.codes[i].reshape(-1, 16).tolist() for x in (a, b)]
        scales = [x.scales[i].tolist() for x in (a, b)]
        blocks = list(zip(*codes, *scales, strict=True))
        want = oracle.dot(fmt, fmt, blocks, rule, int(c.view(np.uint32)[i]))
        assert bits[i] == want.bits, (fmt, i)
"""


@pytest.fixture
def folder(tmp_path):
    """The page's files."""
    for name, text in files(PAGE).items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder, *command, **variables):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    places = os.pathsep.join([str(folder), str(LIB)])
    env = {**os.environ, "PATH": path, "PYTHONPATH": places, **variables}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_model_is_the_oracle(folder):
    done = run(folder, sys.executable, "-c", AGAINST_ORACLE, MXDOT_PLUGINS="nearest")
    assert done.returncode == 0, done.stderr


def test_the_rtl_is_the_model(folder):
    (commands,) = re.findall(r"```sh\n([^`]*mxdot sim dot[^`]*)```", PAGES[PAGE])
    done = run(folder, "bash", "-ec", commands)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 mismatches" in done.stdout + done.stderr


def test_a_module_that_is_not_there_is_named(folder):
    done = run(folder, "mxdot", "verilog", "--accumulator", "nearest:6", MXDOT_PLUGINS="nix")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "mxdot: error: MXDOT_PLUGINS must name modules on PYTHONPATH, not 'nix'"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("(", "SyntaxError: '(' was never closed (broken.py, line 1)"),
        ("import nix", "ModuleNotFoundError: No module named 'nix'"),
        ("from os import nix", "ImportError: cannot import name 'nix' from 'os' "),
    ],
)
def test_a_module_that_fails_is_named_in_one_line(folder, text, error):
    (folder / "broken.py").write_text(text)
    done = run(folder, "mxdot", "verilog", "--accumulator", "nearest:6", MXDOT_PLUGINS="broken")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    named = f"mxdot: error: MXDOT_PLUGINS names 'broken', which raises {error}"
    assert done.stderr.startswith(named)


def test_without_rtl_it_is_refused_by_name(folder):
    done = run(folder, "mxdot", "verilog", "--accumulator", "nearest:6", MXDOT_PLUGINS="nearest")
    assert "accumulator nearest:6 must have its class Nearest in FAMILIES" in done.stderr
    assert done.returncode != 0


def test_results_with_other_plugins_have_other_keys(folder):
    command = sys.executable, "-c", "from mxdot.util.keys import fingerprint as f; print(f(()))"
    plain = run(folder, *command).stdout
    first = run(folder, *command, MXDOT_PLUGINS="nearest_hw").stdout
    (folder / "nearest.py").write_text("# another rule\n")
    second = run(folder, *command, MXDOT_PLUGINS="nearest_hw").stdout
    assert len({plain, first, second, ""}) == 4
