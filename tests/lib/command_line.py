"""`mxdot` as tests call it."""

import os
import shlex
import subprocess
import sys

import pytest

from mxdot.cli import main

ERROR = "mxdot: error: "


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str, str]:
    """(exit status, standard output, standard error) of `mxdot` with these arguments."""
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    out, err = capsys.readouterr()
    return status, out, err


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line with which `mxdot` refuses these arguments, without the words before it."""
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, ""), arguments
    assert err.startswith(ERROR), err
    assert err.count("\n") == 1, err
    return err[len(ERROR) : -1]


def of_process(*arguments: str, closed: bool = False, **environment: str) -> tuple[int, str, str]:
    """(exit status, output, errors) of a process; closed: without a standard output."""
    words = shlex.join([sys.executable, *arguments])
    done = subprocess.run(
        ["bash", "-c", f"exec {words}{' >&-' * closed}"],
        env=os.environ | environment,
        capture_output=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout.decode("latin-1"), done.stderr.decode()
