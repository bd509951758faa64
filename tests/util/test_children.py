"""Programs end with their caller, and SIGTERM is as Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mxdot.util import children

CALLER = """
import sys
from mxdot.util import children
program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
children.run([sys.executable, "-c", program], stdout=None)
"""


def test_output_and_status():
    done = children.run(["sh", "-c", "cat; echo out; echo err >&2; exit 3"], text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert children.run(["sh", "-c", "kill -9 $$"]).returncode == -signal.SIGKILL


def test_a_limit():
    begun = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        children.run(["sleep", "60"], timeout=0.2)
    assert time.monotonic() < begun + 30


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_ends_with_its_caller(number):
    caller = subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    program = Path(f"/proc/{int(caller.stdout.readline())}")
    assert program.exists()
    caller.send_signal(number)
    caller.wait(60)
    caller.stdout.close()
    end = time.monotonic() + 30
    while program.exists() and "\nState:\tZ" not in (program / "status").read_text():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_sigterm_is_an_interrupt():
    before = signal.getsignal(signal.SIGTERM)

    def killed():
        with children.terminate_as_interrupt():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        killed()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_thread_takes_no_signals():
    reached = []

    def work():
        with children.terminate_as_interrupt():
            reached.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert reached == [True]


def test_texts_that_blame_the_machine():
    assert children.blames_machine("write: No space left on device")
    assert children.blames_machine("ABC on x ended with signal 9: no output")
    assert not children.blames_machine("AssertionError: 3 != 4")
