"""The wheel holds every package and data file; the model imports without the hardware tools."""

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from wheel import PACKAGES, ROOT, build_wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("source"))) as archive:
        archive.extractall(folder)
    return folder


def files(directory: Path) -> set[str]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix() for path in paths if path.suffix != ".pyc"}


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_holds_every_file_of_a_package(wheel, package):
    assert files(wheel / "mxdot" / package) == files(ROOT / package)


def test_wheel_holds_nothing_else(wheel):
    assert {path.name for path in wheel.iterdir()} == {"mxdot", "mxdot-0.1.0.dist-info"}
    assert {path.name for path in (wheel / "mxdot").iterdir()} == set(PACKAGES)


def test_wheel_metadata(wheel):
    (info,) = wheel.glob("*.dist-info")
    scripts = configparser.ConfigParser()
    scripts.read(info / "entry_points.txt")
    assert dict(scripts["console_scripts"]) == {"mxdot": "mxdot.cli:main"}
    assert "Apache License" in (info / "licenses" / "LICENSE").read_text()


def test_model_imports_with_numpy_and_ml_dtypes_alone(wheel):
    """Every other installed package is made impossible to import."""
    script = """
import importlib.metadata, sys
for name, owners in importlib.metadata.packages_distributions().items():
    if not {"numpy", "ml_dtypes", "mxdot"} & set(owners):
        sys.modules[name] = None
import mxdot.model
from mxdot.model import E4M3, quantize, dot
import numpy as np
x = quantize(np.ones((1, 32), np.float32), E4M3)
assert mxdot.model.__file__.startswith(sys.argv[1]), mxdot.model.__file__
assert dot(x, x, "aligned:13") == 32
"""
    command = [sys.executable, "-c", script, str(wheel)]
    env = {"PYTHONPATH": str(wheel)}
    subprocess.run(command, cwd=wheel, env=env, check=True)
