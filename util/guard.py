"""Run a program and end it, with all that it started, when the caller is gone.

python guard.py COMMAND ...: the caller holds the other end of standard input, which closes however
the caller ends, were it by kill -9. The guard leads a process group; a death by signal n is told as
status 128 + n. This file is run by itself and imports nothing of the package.
"""

import os
import signal
import subprocess
import sys
import threading


def _follow() -> None:
    os.read(0, 1)  # nothing is ever written: it returns at the end of the file
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_follow, daemon=True).start()
    status = subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL)
    os._exit(status if status >= 0 else 128 - status)
