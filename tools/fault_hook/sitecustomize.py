"""Read by each Python that tools/faults.py starts: faults of the first of them, and its clock.

MXDOT_FAULT_AT: `SIGNAL:N:FILE`, the signal that this process gets just before its Nth rename, 0
for none; FILE gets a byte per rename. MXDOT_FAULT_CLOCK: seconds by which the clock is back.
"""

import os
import sys
import time


def _renames(at: str) -> None:
    """Count renames, and send the signal before one of them."""
    number, place, name = at.split(":", 2)
    log = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = 0

    def hook(event: str, _: tuple) -> None:
        nonlocal count
        if event == "os.rename" and os.getpid() == own:
            count += 1
            os.write(log, b".")
            if count == int(place):
                os.kill(own, int(number))

    own = os.getpid()
    sys.addaudithook(hook)


def _set_back(seconds: float) -> None:
    real, text = time.time, time.strftime
    time.time = lambda: real() - seconds
    time.strftime = lambda form, *at: text(form, *(at or (time.localtime(time.time()),)))


if at := os.environ.pop("MXDOT_FAULT_AT", ""):  # not for what this process starts
    _renames(at)
if back := os.environ.get("MXDOT_FAULT_CLOCK"):
    _set_back(float(back))
