"""The format and the accumulator that docs/architecture.md adds, through model, RTL and bench."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from doc_examples import PAGES, blocks, files

PAGE = "architecture.md"
LIB = Path(__file__).parents[1] / "lib"


@pytest.fixture
def folder(tmp_path):
    """The page's files, in a clone."""
    (tmp_path / "tests").symlink_to(LIB.parent)
    for name, text in files(PAGE).items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder, *command, **variables):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    places = [str(folder), str(LIB), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(places), **variables}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def shown(command):
    """The page's block with this command, and what it prints."""
    (block,) = [b for b in blocks(PAGES[PAGE]) if b.language == "sh" and command in b.code]
    return block


@pytest.mark.parametrize(
    ("right", "wrong", "where"),
    [("round(x)", "int(x)", "nearest:0 e4m3"), ("toward_zero", "nearest_even", "nearest:24 e4m3")],
)
def test_another_oracle_is_noticed(folder, right, wrong, where):
    """tests/project/test_docs.py compares the model with the page's own."""
    path = folder / "nearest_oracle.py"
    path.write_text(path.read_text().replace(right, wrong))
    code = shown("against_oracle.py").code
    done = run(folder, "bash", "-ec", code, PYTEST_CURRENT_TEST="")
    assert done.returncode == 1, done.stderr
    assert re.search(rf"^{where}: \d+ of 300 dot products differ; the smallest", done.stdout, re.M)
    command = "MXDOT_SEED=1 python tests/lib/against_oracle.py nearest:0 nearest:24"
    assert f"repeat      MXDOT_PLUGINS=nearest,nearest_oracle {command}" in done.stdout


def test_an_accumulator_without_an_oracle_is_refused_in_one_line(folder):
    command = sys.executable, "tests/lib/against_oracle.py", "nearest:6"
    done = run(folder, *command, MXDOT_PLUGINS="nearest")
    assert done.returncode == 2
    assert "error: nearest:6 must have its oracle in rational.dot.ADDED, which" in done.stderr


def test_formats_of_plugins_are_compared(folder):
    command = sys.executable, "tests/lib/against_oracle.py", "aligned:6"
    done = run(folder, *command, MXDOT_PLUGINS="e3m4")
    assert "aligned:6 e3m4: 300 dot products, equal" in done.stdout, done.stderr


def test_the_rtl_is_the_model(folder):
    done = run(folder, "bash", "-ec", shown("mxdot sim dot").code)
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
    assert "broken.py, line 1)" in done.stderr


def test_a_rule_that_raises_is_named_by_its_line(folder):
    text = (folder / "nearest.py").read_text()
    (folder / "raises.py").write_text(text.replace(".round(terms)", ".rund(terms)"))
    operands = ["mxdot", "compute", "--format", "e4m3", "a.npy", "a.npy"]
    np.save(folder / "a.npy", np.ones((1, 32), np.float32))
    done = run(folder, *operands, "--accumulator", "nearest:6", MXDOT_PLUGINS="raises")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "raises.py, line 16: AttributeError: module 'numpy' has no" in done.stderr


def test_without_rtl_it_is_refused_by_name(folder):
    done = run(folder, "mxdot", "verilog", "--accumulator", "nearest:6", MXDOT_PLUGINS="nearest")
    assert "accumulator nearest:6 must have its class Nearest in FAMILIES" in done.stderr
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("name", "right", "wrong", "options", "error"),
    [
        (
            "nearest_hw",
            '"align":',
            '"aligne":',
            (),
            "has 'aligne' for nearest:6, no section of it; nearest: align",
        ),
        (
            "nearest",
            "cuts=()",
            "bits=0",
            ("--stages", "20", "--interleave", "15"),
            "section align of nearest:6 is cut into parts, and its ",
        ),
    ],
)
def test_hardware_that_does_not_fit_is_named(folder, name, right, wrong, options, error):
    path = folder / f"{name}.py"
    path.write_text(path.read_text().replace(right, wrong))
    command = "mxdot", "verilog", "--accumulator", "nearest:6", "-o", "x.v", *options
    done = run(folder, *command, MXDOT_PLUGINS="nearest_hw")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert error in done.stderr


def test_results_with_other_plugins_have_other_keys(folder):
    command = sys.executable, "-c", "from mxdot.util.keys import fingerprint as f; print(f(()))"
    plain = run(folder, *command).stdout
    first = run(folder, *command, MXDOT_PLUGINS="nearest_hw").stdout
    (folder / "nearest.py").write_text("# another rule\n")
    second = run(folder, *command, MXDOT_PLUGINS="nearest_hw").stdout
    assert len({plain, first, second, ""}) == 4
