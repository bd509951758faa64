"""Commands that need data work from an installed wheel, away from the repository."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from wheel import ROOT, build_wheel


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """A virtual environment with the wheel and, by their path, the packages that it needs.

    A path in a .pth file hands on packages, but not an editable install of this project.
    """
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    wheel = build_wheel(tmp_path_factory.mktemp("source"))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    return folder


@pytest.fixture
def run(environment, tmp_path):
    """Runs a program of the environment in an empty directory; its standard output."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(program: str, *arguments: str) -> str:
        command = [str(environment / "bin" / program), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_repository_is_out_of_reach(run):
    files = run("python", "-c", "import mxdot.model, sys; print(mxdot.model.__file__, *sys.path)")
    assert not [path for path in files.split() if Path(path).is_relative_to(ROOT / "model")]
    assert str(ROOT) not in files.split()


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("compare errors mxfp4,nvfp4 --rows 8 --length 64 --calibrate none", "real mlp_down"),
        ("compare errors mxfp4 --data real --rows 8", "real query"),
        ("compare --data real --flow none --format e2m1 --accumulator exact --lanes 8", " real "),
        ("compare --flow none --format e2m1 --accumulator exact --lanes 8 --count 8", " real "),
        ("compare schemes mxfp4 --flow none", "mxfp4"),
        ("probe --unit ada --rows 16", "fits: ada in blocks of 32"),
        ("sim --list", "hopper-all-x16-s5"),
        ("verilog --lanes 4", "module mxdot_dot ("),
        ("verilog quantize --block 4", "module mxdot_quantize ("),
    ],
)
def test_commands(command, shown, run):
    assert shown in run("mxdot", *command.split())
