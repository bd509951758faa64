"""What the commands of proofs, mutants and coverage share: arguments, and how they end."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable

from ..model.errors import one_line
from ..sim.engine.toolchain import ToolError
from ..synth.errors import SynthesisError


def parser(name: str, documentation: str | None, things: str) -> ArgumentParser:
    """Of a module's command, with what chooses among `things` and lists them."""
    assert documentation
    made = ArgumentParser(name, description=documentation.partition("\n")[0])
    made.add_argument("--only", default="", metavar="TEXT", help=f"{things} whose names have it")
    made.add_argument("--list", action="store_true", help=f"names of {things}, and no more")
    return made


def limit_above_0(limit: float) -> None:
    """ValueError unless `limit`, in seconds, is one."""
    if not limit > 0:
        raise ValueError(f"limit must be above 0, not {limit:g}")


def status(name: str, run: Callable[[], int], kept: str = "") -> int:
    """Of `run`, which raises ValueError for a bad argument: its own, or, with a line on standard
    error, 2 when it cannot and 130 when it is interrupted. kept: what is not lost then."""
    try:
        return run()
    except ModuleNotFoundError as error:
        line = f"error: needs {error.name}: pip install 'mxdot[compare]'"
    except (SynthesisError, ToolError, OSError, RuntimeError, ValueError) as error:
        line = f"error: {one_line(str(error))}"
    except KeyboardInterrupt:
        print(f"{name}: interrupted{kept}", file=sys.stderr)
        return 130
    print(f"{name}: {line}", file=sys.stderr)
    return 2
