"""The failure report."""

from pathlib import Path
from .job import Failure, UnitJob


def describe_failure(job: UnitJob, verilog: Path, failure: Failure) -> str:
    return str(failure)
