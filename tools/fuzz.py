"""Run every fuzz test again and again, each time on new inputs, for so many minutes.

    python tools/fuzz.py MINUTES GPU_PYTHON

GPU_PYTHON runs those of tests/gpu. Every round takes all files; the last one is finished. What
fails is printed by hypothesis with the input, and tried first the next time (.hypothesis).
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
OPTIONS = "addopts=--import-mode=importlib --strict-markers --benchmark-disable"


def main() -> int:
    """Exit status 1 after a round in which a test failed."""
    parser = argparse.ArgumentParser(description="run every fuzz test for so many minutes")
    parser.add_argument("minutes", type=float)
    parser.add_argument("gpu_python")
    args = parser.parse_args()
    if not 0 < args.minutes < 10**6:
        parser.error(f"minutes must be more than 0 and less than {10**6}, not {args.minutes}")
    end = time.monotonic() + 60 * args.minutes
    folders = {f"tests/{room}": sys.executable for room in ("sim", "cli", "synth", "compare")}
    folders |= {f"tests/{room}": args.gpu_python for room in ("gpu", "nn")}
    environment = {**os.environ, "MXDOT_FULL": "1"}
    files = {room: sorted(map(str, (ROOT / room).glob("test_fuzz_*.py"))) for room in folders}
    rounds = 0
    while True:
        rounds, failed = rounds + 1, False
        for folder, python in folders.items():
            command = [python, "-m", "pytest", "-q", "-o", OPTIONS, *files[folder]]
            failed |= subprocess.run(command, cwd=ROOT, env=environment).returncode != 0
        if failed or time.monotonic() >= end:
            what = f"{rounds} rounds of {sum(map(len, files.values()))} files of tests"
            print(f"{what}: {'one failed' if failed else 'all passed'}", flush=True)
            return int(failed)


if __name__ == "__main__":
    sys.exit(main())
