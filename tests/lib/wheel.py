"""The wheel of the project, built without a network."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def build_wheel(folder: Path) -> Path:
    """The wheel, from a copy of the project in `folder`, for a build leaves files behind."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    for path in ROOT.glob("*"):
        if path.is_file():
            shutil.copy(path, folder)
    offline = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet"]
    command = [sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", "dist", "."]
    subprocess.run(command, cwd=folder, check=True)
    (path,) = (folder / "dist").glob("mxdot-*.whl")
    return path
