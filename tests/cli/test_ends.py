"""A command leaves no temporary files, and the next one removes those of a killed one."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

KILLED = """
import os, signal, sys, tempfile
from mxdot import cli
sys.argv = ["mxdot", "machines"]
cli._run = lambda args: (tempfile.mkdtemp(), os.kill(os.getpid(), signal.SIGKILL))
cli.main()
"""


@pytest.fixture
def short():
    """A directory of a short name, as those of users are."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def test_temporary_files_go_with_their_command(short):
    environment = os.environ | {"TMPDIR": str(short)}
    killed = subprocess.run([sys.executable, "-c", KILLED], env=environment)
    assert killed.returncode == -signal.SIGKILL
    (left,) = short.iterdir()
    assert len(list(left.iterdir())) == 2  # its lock and what it made
    command = [sys.executable, "-m", "mxdot.cli", "machines"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert list(short.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_no_obstacle(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path / "none")}
    command = [sys.executable, "-m", "mxdot.cli", "machines"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
