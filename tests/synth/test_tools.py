"""Tools end with their caller, and so does what they start, however the caller ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mxdot.synth import SynthesisError, tools
from processes import comes, ended

# As Yosys starts ABC: a program that starts another and waits for it, both told by their numbers.
TOOL = (
    "import os, subprocess, sys; "
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
    "print(os.getpid(), child.pid, flush=True); child.wait()"
)
RUN = (
    "import sys; from pathlib import Path; from mxdot.synth import tools; "
    f"tools._run([sys.executable, '-c', {TOOL!r}], Path('.'), 'x', 60, 'x', {{}})"
)
POOL = f"""
from mxdot.compare.studies import processes

if __name__ == "__main__":
    with processes(1).open(1) as executor:
        executor.submit(exec, {RUN!r}).result()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("script", [RUN, POOL], ids=["process", "worker"])
def test_tools_end_with_their_caller(tmp_path, script, number):
    (tmp_path / "script.py").write_text(script)
    caller = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stderr=subprocess.DEVNULL,
        # A background job ignores SIGINT, and so do its children unless told otherwise.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    started = running(tmp_path / "log.txt")
    caller.send_signal(number)
    assert caller.wait(timeout=20) != 0
    assert ended(started, 10)


def test_tools_end_at_their_limit(tmp_path):
    with pytest.raises(SynthesisError, match=r"x on y took longer than 2 s"):
        tools._run([sys.executable, "-c", TOOL], tmp_path, "y", 2, "x", {})
    started = running(tmp_path / "log.txt")
    assert ended(started, 10)


def running(log: Path) -> list[int]:
    """The processes that TOOL tells, once it has told them."""
    assert comes(lambda: log.is_file() and log.read_text().endswith("\n"))
    return [int(word) for word in log.read_text().split()]
