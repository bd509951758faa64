"""The wheel holds every package and data file; the model imports without the hardware tools."""

import configparser
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, unpacked; built without a network from a copy, for a build leaves files behind."""
    source = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, source / package, ignore=ignored)
    for path in ROOT.glob("*"):
        if path.is_file():
            shutil.copy(path, source)
    offline = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet"]
    command = [sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", "dist", "."]
    subprocess.run(command, cwd=source, check=True)
    (path,) = (source / "dist").glob("mxdot-*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(source / "unpacked")
    return source / "unpacked"


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
